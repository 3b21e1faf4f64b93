/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/saving.h"

#include "daemon/log.h"
#include "daemon/shares.h"
#include "proc/proc.h"
#include "util/clock.h"
#include "util/own.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define MIB (1u << 20)
#ifndef MINUTE_NS /* a build for tests has shorter minutes, with fewer early drains */
#define MINUTE_NS 60000000000ull
#define EARLY_DRAINS 60 /* in a minute */
#endif
#define NOISE_BYTES (4u * MIB)
#define FEWER_ROWS 8 /* under the last step, one row in so many */

void saving_init(struct saving *s)
{
	struct own_memory own;
	*s = (struct saving){ 0 };
	own_memory(&own);
	s->program_bytes = own.files; /* no map is mapped yet */
}

/* ---- detail ---- */

void saving_apply(const struct saving *s, const struct saving_limits *l, struct collector *c)
{
	struct shares share;
	const unsigned cpu = s->governor.cpu.step, memory = s->governor.memory.step;
	shares_of(l->memory, memory, &share);
	const struct collector_detail d = {
		.names = { cpu >= CPU_NO_LINES || memory >= MEMORY_NO_CACHES,
			   cpu >= CPU_NO_COLD_NAMES },
		.fresh_workers = memory >= MEMORY_NO_CACHES,
		.no_wait_stacks = cpu >= CPU_NO_WAIT_STACKS || memory >= MEMORY_NO_WAIT_STACKS,
		.worker_memory = share.worker,
		.workers = share.workers,
		.symbols_bytes = memory >= MEMORY_NO_CACHES ? share.symbols / 8 : share.symbols,
		.rows_max = memory >= MEMORY_FEWER_ROWS ? share.rows / FEWER_ROWS : share.rows,
		.dictionaries_max = l->memory ? share.dictionaries / 2 * 3 : 0,
	};
	collector_set_detail(c, &d);
}

/* ---- at the start ---- */

static uint64_t kernel_bytes(const struct account *a)
{
	return a->part[ACCOUNT_tables] + a->part[ACCOUNT_rings] + a->part[ACCOUNT_threads] +
	       a->part[ACCOUNT_unwind];
}

int saving_check(struct saving *s, const struct saving_limits *l, struct collector *c,
		 struct err *err)
{
	struct collector_progress p;
	struct account a;
	char text[200];
	collector_progress(c, &p);
	account_read(&a, &p, s->program_bytes, 0);
	if (!s->base)
		s->base = a.total - kernel_bytes(&a);
	a.total = s->base + kernel_bytes(&a);
	if (!s->account.total) {
		s->account = a;
		s->account.reserved = l->memory / ACCOUNT_WORKERS;
	}
	uint64_t needs = account_needs(&a);
	/* Add some: the next start may need more. */
	s->needs = needs + NOISE_BYTES;
	if (!l->memory || l->memory >= needs)
		return 0;
	return err_set(
		err, -E2BIG,
		"memory-max is too small: %.1f MiB are given, at least %.0f MiB are needed here "
		"(%s, and room to work)",
		(double)l->memory / MIB, (double)s->needs / MIB,
		account_text(&a, text, sizeof(text)));
}

bool saving_has_room(const struct saving *s, const struct saving_limits *l)
{
	return !l->memory || s->account.total + kernel_bytes(&s->account) <= l->memory;
}

uint64_t saving_room(const struct saving *s, const struct saving_limits *l)
{
	/* The governor begins to give things up at 95% */
	const uint64_t taken = s->account.total + s->account.reserved - s->kept;
	const uint64_t most = l->memory / 10 * 9;
	return !l->memory ? UINT64_MAX : most > taken ? most - taken : 0;
}

/* ---- looking ---- */

static const char *const cpu_given_up[CPU_STEPS] = {
	[CPU_NO_LINES] = "inlined calls and lines are no longer looked up",
	[CPU_NO_COLD_NAMES] = "files with few samples are no longer read for their names",
	[CPU_NO_WAIT_STACKS] = "stacks of waits are no longer taken",
	[CPU_HALF_RATE] = "each sample stands for 2 now",
	[CPU_QUARTER_RATE] = "each sample stands for 4 now",
	[CPU_NO_WAITS] = "waits are no longer measured",
};
/* Texts for taking back a step. */
static const char *const cpu_taken_back[CPU_STEPS] = {
	[CPU_NO_LINES] = "inlined calls and lines are looked up again",
	[CPU_NO_COLD_NAMES] = "files with few samples are read for their names again",
	[CPU_NO_WAIT_STACKS] = "stacks of waits are taken again",
	[CPU_HALF_RATE] = "each sample stands for 1 now",
	[CPU_QUARTER_RATE] = "each sample stands for 2 now",
	[CPU_NO_WAITS] = "waits are measured again",
};
static const char *const memory_given_up[MEMORY_STEPS] = {
	[MEMORY_NO_CACHES] = "caches are given up, and half of what questions may use",
	[MEMORY_NO_WAIT_STACKS] = "stacks of waits are no longer taken",
	[MEMORY_FEWER_ROWS] = "more of the small rows of each label set become (other)",
};
static const char *const memory_taken_back[MEMORY_STEPS] = {
	[MEMORY_NO_CACHES] = "caches are kept again, and questions may use twice as much",
	[MEMORY_NO_WAIT_STACKS] = "stacks of waits are taken again",
	[MEMORY_FEWER_ROWS] = "small rows are kept again",
};

/* Add the CPU time since the last look, and return it. A new recorder counts from 0 again. */
static uint64_t add_cpu(struct saving *s, unsigned i, uint64_t now)
{
	uint64_t more = now >= s->cpu_last[i] ? now - s->cpu_last[i] : now;
	s->cpu_ns += more;
	s->cpu_last[i] = now;
	return more;
}

static struct governor_reading read_use(struct saving *s, struct collector *c,
					const struct collector_progress *p)
{
	uint64_t now = proc_now_ns();
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	add_cpu(s, 0, p->parsing.cpu_ns);
	add_cpu(s, 1, s->account.children_cpu_ns);
	const struct sampler_bpf_ns bpf = collector_bpf_ns(c, now);
	s->sampling_ns += add_cpu(s, 2, bpf.sampling);
	add_cpu(s, 3, bpf.others);
	/* The process that serves is left out: recording less makes no question cheaper. */
	return (struct governor_reading){ now, s->cpu_ns + clock_ns(CLOCK_PROCESS_CPUTIME_ID),
					  s->sampling_ns, n > 0 ? (unsigned)n : 1,
					  s->account.total + s->account.more +
						  s->account.reserved };
}

/* Log each step that the last look gave up or took back. */
static void log_cpu(const struct saving *s, const struct saving_limits *l, enum governor_move move)
{
	const struct governor *g = &s->governor;
	for (unsigned step = 0; step < CPU_STEPS; step++) {
		if (!(g->cpu.moved >> step & 1))
			continue;
		if (move == GOVERNOR_GIVE_UP)
			log_line(LOG_LINE_WARNING,
				 "%.3g%% of all CPUs were used for a minute, more than cpu-max "
				 "(%.3g%%): %s",
				 g->cpu_share * 100, l->cpu * 100, cpu_given_up[step]);
		else
			log_line(LOG_LINE_INFO, "CPU use is low again (%.3g%% of all CPUs): %s",
				 g->cpu_share * 100, cpu_taken_back[step]);
	}
}

static void log_memory(const struct saving *s, const struct saving_limits *l,
		       enum governor_move move)
{
	char text[200];
	double used = (double)s->account.total / MIB;
	for (unsigned step = 0; step < MEMORY_STEPS; step++) {
		if (!(s->governor.memory.moved >> step & 1))
			continue;
		if (move == GOVERNOR_GIVE_UP)
			log_line(
				LOG_LINE_WARNING,
				"%.1f MiB of memory are in use (%s), %.1f MiB are kept for parsers "
				"and a capture, close to memory-max (%.1f MiB): %s",
				used, account_text(&s->account, text, sizeof(text)),
				(double)s->account.reserved / MIB, (double)l->memory / MIB,
				memory_given_up[step]);
		else
			log_line(LOG_LINE_INFO, "memory use is low again (%.1f MiB): %s", used,
				 memory_taken_back[step]);
	}
}

/* Log once that cpu-max is exceeded although all steps were taken. */
static void look_at_cpu_excess(struct saving *s, const struct governor_limits *l,
			       enum governor_move move)
{
	const struct governor *g = &s->governor;
	bool over = l->cpu > 0 && g->measured && g->cpu_share > l->cpu &&
		    governor_cpu_is_last(g, l) && !move;
	if (over && !s->cpu_over)
		log_line(LOG_LINE_ERROR,
			 "%.3g%% of all CPUs were used for a minute: cpu-max (%.3g%%) cannot be "
			 "kept, give more",
			 g->cpu_share * 100, l->cpu * 100);
	s->cpu_over = over;
}

/* Log once that memory-max is exceeded although all steps were taken. */
static void look_at_memory_excess(struct saving *s, const struct saving_limits *l,
				  enum governor_move move)
{
	char text[200];
	bool over = l->memory && s->account.total > l->memory &&
		    s->governor.memory.step == MEMORY_FEWER_ROWS && !move;
	if (over && !s->memory_over)
		log_line(LOG_LINE_ERROR,
			 "%.1f MiB of memory are in use (%s): memory-max (%.1f MiB) cannot be "
			 "kept, give more",
			 (double)s->account.total / MIB,
			 account_text(&s->account, text, sizeof(text)), (double)l->memory / MIB);
	s->memory_over = over;
}

/*
 * Tables that are nearly full are drained early, at some cost and with some risk to fill. When that
 * was often in a minute there shall be twice as many rows, if the budgets have room for two
 * recorders at a time.
 */
static bool look_at_tables(struct saving *s, const struct saving_limits *l,
			   const struct collector_progress *p, uint64_t now)
{
	if (!s->tables.since_ns || p->early_drains < s->tables.early_drains) {
		s->tables.since_ns = now;
		s->tables.early_drains = p->early_drains;
		return false;
	}
	if (now - s->tables.since_ns < MINUTE_NS)
		return false;
	uint64_t more = p->early_drains - s->tables.early_drains;
	s->tables.since_ns = now;
	s->tables.early_drains = p->early_drains;
	if (more < EARLY_DRAINS || !p->tables_may_grow || s->governor.memory.step ||
	    !saving_has_room(s, l))
		return false;
	s->tables.rows = 2 * p->table_rows;
	log_line(LOG_LINE_INFO,
		 "tables were nearly full %" PRIu64 " times in a minute: there are %" PRIu32
		 " rows for each CPU now",
		 more, s->tables.rows);
	return true;
}

struct saving_todo saving_look(struct saving *s, const struct saving_limits *l, struct collector *c,
			       const struct collector_progress *p, uint64_t server, uint64_t kept)
{
	struct governor *g = &s->governor;
	const unsigned weight = governor_weight(g);
	const bool waits = governor_waits(g);
	const struct governor_limits limits = { l->cpu, l->memory, l->waits, l->only_waits,
						l->hits	     ? 1
						: l->hz >= 4 ? 4
						: l->hz >= 2 ? 2
							     : 1 };
	account_read(&s->account, p, s->program_bytes, server);
	s->account.reserved += kept;
	s->kept = kept;
	if (!s->peaks)
		s->account.more = 0;
	s->peaks = own_begin_peak();
	const struct governor_reading now = read_use(s, c, p);
	enum governor_move in_memory = governor_look_at_memory(g, &limits, &now);
	enum governor_move in_cpu = governor_look_at_cpu(g, &limits, &now);
	log_cpu(s, l, in_cpu);
	log_memory(s, l, in_memory);
	look_at_cpu_excess(s, &limits, in_cpu);
	look_at_memory_excess(s, l, in_memory);
	if (in_cpu || in_memory)
		saving_apply(s, l, c);
	bool tables = look_at_tables(s, l, p, now.now_ns);
	return (struct saving_todo){ governor_weight(g) != weight,
				     l->waits && governor_waits(g) != waits, tables,
				     in_memory && (g->memory.moved >> MEMORY_NO_CACHES & 1) };
}
