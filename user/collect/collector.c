/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/collector.h"

#include "collect/labelling.h"
#include "collect/resolve.h"
#include "collect/sideband.h"
#include "collect/unwinding.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000ull
#define SIDEBAND_PAGES 32    /* per CPU: 128 KiB, some 1,000 news */
#define NEWS_SOON_NS (NS / 200)
#define NEWS_EVERY_NS (NS / 10) /* files are opened and label slots looked for while their process is still there */
#define FORGET_AFTER_NS (30 * NS) /* images that ended stay for samples that come late */
#define SYSTEM_LABELS_MAX 16
#define UNWIND_BUDGET (64u << 20) /* bytes of unwind rows, made as they are needed */
#define LABELS_MAX 160

const char *const collector_lost_names[] = {
#define LOST(id, help) #id,
#define FLAG(id, help)
#include "counters.def"
#undef LOST
#undef FLAG
};
const char *const collector_flagged_names[] = {
#define LOST(id, help)
#define FLAG(id, help) #id,
#include "counters.def"
#undef LOST
#undef FLAG
};
/* The kernel's counter of each. */
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
const size_t collector_n_lost = N_LOST, collector_n_flagged = N_FLAGGED;

/* One CPU's counters of the window that is open, by enum counter. */
struct window_cpu {
	uint64_t counter[N_COUNTERS];
	uint64_t ran, stored, outside;
	uint64_t not_run, idle_not_run; /* reported since the start */
	uint64_t idle_base_ns;          /* the CPU's idle time when recording began */
	bool used;
};

struct collector {
	struct sampler *sampler;
	struct sideband *sideband;
	struct procs *procs;
	struct resolver *resolver;
	struct labelling *labelling;
	struct unwinding *unwinding;
	struct store_writer *store;
	unsigned n_cpus, window_s;
	uint32_t event_id[MAX_EVENTS];
	struct window_cpu *cpu;
	struct store_cpu_totals *totals;
	uint64_t *totals_counters, *idle_ns;
	struct pollfd *poll;
	int64_t t0_ns, next_window_ns, stopped_ns; /* realtime */
	uint64_t next_drain_ns, next_cpus_ns, next_news_ns; /* BOOTTIME */
	uint64_t own_cpu_ns, bad_cpu;
	bool filling, stopped;
	struct collector_progress sum;
};

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS + (uint64_t)ts.tv_nsec;
}

/* ---- rows ---- */

static void add_text(struct label *v, size_t *n, const char *key, const char *s, size_t len)
{
	if (!len)
		return;
	v[(*n)++] = (struct label){ .key = key, .key_len = (uint32_t)strlen(key), .str = s, .str_len = (uint32_t)len,
				    .type = LABEL_STRING };
}

static void add_int(struct label *v, size_t *n, const char *key, int64_t num)
{
	v[(*n)++] = (struct label){ .key = key, .key_len = (uint32_t)strlen(key), .num = num, .type = LABEL_INT };
}

/* Which cgroup: the v2 one that the kernel told, or what /proc said when that is only the root. */
static const char *row_cgroup(struct collector *c, const struct row *row, const struct proc_image *im)
{
	const char *path = procs_cgroup_path(c->procs, row->cgroup);
	if (path && strcmp(path, "/"))
		return path;
	return im && im->cgroup ? im->cgroup : path;
}

/*
 * The label set of a row: the system's labels, then the application's. Where the keys collide the system's stand: a process
 * may not pass for another.
 */
static int row_set(struct collector *c, const struct row *row, const struct proc_image *im, uint32_t *ret_set,
		   bool *ret_unknown)
{
	struct label v[LABELS_MAX];
	const struct label *app;
	char thread[COMM_SIZE + 1], pod[40];
	const char *id;
	size_t n = 0;
	bool found;
	memcpy(thread, row->comm, COMM_SIZE);
	thread[COMM_SIZE] = 0;
	const char *comm = im && im->comm[0] ? im->comm : thread;
	add_text(v, &n, "comm", comm, strlen(comm));
	add_int(v, &n, "tgid", row->tgid);
	if (row->kind != ROW_IDLE) {
		add_int(v, &n, "tid", row->tid);
		add_text(v, &n, "thread", thread, strlen(thread));
	}
	if (im && im->exe)
		add_text(v, &n, "exe", im->exe->path, strlen(im->exe->path));
	const char *cgroup = row->kind == ROW_TASK ? row_cgroup(c, row, im) : NULL;
	if (cgroup) {
		add_text(v, &n, "cgroup", cgroup, strlen(cgroup));
		size_t len = proc_container_id(cgroup, &id);
		if (len)
			add_text(v, &n, "container", id, len);
		add_text(v, &n, "pod", pod, proc_pod_uid(cgroup, pod, sizeof(pod)));
	}
	size_t n_app = labelling_find(c->labelling, row, &app, &found);
	*ret_unknown = !found;
	for (size_t i = 0; i < n_app && n < LABELS_MAX; i++)
		v[n++] = app[i];
	n = labels_normalize(v, n);
	return store_add_set(c->store, v, n, ret_set);
}

static struct proc_image *row_image(struct collector *c, const struct row *row)
{
	struct proc_image *im = procs_find(c->procs, row->tgid, row->last_ns);
	if (!im && !procs_scan_one(c->procs, row->tgid))
		im = procs_find(c->procs, row->tgid, row->last_ns);
	return im;
}

static void add_row(struct collector *c, struct window_cpu *w, const struct sampler_half *h, const struct row *row)
{
	uint32_t set, stack;
	bool unknown, no_mapping = false;
	uint64_t n_words = (uint64_t)row->n_kernel + row->n_user;
	if (row->stack > h->arena_words || n_words > h->arena_words - row->stack || row->event >= MAX_EVENTS)
		goto lost; /* cannot be: the table is ours */
	struct proc_image *im = row->kind == ROW_IDLE ? NULL : row_image(c, row);
	struct resolver_stack s = { h->arena + row->stack, row->n_kernel, row->n_user };
	int rc = row_set(c, row, im, &set, &unknown);
	if (!rc && row->kind == ROW_IDLE)
		rc = resolver_idle(c->resolver, &stack);
	else if (!rc)
		rc = resolver_stack(c->resolver, c->procs, im, &s, &stack, &no_mapping);
	if (!rc)
		rc = store_add_row(c->store, set, stack, c->event_id[row->event], row->samples, row->value);
	if (rc)
		goto lost;
	w->stored += row->samples;
	if (unknown)
		w->counter[COUNTER_label_unknown] += row->samples;
	if (no_mapping)
		w->counter[COUNTER_no_mapping] += row->samples;
	return;
lost:
	w->counter[COUNTER_user_memory] += row->samples;
}

static void on_half(void *ctx, const struct sampler_half *h)
{
	struct collector *c = ctx;
	struct window_cpu *w = &c->cpu[h->cpu];
	uint64_t ran = 0;
	for (unsigned i = 0; i < MAX_EVENTS; i++) {
		ran += h->head->ran[i];
		w->outside += h->head->outside[i];
	}
	if (!ran)
		return;
	w->ran += ran;
	w->used = true;
	for (size_t i = 0; i < N_COUNTERS; i++)
		w->counter[i] += h->head->counters[i];
	for (uint32_t i = 0, left = h->head->rows_used; i < h->n_rows && left; i++) {
		if (!h->rows[i].samples)
			continue;
		add_row(c, w, h, &h->rows[i]);
		left--;
	}
}

/* ---- news ---- */

static void on_map(void *ctx, uint32_t tgid, struct proc_file *file)
{
	struct collector *c = ctx;
	const struct proc_image *im = procs_find(c->procs, tgid, UINT64_MAX);
	uint64_t at;
	unwinding_mapped(c->unwinding, tgid);
	if (file->path[0] != '/' || !im)
		return;
	/* Opened at the first sight of a file: later its process may be gone, and its container with it. */
	for (uint32_t i = 0; i < im->n_maps; i++) {
		if (im->maps[i].file != file)
			continue;
		struct binary *b = resolver_binary(c->resolver, c->procs, im, &im->maps[i]);
		if (b && !binary_label_descriptor(b, &at))
			labelling_mapped(c->labelling, tgid);
		return;
	}
}

static void drain_sideband(struct collector *c)
{
	uint64_t lost;
	c->next_news_ns = proc_now_ns() + (unwinding_expects_news(c->unwinding) ? NEWS_SOON_NS : NEWS_EVERY_NS);
	int rc = sideband_drain(c->sideband, c->procs, on_map, c, &lost);
	if (!lost && !rc)
		return;
	c->sum.sideband_lost += lost;
	procs_scan(c->procs);
	unwinding_mapped(c->unwinding, 0);
}

static void on_record(void *ctx, const struct wire_record *r, const void *payload)
{
	struct collector *c = ctx;
	switch (r->kind) {
	case WIRE_FILLING:
		c->filling = true;
		break;
	case WIRE_NEW_MAPPING: /* the news of it is in the side-band */
		c->next_news_ns = 0;
		break;
	case WIRE_NEW_PROCESS:
		labelling_record(c->labelling, r, payload);
		unwinding_new_process(c->unwinding, r);
		c->next_news_ns = proc_now_ns() + NEWS_SOON_NS;
		break;
	default:
		labelling_record(c->labelling, r, payload);
	}
}

static void drain(struct collector *c)
{
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	drain_sideband(c);
	sampler_drain(c->sampler, on_half, c);
	c->filling = false;
	c->next_drain_ns = proc_now_ns() + sampler_drain_ms(c->sampler) * 1000000ull;
	c->sum.drains++;
	c->sum.drain_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

/* ---- windows ---- */

static uint64_t own_rss(void)
{
	unsigned long size, rss = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	if (f) {
		if (fscanf(f, "%lu %lu", &size, &rss) != 2)
			rss = 0;
		fclose(f);
	}
	return rss * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t own_cpu(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * NS +
	       ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000;
}

/* Idle time of each CPU since boot, from /proc/stat: idle and waiting for I/O, in ticks of 10 ms. */
static void read_idle(struct collector *c, uint64_t *out)
{
	char line[512];
	unsigned cpu;
	uint64_t idle, iowait;
	FILE *f = fopen("/proc/stat", "re");
	uint64_t tick = NS / (uint64_t)sysconf(_SC_CLK_TCK);
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "cpu%u %*u %*u %*u %" SCNu64 " %" SCNu64, &cpu, &idle, &iowait) == 3 && cpu < c->n_cpus)
			out[cpu] = (idle + iowait) * tick;
	if (f)
		fclose(f);
}

/*
 * What the events say fired beyond what ran. While running, one sample of each event may be between its count and its
 * program, so that one is left out until the end. An idle CPU may let its timer sleep (haltpoll, packed virtual CPUs):
 * the clock counts on, nothing runs, and nothing is lost; as much of the rest as the CPU's idle time explains is called so.
 */
static void count_not_run(struct collector *c, unsigned cpu, uint64_t idle_ns)
{
	struct window_cpu *w = &c->cpu[cpu];
	struct sampler_fired f;
	sampler_fired(c->sampler, cpu, &f);
	uint64_t missing = f.fired - f.ran, slack = c->stopped ? 0 : 1, idle = 0;
	uint64_t reported = w->not_run + w->idle_not_run;
	if (missing <= reported + slack)
		return;
	uint64_t more = missing - slack - reported;
	if (f.clock_ns) {
		/* Two ticks and a period of rounding. */
		uint64_t periods = (idle_ns - w->idle_base_ns + 20000000) / f.clock_ns + 1;
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

/*
 * Three counts that do not come from each other: stored are the rows, the losses were counted one by one, fired is what the
 * programs began with plus what they never saw. `ascribe stat` and the tests hold them against each other.
 */
static size_t make_totals(struct collector *c, struct store_totals *t)
{
	size_t n = 0;
	memset(t, 0, sizeof(*t));
	uint64_t bad = sampler_bad_cpu(c->sampler);
	c->cpu[0].counter[COUNTER_bad_cpu] += bad - c->bad_cpu;
	c->bad_cpu = bad;
	read_idle(c, c->idle_ns);
	for (unsigned cpu = 0; cpu < c->n_cpus; cpu++) {
		count_not_run(c, cpu, c->idle_ns[cpu]);
		struct window_cpu *w = &c->cpu[cpu];
		if (!w->used)
			continue;
		struct store_cpu_totals *o = &c->totals[n++];
		o->cpu = cpu;
		o->stored = w->stored;
		o->fired = w->ran - w->outside + w->counter[COUNTER_not_run] + w->counter[COUNTER_idle_not_run] +
			   w->counter[COUNTER_bad_cpu];
		for (size_t i = 0; i < N_LOST; i++)
			o->lost[i] = w->counter[lost_counter[i]];
		for (size_t i = 0; i < N_FLAGGED; i++)
			o->flagged[i] = w->counter[flagged_counter[i]];
		t->outside += w->outside;
	}
	t->cpu = c->totals;
	t->n_cpus = n;
	uint64_t cpu_ns = own_cpu();
	t->own_cpu_ns = cpu_ns - c->own_cpu_ns;
	t->own_rss = own_rss();
	return n;
}

static void clear_window(struct collector *c)
{
	for (unsigned i = 0; i < c->n_cpus; i++) {
		struct window_cpu *w = &c->cpu[i];
		*w = (struct window_cpu){ .not_run = w->not_run, .idle_not_run = w->idle_not_run,
					  .idle_base_ns = w->idle_base_ns };
	}
	c->own_cpu_ns = own_cpu();
}

/* The window was not written: its samples are lost under that name, in the next one's totals. */
static void keep_as_lost(struct collector *c)
{
	for (unsigned i = 0; i < c->n_cpus; i++) {
		struct window_cpu *w = &c->cpu[i];
		w->counter[COUNTER_store_failed] += w->stored;
		w->stored = 0;
		for (size_t f = 0; f < N_FLAGGED; f++)
			w->counter[flagged_counter[f]] = 0;
	}
}

static int end_window(struct collector *c, struct err *err)
{
	struct store_totals t;
	int64_t t1 = c->stopped ? c->stopped_ns : (int64_t)clock_ns(CLOCK_REALTIME);
	size_t n = make_totals(c, &t);
	int rc = 0;
	if (t1 <= c->t0_ns)
		t1 = c->t0_ns + 1; /* the clock was set back: time in the store does not go back */
	for (size_t i = 0; i < n; i++) {
		uint64_t lost = t.cpu[i].fired - t.cpu[i].stored;
		c->sum.fired += t.cpu[i].fired;
		c->sum.stored += t.cpu[i].stored;
		c->sum.lost += lost;
		for (size_t f = 0; f < N_FLAGGED; f++)
			if (flagged_counter[f] == COUNTER_idle)
				c->sum.idle += t.cpu[i].flagged[f];
	}
	c->sum.outside += t.outside;
	if (n || t.outside) {
		rc = store_commit_window(c->store, c->t0_ns, t1, (int64_t)proc_now_ns(), &t, err);
		if (rc) {
			c->sum.failed++;
			for (size_t i = 0; i < n; i++) { /* counted again with the next window */
				c->sum.fired -= t.cpu[i].fired;
				c->sum.stored -= t.cpu[i].stored;
				c->sum.lost -= t.cpu[i].fired - t.cpu[i].stored;
			}
			c->sum.outside -= t.outside;
			keep_as_lost(c);
		} else {
			c->sum.windows++;
			clear_window(c);
		}
	}
	c->t0_ns = t1;
	uint64_t window = c->window_s * NS;
	c->next_window_ns = (int64_t)(((uint64_t)t1 / window + 1) * window);
	procs_forget(c->procs, proc_now_ns() - FORGET_AFTER_NS);
	labelling_forget(c->labelling);
	unwinding_forget(c->unwinding);
	return rc;
}

/* ---- life ---- */

static int open_cpus(struct collector *c, struct err *err)
{
	c->n_cpus = sampler_n_cpus(c->sampler);
	c->cpu = calloc(c->n_cpus, sizeof(*c->cpu));
	c->totals = calloc(c->n_cpus, sizeof(*c->totals));
	c->totals_counters = calloc(c->n_cpus * (N_LOST + N_FLAGGED), sizeof(uint64_t));
	c->poll = calloc(c->n_cpus + 1, sizeof(*c->poll));
	c->idle_ns = calloc(c->n_cpus, sizeof(*c->idle_ns));
	if (!c->idle_ns || !c->cpu || !c->totals || !c->totals_counters || !c->poll)
		return err_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < c->n_cpus; i++) {
		c->totals[i].lost = c->totals_counters + i * (N_LOST + N_FLAGGED);
		c->totals[i].flagged = c->totals[i].lost + N_LOST;
	}
	return 0;
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

static int add_events(struct collector *c, const struct sampler_config *cfg)
{
	int rc = 0;
	for (unsigned i = 0; !rc && i < cfg->n_events; i++) {
		const struct event *e = &cfg->event[i];
		struct store_event se = { .name = e->name, .unit = e->unit, .ns_per_sample = e->ns_per_sample,
					  .period = e->tracepoint ? 1 : e->fixed_period ? e->attr.sample_period : 0 };
		rc = store_add_event(c->store, &se, &c->event_id[i]);
	}
	return rc;
}

int collector_open(struct collector **ret, const struct sampler_config *cfg, struct store_writer *w,
		   struct err *ret_warning, struct err *err)
{
	struct collector *c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	struct err e = { 0 };
	c->store = w;
	c->window_s = cfg->window_s;
	int rc = sampler_open(&c->sampler, cfg, &e);
	rc = rc ? rc : open_cpus(c, &e);
	rc = rc ? rc : sideband_open(&c->sideband, c->n_cpus, SIDEBAND_PAGES, &e);
	if (!rc) {
		struct add_ring a = { c, &e, 0 };
		rc = sampler_cpu_list("/sys/devices/system/cpu/online", add_ring, &a);
		rc = rc ? rc : a.rc;
	}
	rc = rc ? rc : procs_new(&c->procs, resolver_file_gone);
	rc = rc ? rc : resolver_new(&c->resolver, w, ret_warning);
	rc = rc ? rc : labelling_new(&c->labelling, c->sampler, c->procs, c->resolver);
	rc = rc ? rc : unwinding_new(&c->unwinding, c->sampler, c->procs, c->resolver, UNWIND_BUDGET);
	rc = rc ? rc : add_events(c, cfg);
	if (rc) {
		if (!e.code)
			err_sys(&e, rc, "starting to record");
		if (err)
			*err = e;
		collector_close(c);
		return rc;
	}
	sampler_on_record(c->sampler, on_record, c);
	c->sum.table_bytes = sampler_memory(c->sampler);
	c->sum.n_cpus = c->n_cpus;
	c->sum.drain_s = sampler_drain_ms(c->sampler) / 1000.0;
	*ret = c;
	return 0;
}

int collector_set_filter(struct collector *c, const struct label_filter *f)
{
	return labelling_set_filter(c->labelling, f);
}

int collector_start(struct collector *c, struct err *err)
{
	/* The side-band runs already: what changes while /proc is read is in its rings. */
	procs_scan(c->procs);
	drain_sideband(c);
	c->own_cpu_ns = 0; /* what starting cost counts to the first window */
	read_idle(c, c->idle_ns);
	for (unsigned i = 0; i < c->n_cpus; i++)
		c->cpu[i].idle_base_ns = c->idle_ns[i];
	c->t0_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	uint64_t window = c->window_s * NS;
	c->next_window_ns = (int64_t)(((uint64_t)c->t0_ns / window + 1) * window);
	c->next_drain_ns = proc_now_ns() + sampler_drain_ms(c->sampler) * 1000000ull;
	return sampler_start(c->sampler, err);
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

static int ms_until(uint64_t ns, uint64_t now)
{
	if (ns <= now)
		return 0;
	uint64_t ms = (ns - now + 999999) / 1000000;
	return ms > 60000 ? 60000 : (int)ms;
}

static int min_wait(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* What is due by the clock. The CPUs that came and went are looked at once a second. */
static void do_due(struct collector *c)
{
	uint64_t now = proc_now_ns();
	if (now >= c->next_cpus_ns) {
		c->next_cpus_ns = now + NS;
		if (sampler_follow_cpus(c->sampler, on_cpu_change, c))
			procs_scan(c->procs);
	}
	bool window = (int64_t)clock_ns(CLOCK_REALTIME) >= c->next_window_ns;
	if (window || c->filling || now >= c->next_drain_ns)
		drain(c);
	if (window)
		end_window(c, &c->sum.failure);
}

static size_t fill_poll(struct collector *c)
{
	size_t n = 0;
	c->poll[n++] = (struct pollfd){ .fd = sampler_ring_fd(c->sampler), .events = POLLIN };
	for (unsigned i = 0; i < c->n_cpus; i++)
		if (sideband_fd(c->sideband, i) >= 0)
			c->poll[n++] = (struct pollfd){ .fd = sideband_fd(c->sideband, i), .events = POLLIN };
	return n;
}

int collector_run(struct collector *c, uint64_t until_ns, const int *fds, size_t n_fds, struct err *err)
{
	struct pollfd *p = calloc(c->n_cpus + 1 + n_fds, sizeof(*p));
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
		wait = min_wait(wait, labelling_tick(c->labelling));
		wait = min_wait(wait, unwinding_tick(c->unwinding));
		size_t n = fill_poll(c);
		memcpy(p, c->poll, n * sizeof(*p));
		for (size_t i = 0; i < n_fds; i++)
			p[n + i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
		if (poll(p, n + n_fds, wait) < 0 && errno != EINTR) {
			rc = err_sys(err, -errno, "waiting for samples");
			break;
		}
		bool news = false;
		for (size_t i = 1; i < n; i++)
			news |= p[i].revents != 0;
		if (news || p[0].revents || proc_now_ns() >= c->next_news_ns)
			drain_sideband(c);
		if (p[0].revents)
			sampler_poll_ring(c->sampler);
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

int collector_stop(struct collector *c, struct err *err)
{
	sampler_stop(c->sampler);
	c->stopped = true;
	c->stopped_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	drain(c);
	return end_window(c, err);
}

void collector_close(struct collector *c)
{
	if (!c)
		return;
	labelling_free(c->labelling);
	unwinding_free(c->unwinding);
	procs_free(c->procs);
	resolver_free(c->resolver);
	sideband_close(c->sideband);
	sampler_close(c->sampler);
	free(c->cpu);
	free(c->totals);
	free(c->totals_counters);
	free(c->idle_ns);
	free(c->poll);
	free(c);
}

void collector_progress(struct collector *c, struct collector_progress *ret)
{
	*ret = c->sum;
	ret->processes = procs_count(c->procs);
	unwinding_stats(c->unwinding, &ret->unwinding);
	ret->sampled = ret->stored + sampler_pending(c->sampler);
	for (unsigned i = 0; i < c->n_cpus; i++)
		ret->sampled += c->cpu[i].stored;
}
