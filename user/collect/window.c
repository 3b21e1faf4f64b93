/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/window.h"

#include "util/own.h"

#include "collect/collector.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS 1000000000ull

/* Counters of the BPF programs, by flag. */
static const int lost_counter[] = {
#define LOST(id, help) COUNTER_##id,
#define FLAG(id, help)
#include "counters.def"
#undef LOST
#undef FLAG
};
static const int flagged_counter[] = {
#define LOST(id, help)
#define FLAG(id, help) COUNTER_##id,
#include "counters.def"
#undef LOST
#undef FLAG
};
#define N_LOST (sizeof(lost_counter) / sizeof(lost_counter[0]))
#define N_FLAGGED (sizeof(flagged_counter) / sizeof(flagged_counter[0]))

/* The place of `idle` among the flags. */
enum {
#define LOST(id, help)
#define FLAG(id, help) AT_##id,
#include "counters.def"
#undef LOST
#undef FLAG
};
const size_t window_idle_flag = AT_idle;

struct window {
	struct sampler *sampler;
	const struct sandbox *sandbox;
	unsigned n_cpus, weight;
	bool waits_saved; /* sampler_config */
	struct window_cpu *cpu;
	struct store_cpu_totals *totals;
	uint64_t *totals_counters, *idle_ns;
	uint64_t own_cpu_ns, bad_cpu;
};

int window_new(struct window **ret, struct sampler *s, const struct sandbox *sb,
	       const struct sampler_config *cfg)
{
	struct window *w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->sampler = s;
	w->sandbox = sb;
	w->weight = cfg->weight;
	w->waits_saved = cfg->waits_saved;
	w->n_cpus = sampler_n_cpus(s);
	w->cpu = calloc(w->n_cpus, sizeof(*w->cpu));
	w->totals = calloc(w->n_cpus, sizeof(*w->totals));
	w->totals_counters = calloc(w->n_cpus * (N_LOST + N_FLAGGED), sizeof(uint64_t));
	w->idle_ns = calloc(w->n_cpus, sizeof(*w->idle_ns));
	if (!w->idle_ns || !w->cpu || !w->totals || !w->totals_counters) {
		window_free(w);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < w->n_cpus; i++) {
		w->totals[i].lost = w->totals_counters + i * (N_LOST + N_FLAGGED);
		w->totals[i].flagged = w->totals[i].lost + N_LOST;
	}
	*ret = w;
	return 0;
}

void window_free(struct window *w)
{
	if (!w)
		return;
	free(w->cpu);
	free(w->totals);
	free(w->totals_counters);
	free(w->idle_ns);
	free(w);
}

struct window_cpu *window_cpu(struct window *w, unsigned cpu)
{
	return &w->cpu[cpu];
}

/* Return the CPU time of this process, of the workers, and of the keeper, which loads programs. */
static uint64_t own_cpu(const struct window *w)
{
	struct sandbox_stats parsing;
	sandbox_stats(w->sandbox, &parsing);
	return parsing.cpu_ns + own_cpu_ns() + keeper_cpu_ns();
}

/*
 * Idle time of each CPU since boot, from /proc/stat: idle and waiting for I/O, in ticks of 10 ms.
 */
static void read_idle(struct window *w)
{
	char line[512];
	unsigned cpu;
	uint64_t idle, iowait;
	FILE *f = fopen("/proc/stat", "re");
	uint64_t tick = NS / (uint64_t)sysconf(_SC_CLK_TCK);
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "cpu%u %*u %*u %*u %" SCNu64 " %" SCNu64, &cpu, &idle, &iowait) ==
			    3 &&
		    cpu < w->n_cpus)
			w->idle_ns[cpu] = (idle + iowait) * tick;
	if (f)
		fclose(f);
}

/*
 * Count samples that fired without a run of the program. While events run, one sample of each may
 * be between its count and its program; that one is left out until the end. An idle CPU may stop
 * its timer (haltpoll, packed virtual CPUs): the clock counts on, and nothing runs. The part of the
 * rest that the CPU's idle time explains is idle_not_run.
 */
static void count_not_run(struct window *all, unsigned cpu, bool stopped)
{
	struct window_cpu *w = &all->cpu[cpu];
	struct sampler_fired f;
	sampler_fired(all->sampler, cpu, &f);
	uint64_t missing = f.fired - f.ran, slack = stopped ? 0 : f.behind, idle = 0;
	uint64_t reported = w->not_run + w->idle_not_run;
	if (missing <= reported + slack)
		return;
	uint64_t more = missing - slack - reported;
	if (f.clock_ns) {
		/* allow two ticks and a period of rounding */
		uint64_t periods =
			(all->idle_ns[cpu] - w->idle_base_ns + 20000000) / f.clock_ns + 1;
		uint64_t unsampled = periods > f.idle ? periods - f.idle : 0;
		idle = unsampled > w->idle_not_run ? unsampled - w->idle_not_run : 0;
		if (idle > more)
			idle = more;
	}
	w->counter[COUNTER_idle_not_run] += idle;
	w->counter[COUNTER_not_run] += more - idle;
	w->idle_not_run += idle;
	w->not_run += more - idle;
	w->used = true;
}

static uint64_t at_most(uint64_t v, uint64_t max)
{
	return v < max ? v : max;
}

/* Multiply all counts by the weight of a sample. */
static void weigh(struct store_cpu_totals *t, unsigned weight)
{
	t->fired *= weight;
	t->stored *= weight;
	for (size_t i = 0; i < N_LOST; i++)
		t->lost[i] *= weight;
	for (size_t i = 0; i < N_FLAGGED; i++)
		t->flagged[i] *= weight;
	t->flagged[AT_reduced_rate] = t->stored;
}

void window_end(struct window *w, bool stopped)
{
	uint64_t bad = sampler_bad_cpu(w->sampler);
	w->cpu[0].counter[COUNTER_bad_cpu] += bad - w->bad_cpu;
	w->bad_cpu = bad;
	read_idle(w);
	for (unsigned cpu = 0; cpu < w->n_cpus; cpu++)
		count_not_run(w, cpu, stopped);
}

/*
 * Three independent counts: stored counts rows, each loss is counted where it happens, and fired
 * counts runs of the programs plus samples that they did not see. `ascribe stat` and the tests
 * compare them.
 */
size_t window_totals(struct window *w, struct store_totals *ret)
{
	size_t n = 0;
	memset(ret, 0, sizeof(*ret));
	for (unsigned cpu = 0; cpu < w->n_cpus; cpu++) {
		struct window_cpu *c = &w->cpu[cpu];
		if (!c->used)
			continue;
		struct store_cpu_totals *o = &w->totals[n++];
		o->cpu = cpu;
		o->stored = c->stored;
		o->fired = c->ran - c->outside - c->thinned + c->counter[COUNTER_not_run] +
			   c->counter[COUNTER_idle_not_run] + c->counter[COUNTER_bad_cpu];
		for (size_t i = 0; i < N_LOST; i++)
			o->lost[i] = c->counter[lost_counter[i]];
		/* The programs have flagged what the selection left out here, too */
		for (size_t i = 0; i < N_FLAGGED; i++)
			o->flagged[i] = at_most(c->counter[flagged_counter[i]],
						c->left_out ? c->stored : UINT64_MAX);
		ret->outside += c->outside * w->weight;
		if (w->weight > 1)
			weigh(o, w->weight);
		if (w->waits_saved)
			o->flagged[AT_waits_saved] = o->stored;
	}
	ret->cpu = w->totals;
	ret->n_cpus = n;
	uint64_t cpu_ns = own_cpu(w);
	ret->own_cpu_ns = cpu_ns - w->own_cpu_ns;
	ret->own_rss = own_rss_bytes();
	return n;
}

void window_start(struct window *w, bool resumed)
{
	w->own_cpu_ns = resumed ? own_cpu(w) : 0; /* the first window has the cost of the start */
	read_idle(w);
	for (unsigned i = 0; i < w->n_cpus; i++)
		w->cpu[i].idle_base_ns = w->idle_ns[i];
}

void window_clear(struct window *w)
{
	for (unsigned i = 0; i < w->n_cpus; i++) {
		struct window_cpu *c = &w->cpu[i];
		*c = (struct window_cpu){ .not_run = c->not_run,
					  .idle_not_run = c->idle_not_run,
					  .idle_base_ns = c->idle_base_ns,
					  .unkept = c->unkept };
	}
	w->own_cpu_ns = own_cpu(w);
}

void window_add_unkept(struct window_cpu *c, uint32_t half)
{
	bool second = c->unkept.of[0].n && c->unkept.of[0].half != half;
	c->unkept.of[second].half = half;
	c->unkept.of[second].n++;
}

void window_take_unkept(struct window_cpu *c, uint32_t half)
{
	for (unsigned i = 0; i < 2; i++) {
		if (c->unkept.of[i].half != half)
			continue;
		c->counter[COUNTER_user_memory] += c->unkept.of[i].n;
		c->unkept.of[i].n = 0;
	}
}

void window_lost(struct window *w)
{
	for (unsigned i = 0; i < w->n_cpus; i++) {
		struct window_cpu *c = &w->cpu[i];
		c->counter[COUNTER_store_failed] += c->stored;
		c->stored = 0;
		for (size_t f = 0; f < N_FLAGGED; f++)
			c->counter[flagged_counter[f]] = 0;
	}
}
