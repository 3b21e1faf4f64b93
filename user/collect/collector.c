/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/collector_int.h"

#include "attribute/file_facts.h"
#include "collect/probes.h"
#include "hist/metrics.h"
#include "proc/reader.h"
#include "sandbox/nursery.h"
#include "store/writer.h"
#include "symbols/variables.h"
#include "unwind/request.h"
#include "util/counters.h"
#include "util/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define UNWIND_BUDGET (64u << 20) /* bytes of unwind rows, made as they are needed */
#define UNWIND_OP SYMBOLS_OPS	  /* behind those of symbols */
#define LAST_NAMES_NS (2 * NS)	  /* for names that are missing when recording ends */
#define SETTLED_NAMES_NS (NS / 5) /* the same, after collector_settle */
#define LAST_LOOK_MS 20
/* The time for the files of the last drain is as if drains were so far apart */
#define LAST_DRAIN_MS 10000
/* Between two looks at what parsers answered, while more is on its way, */
#define GO_ON_NS (NS / 50)
#define LOOK_AGAIN_NS (NS / 10) /* and where no answer came, */
/* And how many times the CPU time of that look, which may be for thousands of processes */
#define GO_ON_SHARE 3
/* And at rows that wait for names: it asks for all of their names */
#define ROWS_GO_ON_NS (NS / 10)
#define ROWS_GO_ON_SHARE 9 /* times the CPU time that the last such look took */
#define PARSER_SERVES 64   /* files until the parsing child is replaced */
/*
 * Read records of the BPF programs that follow each other together. A pause of 10 ms on 5 CPUs
 * fills half of the ring `copies` at most (bpf/copy.bpf.h); more CPUs have shorter pauses.
 */
#define RING_PAUSE_NS (NS / 100)
#define RING_PAUSE_CPUS 5

/* ---- life ---- */

int collector_open_store(struct store_writer **ret, const char *dir, const char *what,
			 const struct store_options *o, struct err *err)
{
	struct utsname u;
	char os[300];
	uname(&u);
	snprintf(os, sizeof(os), "%s %s %s", u.sysname, u.release, u.machine);
	struct store_meta meta = {
		.host = u.nodename,
		.os = os,
		.what = what,
		.lost_names = counters_lost_names,
		.n_lost = counters_n_lost,
		.flagged_names = counters_flagged_names,
		.n_flagged = counters_n_flagged,
		.created_ns = (int64_t)clock_ns(CLOCK_REALTIME),
	};
	return store_writer_open_with(ret, dir, &meta, o, err);
}

struct add_ring {
	struct collector *c;
	struct err *err;
	int rc;
};

static void add_ring(void *ctx, unsigned cpu)
{
	struct add_ring *a = ctx;
	if (!a->rc && cpu < a->c->n_cpus)
		a->rc = sideband_add_cpu(a->c->sideband, cpu, a->err);
}

/* What children do: they are this program, executed anew, so the table is a constant. */
static const sandbox_op parser_ops[] = { SYMBOLS_OPS_LIST,
					 [UNWIND_OP] = unwind_op,
					 [FILE_FACTS_OP] = file_facts_op,
					 [FILE_PATH_OP] = file_path_op,
					 [PROBE_OP] = probe_op,
					 [VARIABLES_OP] = variables_op };

static const struct sandbox_config parsing = {
	.nursery = collector_nursery_op,
	.ops = parser_ops,
	.n_ops = sizeof(parser_ops) / sizeof(parser_ops[0]),
	.reader = proc_reader_run,
	.memory = SYMBOLS_MEMORY,
	.serves = PARSER_SERVES,
};

int collector_nursery_op(const struct keeper_question *q, struct keeper_answer *ret,
			 struct err *err)
{
	return nursery_answer(&parsing, q, ret, err);
}

/* The children that parse foreign files. */
static int open_symbolizer(struct collector *c, size_t table_bytes, struct err *err)
{
	int rc = sandbox_new(&c->sandbox, &parsing, err);
	if (!rc) {
		sandbox_ready(c->sandbox, 0);
		proc_reader_start(c->sandbox);
	}
	struct symbolizer_config sc = { .sandbox = c->sandbox, .table_bytes = table_bytes };
	return rc ? rc : symbolizer_new(&c->symbolizer, &sc);
}

int collector_open(struct collector **ret, const struct sampler_config *cfg, struct store_writer *w,
		   struct err *ret_warning, struct err *err)
{
	struct collector *c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	struct err e = { 0 };
	own_init(&c->own);
	aside_init(&c->aside);
	c->store = w;
	c->cfg = *cfg;
	c->cfg.weight = cfg->weight ? cfg->weight : 1;
	c->instants.on = cfg->instants;
	int rc = proc_namespace(&c->cfg.pid_namespace, &e);
	rc = rc ? rc
		: open_symbolizer(c, cfg->symbols_bytes,
				  &e); /* its child is forked before anything else is open */
	struct probes probes = PROBES_NONE;
	rc = rc ? rc : probes_find(&probes, c->sandbox, &c->cfg, &e);
	rc = rc ? rc : sampler_open(&c->sampler, &c->cfg, &e);
	probes_fini(&probes, &c->cfg);
	if (!rc) {
		c->n_cpus = sampler_n_cpus(c->sampler);
		c->poll = calloc(c->n_cpus + 1, sizeof(*c->poll));
		rc = c->poll ? window_new(&c->window, c->sampler, c->sandbox, &c->cfg) : -ENOMEM;
	}
	rc = rc ? rc
		: sideband_open(&c->sideband, c->n_cpus, sampler_sideband_bytes(c->sampler), &e);
	if (!rc) {
		struct add_ring a = { c, &e, 0 };
		rc = sampler_cpu_list("/sys/devices/system/cpu/online", add_ring, &a);
		rc = rc ? rc : a.rc;
	}
	rc = rc ? rc : procs_new(&c->procs, resolver_file_gone);
	rc = rc ? rc : resolver_new(&c->resolver, w, c->symbolizer, c->procs, ret_warning);
	if (!rc && cfg->jvm_attach)
		resolver_ask_jvms(c->resolver);
	rc = rc ? rc : scripts_new(&c->scripts, w);
	if (!rc && cfg->wakers) {
		resolver_note_reasons(c->resolver, &c->reasons);
		scripts_note_reasons(c->scripts, &c->reasons);
		rc = locks_new(&c->locks, c->procs, c->resolver);
		c->waits.locks = c->locks;
	}
	rc = rc ? rc : labelling_new(&c->labelling, c->sampler, c->procs, c->resolver, cfg);
	rc = rc || !cfg->selection_rules
		     ? rc
		     : chooser_new(&c->chooser, cfg->selection_rules, c->sampler, c->procs);
	rc = rc ? rc : ruled_new(&c->ruled, cfg->recipes, &e);
	rc = rc ? rc : trampolines_new(&c->trampolines, c->procs, c->resolver);
	struct unwinding_config uc = { UNWIND_OP,
				       cfg->unwind_bytes ? cfg->unwind_bytes : UNWIND_BUDGET };
	rc = rc ? rc : unwinding_new(&c->unwinding, c->sampler, c->procs, c->resolver, &uc);
	rc = rc ? rc : copies_new(&c->copies, c->unwinding);
	c->sets = (struct sets){ c->procs, c->labelling, c->ruled, NULL, cfg->cmdline };
	c->waits.sets = &c->sets;
	c->waits.store = c->waits.spreads.store = c->heap.store = w;
	c->waits.weight = c->cfg.weight;
	rc = rc ? rc : windows_add_events(c);
	if (rc) {
		if (!e.code)
			err_sys(&e, rc, "starting to record");
		if (err)
			*err = e;
		collector_close(c);
		return rc;
	}
	labelling_on_known(c->labelling, news_on_known, c);
	sampler_on_record(c->sampler, news_on_record, c);
	sampler_on_copy(c->sampler, news_on_copy, c);
	c->sum.n_cpus = c->n_cpus;
	c->sum.drain_s = sampler_drain_ms(c->sampler) / 1000.0;
	*ret = c;
	return 0;
}

int collector_set_filter(struct collector *c, const struct label_filter *f,
			 const struct redactor *r)
{
	return labelling_set_filter(c->labelling, f, r);
}

void collector_set_pods(struct collector *c, struct pods *p)
{
	c->sets.pods = p;
	if (c->chooser)
		chooser_set_pods(c->chooser, p);
}

void collector_set_downloads(struct collector *c, struct downloads *d)
{
	c->downloads = d;
	resolver_set_downloads(c->resolver, d);
}

int collector_start(struct collector *c, struct err *err)
{
	symbolizer_begin(c->symbolizer, sampler_drain_ms(c->sampler));
	/* The side-band runs already. What was there before is read of /proc when it is sampled. */
	news_read(c);
	window_start(c->window, c->cfg.resumed);
	int rc = sampler_start(c->sampler, err);
	c->t0_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	uint64_t window = c->cfg.window_s * NS;
	c->next_window_ns = (int64_t)(((uint64_t)c->t0_ns / window + 1) * window);
	c->next_drain_ns = proc_now_ns() + sampler_drain_ms(c->sampler) * 1000000ull;
	return rc;
}

int collector_select(struct collector *c, uint32_t tgid)
{
	return sampler_select(c->sampler, tgid);
}

static void on_cpu_change(void *ctx, unsigned cpu, bool online)
{
	struct collector *c = ctx;
	if (online)
		sideband_add_cpu(c->sideband, cpu, NULL);
	else
		sideband_remove_cpu(c->sideband, cpu);
}

static int min_wait(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* What is due by the clock. CPUs that came and went, and files of probes, once a second. */
static void do_due(struct collector *c)
{
	uint64_t now = proc_now_ns();
	if (now >= c->next_cpus_ns) {
		const struct event *stale = sampler_end_stale_probes(c->sampler);
		if (stale)
			memcpy(c->sum.stale, stale->name, sizeof(c->sum.stale));
		c->next_cpus_ns = now + NS;
		if (sampler_follow_cpus(c->sampler, on_cpu_change, c)) {
			procs_lost(c->procs, c->news_ns); /* until the new CPU had a ring */
			unwinding_lost(c->unwinding);
		}
	}
	bool window = (int64_t)clock_ns(CLOCK_REALTIME) >= c->next_window_ns;
	bool due = window || c->filling || now >= c->next_drain_ns;
	/* In a storm of processes: so few of those that ended need be kept. */
	due |= procs_read_is_due(c->procs) && !c->closing;
	if (c->closing && !due && (!rows_wait(c) || now >= c->closing_ns))
		windows_write(c, &c->sum.failure);
	c->sum.early_drains += c->filling;
	if (due)
		windows_drain(c);
	if (window)
		windows_close(c);
}

/* BOOTTIME from which what waits for parsers may go on; idle: they have nothing more to do. */
static uint64_t go_on_at(const struct collector *c, bool answered, bool idle)
{
	/* At the end readers answer often: leave as much time to those that parse */
	uint64_t rest = (c->stopped ? 1 : GO_ON_SHARE) * c->go_on_spent_ns;
	uint64_t pause = c->stopped ? 0 : !answered ? LOOK_AGAIN_NS : idle ? 0 : GO_ON_NS;
	return c->go_on_ns + (pause > rest ? pause : rest);
}

/* Look at the rows that wait for names, unless that was done lately. */
static void look_at_rows(struct collector *c, uint64_t now, bool idle)
{
	uint64_t pause = idle ? 0 : ROWS_GO_ON_NS, begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (pause < ROWS_GO_ON_SHARE * c->rows_spent_ns)
		pause = ROWS_GO_ON_SHARE * c->rows_spent_ns;
	if (!rows_wait(c) || (!c->stopped && now < c->rows_ns + pause))
		return;
	c->rows_ns = now;
	rows_go_on(c, false);
	c->rows_spent_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	if (!c->stopped)
		c->go_on_spent_ns -= c->rows_spent_ns; /* no reason to let labels and rules wait */
}

/*
 * Go on with what waits for parsers or readers: at once when nothing more is on its way, else now
 * and then. Return ms until the next look.
 */
static int parse_go_on(struct collector *c, bool idle)
{
	struct sandbox_stats st;
	struct reader_stats reading;
	uint64_t now = proc_now_ns();
	sandbox_stats(c->sandbox, &st);
	proc_reader_stats(&reading);
	uint64_t n = st.answered + reading.moved;
	bool waits = rows_wait(c), answered = n != c->answered;
	if (!answered && !waits)
		return -1;
	uint64_t at = go_on_at(c, answered, idle);
	if (now < at)
		return ms_until(at, now);
	c->answered = n;
	c->go_on_ns = now;
	c->go_on_spent_ns = 0;
	c->follows = true;
	resolver_go_on(c->resolver);
	unwinding_go_on(c->unwinding);
	labelling_go_on(c->labelling);
	copies_go_on(c->copies);
	look_at_rows(c, now, idle);
	return rows_wait(c) ? (int)(LOOK_AGAIN_NS / 1000000) : -1;
}

/* Go on with what waits, and do what follows from it. Return ms until the next look. */
static int go_on(struct collector *c, bool idle)
{
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int wait = parse_go_on(c, idle);
	if (!c->stopped) {
		wait = min_wait(wait, labelling_tick(c->labelling));
		wait = min_wait(wait, unwinding_tick(c->unwinding));
		wait = min_wait(wait, copies_tick(c->copies, c->news_ns));
	}
	if (c->follows) {
		c->go_on_spent_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
		c->follows = wait == 0;
	}
	return wait;
}

/* The time from which the ring is read again. */
static uint64_t ring_pause_end(const struct collector *c, uint64_t now)
{
	return now + (c->n_cpus > RING_PAUSE_CPUS ? RING_PAUSE_NS * RING_PAUSE_CPUS / c->n_cpus
						  : RING_PAUSE_NS);
}

static size_t fill_poll(struct collector *c, bool paused)
{
	size_t n = 0;
	c->poll[n++] = (struct pollfd){ .fd = paused ? -1 : sampler_ring_fd(c->sampler),
					.events = POLLIN };
	for (unsigned i = 0; i < c->n_cpus; i++)
		if (sideband_fd(c->sideband, i) >= 0)
			c->poll[n++] = (struct pollfd){ .fd = sideband_fd(c->sideband, i),
							.events = POLLIN };
	return n;
}

static int pods_socket(const struct collector *c)
{
	return c->sets.pods ? pods_fd(c->sets.pods) : -1;
}

/* Rows that were put aside for names are looked at again by parse_go_on. */
static void receive_pods(struct collector *c)
{
	if (c->sets.pods)
		pods_receive(c->sets.pods);
}

#define OWN_FDS 4 /* downloads, parsers, readers, pods: behind those of the CPUs and the caller's */

int collector_run(struct collector *c, uint64_t until_ns, const int *fds, size_t n_fds,
		  struct err *err)
{
	struct pollfd *p = calloc(c->n_cpus + 1 + n_fds + OWN_FDS, sizeof(*p));
	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	int rc = 0;
	for (;;) {
		do_due(c);
		uint64_t now = proc_now_ns();
		int64_t real = (int64_t)clock_ns(CLOCK_REALTIME);
		if (now >= until_ns) {
			rc = -ETIME;
			break;
		}
		int wait = min_wait(ms_until(until_ns, now), ms_until(c->next_drain_ns, now));
		wait = min_wait(wait, ms_until(c->next_cpus_ns, now));
		wait = min_wait(wait, ms_until(c->next_news_ns, now));
		wait = min_wait(wait, ms_until((uint64_t)c->next_window_ns, (uint64_t)real));
		wait = min_wait(wait, c->closing ? ms_until(c->closing_ns, now) : -1);
		wait = min_wait(wait, proc_reader_tick());
		wait = min_wait(wait, go_on(c, sandbox_tick(c->sandbox) < 0));
		wait = min_wait(wait, c->chooser ? chooser_tick(c->chooser, now) : -1);
		wait = min_wait(wait, c->downloads ? downloads_tick(c->downloads) : -1);
		wait = min_wait(wait, c->sets.pods ? pods_rest_ms(c->sets.pods) : -1);
		wait = min_wait(wait, proc_reader_tick());
		/* Last: with what was submitted above */
		wait = min_wait(wait, sandbox_tick(c->sandbox));
		bool paused = now < c->ring_ns;
		wait = min_wait(wait, paused ? ms_until(c->ring_ns, now) : -1);
		size_t n = fill_poll(c, paused);
		memcpy(p, c->poll, n * sizeof(*p));
		for (size_t i = 0; i < n_fds; i++)
			p[n + i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
		p[n + n_fds] =
			(struct pollfd){ .fd = c->downloads ? downloads_fd(c->downloads) : -1,
					 .events = POLLIN };
		p[n + n_fds + 1] =
			(struct pollfd){ .fd = sandbox_fd(c->sandbox), .events = POLLIN };
		p[n + n_fds + 2] = (struct pollfd){ .fd = proc_reader_fd(), .events = POLLIN };
		p[n + n_fds + 3] = (struct pollfd){ .fd = pods_socket(c), .events = POLLIN };
		if (poll(p, n + n_fds + OWN_FDS, wait) < 0 && errno != EINTR) {
			rc = err_sys(err, -errno, "waiting for samples");
			break;
		}
		bool news = false;
		for (size_t i = 1; i < n; i++)
			news |= p[i].revents != 0;
		if (news || p[0].revents || proc_now_ns() >= c->next_news_ns)
			news_read(c);
		if (p[0].revents) {
			sampler_poll_ring(c->sampler);
			c->ring_ns = ring_pause_end(c, proc_now_ns());
		}
		news_admit(c);
		if (p[n + n_fds].revents)
			resolver_go_on(c->resolver);
		receive_pods(c);
		for (size_t i = 0; i < n_fds; i++)
			if (p[n + i].revents) {
				rc = (int)i;
				goto out;
			}
	}
out:
	free(p);
	return rc;
}

/*
 * The last rows wait for their names: those of this host's files, and debug files that were asked
 * for.
 */
static void await_names(struct collector *c, uint64_t until_ns)
{
	uint64_t now;
	while (rows_wait(c) && (now = proc_now_ns()) < until_ns) {
		struct pollfd p[4] = { { .fd = sandbox_fd(c->sandbox), .events = POLLIN },
				       { .fd = proc_reader_fd(), .events = POLLIN },
				       { .fd = -1, .events = POLLIN },
				       { .fd = pods_socket(c), .events = POLLIN } };
		int wait = min_wait(ms_until(until_ns, now), go_on(c, true));
		if (c->downloads) {
			wait = min_wait(wait, downloads_tick(c->downloads));
			p[2].fd = downloads_fd(c->downloads);
			c->hold_names = downloads_busy(c->downloads) ||
					resolver_expects_downloads(c->resolver);
		}
		wait = min_wait(wait, sandbox_tick(c->sandbox));
		if (!c->hold_names && wait > LAST_LOOK_MS)
			wait = LAST_LOOK_MS;
		wait = min_wait(wait, proc_reader_tick());
		poll(p, 4, wait);
		receive_pods(c);
	}
	c->hold_names = false;
}

int collector_cut(struct collector *c, struct err *err)
{
	if (c->closing)
		windows_write(c, &c->sum.failure);
	windows_drain(c);
	windows_close(c);
	return windows_write(c, err);
}

void collector_settle(struct collector *c)
{
	struct err err = { 0 };
	const uint64_t until = proc_now_ns() + LAST_NAMES_NS;
	uint64_t now;
	windows_drain(c);
	while (rows_wait(c) && (now = proc_now_ns()) < until)
		if (collector_run(c, now + LAST_LOOK_MS * 1000000ull, NULL, 0, &err) != -ETIME)
			break; /* a failure: stop all the same */
	c->settled = true;
}

int collector_stop(struct collector *c, struct err *err)
{
	if (c->closing)
		windows_write(c, &c->sum.failure);
	c->end_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	c->end_boot_ns = (int64_t)proc_now_ns();
	sampler_stop(c->sampler); /* takes a while */
	windows_tell_waits(c);
	c->stopped = true;
	c->hold_names = c->downloads;
	symbolizer_begin(c->symbolizer, LAST_DRAIN_MS);
	windows_drain(c);
	windows_close(c);
	await_names(c, (uint64_t)c->end_boot_ns + (c->settled ? SETTLED_NAMES_NS : LAST_NAMES_NS));
	return windows_write(c, err);
}

bool collector_hides_processes(const struct collector *c)
{
	return c->cfg.pid_namespace != 0;
}

const char *collector_warning(const struct collector *c)
{
	return labelling_warning(c->labelling);
}

void collector_close(struct collector *c)
{
	if (!c)
		return;
	own_fini(&c->own);
	waits_fini(&c->waits);
	heap_fini(&c->heap);
	instants_fini(&c->instants);
	aside_clear(&c->aside);
	free(c->blocked.v);
	hangs_fini(c);
	labelling_free(c->labelling);
	ruled_free(c->ruled);
	chooser_free(c->chooser);
	trampolines_free(c->trampolines);
	copies_free(c->copies);
	unwinding_free(c->unwinding);
	locks_free(c->locks);
	procs_free(c->procs);
	scripts_free(c->scripts);
	resolver_free(c->resolver);
	frame_reasons_fini(&c->reasons);
	symbolizer_free(c->symbolizer);
	proc_reader_stop(c->sandbox);
	sandbox_free(c->sandbox);
	sideband_close(c->sideband);
	sampler_close(c->sampler);
	window_free(c->window);
	free(c->arrived);
	free(c->poll);
	free(c);
}

void collector_set_detail(struct collector *c, const struct collector_detail *d)
{
	size_t symbols = d->symbols_bytes ? d->symbols_bytes : c->cfg.symbols_bytes;
	c->detail = *d;
	resolver_set_detail(c->resolver, &d->names);
	sampler_take_wait_stacks(c->sampler, !d->no_wait_stacks);
	symbolizer_limit_tables(c->symbolizer, symbols ? symbols : SYMBOLIZER_TABLE_BYTES);
	sandbox_limit(c->sandbox, d->worker_memory ? d->worker_memory : SYMBOLS_MEMORY, d->workers);
	for (unsigned lane = 0; d->fresh_workers && lane < SANDBOX_LANES; lane++)
		sandbox_retire(c->sandbox, lane);
}

struct sampler_bpf_ns collector_bpf_ns(struct collector *c, uint64_t now_ns)
{
	return sampler_bpf_ns(c->sampler, now_ns);
}

void collector_progress(struct collector *c, struct collector_progress *ret)
{
	*ret = c->sum;
	ret->unhit = sampler_unhit_probes(c->sampler);
	sampler_memory(c->sampler, &ret->kernel);
	ret->kernel.rings += c->n_cpus * sampler_sideband_bytes(c->sampler);
	ret->table_rows = sampler_table_rows(c->sampler, &ret->tables_may_grow);
	store_writer_memory(c->store, &ret->store);
	ret->processes = procs_count(c->procs);
	ret->unknown_cpus = sampler_unknown_cpus(c->sampler);
	ret->alive = procs_alive(c->procs);
	unwinding_stats(c->unwinding, &ret->unwinding);
	symbolizer_stats(c->symbolizer, &ret->symbols);
	sandbox_stats(c->sandbox, &ret->parsing);
	proc_reader_stats(&ret->reading);
	resolver_jit_stats(c->resolver, &ret->jit);
	hotspots_stats(resolver_hotspots(c->resolver), &ret->java);
	v8s_stats(resolver_v8s(c->resolver), &ret->v8);
	memcpy(ret->script, labelling_scripts(c->labelling), sizeof(ret->script));
	ret->go = *labelling_go(c->labelling);
	ret->sampled = ret->stored + sampler_pending(c->sampler);
	for (unsigned i = 0; i < c->n_cpus; i++)
		ret->sampled += window_cpu(c->window, i)->stored;
}
