/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/collector.h"

#include "attribute/file_facts.h"
#include "attribute/labelling.h"
#include "attribute/ruled.h"
#include "attribute/sets.h"
#include "attribute/trampolines.h"
#include "collect/own.h"
#include "collect/waits.h"
#include "collect/window.h"
#include "hist/metrics.h"
#include "hist_bucket.h"
#include "proc/reader.h"
#include "python_wire.h"
#include "sampler/sideband.h"
#include "stacks/copies.h"
#include "stacks/python.h"
#include "stacks/resolve.h"
#include "stacks/unwinding.h"
#include "unwind/request.h"
#include "util/array.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NS 1000000000ull
#define SIDEBAND_BYTES (128u << 10) /* per CPU: some 1,000 records */
#define NEWS_SOON_NS (NS / 200)
#define ATTEND_NS (NS / 100)
#define NEWS_EVERY_NS (NS / 10) /* files are opened and label slots looked for while their process is still there */
#define ARRIVALS_MAX 16384 /* images that the BPF programs ask about, until they are looked at: some ms */
#define FORGET_AFTER_NS (30 * NS) /* images that ended stay for samples that come late */
#define UNWIND_BUDGET (64u << 20) /* bytes of unwind rows, made as they are needed */
#define UNWIND_OP SYMBOLS_OPS /* behind those of symbols */
#define LAST_NAMES_NS (2 * NS) /* for debug files that are asked for when recording ends */
#define LAST_DRAIN_MS 10000 /* the time for the files of the last drain is as if drains were so far apart */
#define PARSER_SERVES 64 /* files until the parsing child is replaced */

struct collector {
	struct sampler *sampler;
	struct sideband *sideband;
	struct procs *procs;
	struct sandbox *sandbox;
	struct symbolizer *symbolizer;
	struct downloads *downloads; /* NULL: none */
	struct resolver *resolver;
	struct labelling *labelling;
	struct ruled *ruled;
	struct unwinding *unwinding;
	struct copies *copies;
	struct pythons *pythons;
	struct trampolines *trampolines;
	struct sets sets;
	struct waits waits;
	struct own_metrics own;
	struct store_writer *store;
	struct sampler_config cfg;
	unsigned n_cpus;
	uint32_t event_id[MAX_EVENTS];
	struct window *window;
	struct pollfd *poll;
	int64_t t0_ns, next_window_ns; /* realtime */
	int64_t end_ns, end_boot_ns;   /* the last drain began, or recording was stopped: what comes later is the next window's */
	uint64_t next_drain_ns, next_cpus_ns, next_news_ns; /* BOOTTIME */
	uint64_t names_until_ns; /* BOOTTIME: the last rows wait for their names until then */
	uint64_t news_ns; /* BOOTTIME: the side-band was read up to here */
	uint64_t lost_from_ns,
		lost_to_ns; /* BOOTTIME: records of the side-band are missing between; 0: none */
	uint64_t next_attend_ns; /* BOOTTIME, while rows are added */
	struct wire_record *arrived; /* of new processes: they wait for the side-band to be read up to them */
	size_t n_arrived, cap_arrived;
	uint32_t *later; /* rows of the half in hand that were put off */
	size_t cap_later;
	bool ids_void; /* those of the store, until new ones are made */
	bool filling, stopped;
	uint64_t folded[STACK_WORDS_MAX]; /* frames of the row in hand, those of trampolines changed */
	struct collector_progress sum;
};

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS + (uint64_t)ts.tv_nsec;
}

static int ms_until(uint64_t ns, uint64_t now)
{
	if (ns <= now)
		return 0;
	uint64_t ms = (ns - now + 999999) / 1000000;
	return ms > 60000 ? 60000 : (int)ms;
}

/* ---- rows ---- */

/* Behind the system's labels and the application's come those of trampolines. */
static int row_set(struct collector *c, const struct row *row, const struct proc_image *im, const struct label *more,
		   size_t n_more, uint32_t *ret_set, uint64_t *ret_flags)
{
	static struct sets_labels l;
	sets_of(&c->sets, row, im, SETS_THREAD, row->kind != ROW_TASK, &l);
	for (size_t i = 0; i < n_more; i++)
		l.v[l.n++] = more[i];
	l.n = labels_normalize(l.v, l.n);
	*ret_flags = l.flags;
	return store_add_set(c->store, l.v, l.n < STORE_SET_MAX ? l.n : STORE_SET_MAX, ret_set);
}

/* Has it user frames, which are named by the mappings? Rows of waits without a stack use that member for something else. */
static bool has_user_frames(const struct row *row)
{
	return row->n_user && row->kind == ROW_TASK;
}

static struct proc_image *row_image(struct collector *c, const struct row *row)
{
	const struct proc_id id = { row->start_ns, row->tgid, row->exec_id };
	bool frames = has_user_frames(row);
	struct proc_image *im = procs_identify(c->procs, &id, row->last_ns, frames ? PROC_MAPS : PROC_NAME);
	if (!im)
		return NULL;
	if (frames)
		unwinding_sampled(c->unwinding, im, row->last_ns);
	if (im->cgroup_inherited && !procs_in_cgroup(c->procs, row->cgroup))
		proc_image_read_cgroup(im);
	return im;
}

/* The Python frames of a row, where it has any. */
struct python_stack {
	uint32_t frame[PYTHON_FRAMES_MAX];
	bool entry[PYTHON_FRAMES_MAX];
};

static uint32_t python_stack(struct collector *c, const struct row *row, const uint64_t *words, struct python_stack *ret)
{
	uint32_t n = row->n_python <= PYTHON_FRAMES_MAX ? row->n_python : PYTHON_FRAMES_MAX;
	for (uint32_t i = 0; i < n; i++) {
		ret->frame[i] = pythons_frame(c->pythons, row, words[i]);
		ret->entry[i] = words[i] & PYTHON_ENTRY;
	}
	return n;
}

/* The labels of the trampolines on a row's stack, whose frames become one and the same. */
static size_t trampoline_labels(struct collector *c, const struct row *row, struct resolver_stack *s, struct label *out,
				char *room, bool *ret_unknown)
{
	*ret_unknown = false;
	if (!trampolines_any(c->trampolines) || row->kind != ROW_TASK || s->n_kernel + s->n_user > STACK_WORDS_MAX)
		return 0;
	memcpy(c->folded, s->frames, (s->n_kernel + s->n_user) * sizeof(uint64_t));
	s->frames = c->folded;
	size_t n = trampolines_labels(c->trampolines, row, c->folded + s->n_kernel, s->n_user, out, ret_unknown);
	return labelling_filter(c->labelling, out, n, room);
}

/* What labelling_find had to say. */
static void count_label_flags(struct window_cpu *w, const struct row *row, uint64_t flags)
{
	if (flags == LABELLING_UNKNOWN)
		w->counter[COUNTER_label_unknown] += row->samples;
	for (unsigned i = COUNTER_labels_cut; flags && flags != LABELLING_UNKNOWN && i < N_COUNTERS; i++)
		if (flags >> (i - COUNTER_labels_cut) & 1)
			w->counter[i] += row->samples;
}

static void count_stored(struct window_cpu *w, uint64_t n, bool waits)
{
	w->stored += n;
	if (waits)
		w->counter[COUNTER_waits] += n;
}

/* A row of waits without their stack; those that count as samples are in no other row. */
static void add_wait(struct collector *c, struct window_cpu *w, const struct sampler_half *h, const struct row *row)
{
	bool summed = row->kind == ROW_WAIT && row->wait.flags & WAIT_SUMMED, cut = false;
	int rc = row->event < c->cfg.n_events ? waits_add(&c->waits, h, row, row_image(c, row), c->event_id, &cut) : -EINVAL;
	if (cut)
		w->counter[COUNTER_blame_cut] += row->samples;
	if (row->kind == ROW_BLAME && row->occupant == OCCUPANT_OTHER)
		w->counter[COUNTER_blame_unknown] += row->samples;
	if (rc)
		w->counter[summed ? COUNTER_user_memory : COUNTER_wait_parts_full] += row->samples;
	else if (summed)
		count_stored(w, row->samples, true);
}

/* Blocked time by who ended it: no samples, they are in the rows of who was blocked. */
static void add_waker(struct collector *c, struct window_cpu *w, const struct sampler_half *h, const struct row *row)
{
	const char *name;
	const struct occupant *who = waits_waker(h, row, &name);
	struct proc_image *im = row_image(c, row), *by = NULL;
	struct python_stack py;
	struct resolver_stack s = { NULL, row->n_kernel, row->n_user, py.frame, py.entry, 0, false, false };
	struct resolver_flags flags = { 0 };
	bool known = who && s.n_kernel + s.n_user, cut = false;
	uint32_t stack;
	int rc = 0;
	if (who) {
		const struct proc_id id = { who->start_ns, who->tgid, who->exec_id };
		by = procs_identify(c->procs, &id, row->last_ns, known ? PROC_MAPS : PROC_NAME);
	}
	if (known) {
		const struct row of = { .start_ns = who->start_ns, .tgid = who->tgid, .exec_id = who->exec_id, .n_python = row->n_python };
		s.frames = h->arena + row->stack + OCCUPANT_WORDS;
		s.n_python = python_stack(c, &of, s.frames + s.n_kernel + s.n_user, &py);
		s.python_cut = s.n_kernel + s.n_user + s.n_python >= WAIT_WORDS;
		resolver_trim_waking(c->resolver, &s);
		rc = resolver_stack(c->resolver, by, &s, &stack, &flags);
	}
	rc = rc ? rc : waits_add_waker(&c->waits, h, row, im, by, known ? &stack : NULL, &cut);
	if (cut)
		w->counter[COUNTER_waker_cut] += row->samples;
	if (rc)
		w->counter[COUNTER_wait_parts_full] += row->samples;
}

/* put_off: see resolver_stack; false: it was, and nothing is counted yet. */
static bool add_row(struct collector *c, struct window_cpu *w, const struct sampler_half *h, const struct row *row, bool put_off)
{
	uint32_t set, stack;
	bool no_binding;
	uint64_t label_flags;
	struct label more[TRAMPOLINES_LABELS_MAX];
	char room[TRAMPOLINES_LABELS_MAX * REDACTED_LEN];
	struct resolver_flags flags = { 0 };
	uint32_t n_words = sampler_row_words(row);
	struct python_stack py;
	if (row->kind == ROW_WAIT || row->kind == ROW_BLAME) {
		add_wait(c, w, h, row);
		return true;
	}
	if (row->kind == ROW_WAKER) {
		add_waker(c, w, h, row);
		return true;
	}
	if (row->stack > h->arena_words || n_words > h->arena_words - row->stack || row->event >= MAX_EVENTS)
		goto lost; /* cannot be: the table is ours */
	struct proc_image *im = row->kind == ROW_IDLE ? NULL : row_image(c, row);
	struct resolver_stack s = { h->arena + row->stack, row->n_kernel, row->n_user, py.frame, py.entry, 0, false, put_off };
	bool wait = row->event < c->cfg.n_events && c->cfg.event[row->event].wait;
	s.n_python = python_stack(c, row, s.frames + s.n_kernel + s.n_user, &py);
	s.python_cut = s.n_python >= PYTHON_FRAMES_MAX || n_words >= (wait ? WAIT_WORDS : STACK_WORDS_MAX);
	if (wait)
		resolver_trim_switch(c->resolver, &s);
	size_t n_more = trampoline_labels(c, row, &s, more, room, &no_binding);
	int rc = row_set(c, row, im, more, n_more, &set, &label_flags);
	if (!rc && row->kind == ROW_IDLE)
		rc = resolver_idle(c->resolver, &stack);
	else if (!rc)
		rc = resolver_stack(c->resolver, im, &s, &stack, &flags);
	if (rc == -EINPROGRESS)
		return false;
	if (!rc && wait && !stack)
		stack = c->waits.no_stack;
	if (!rc)
		rc = store_add_row(c->store, set, stack, c->event_id[row->event], row->samples * c->cfg.weight, row->value);
	if (rc)
		goto lost;
	count_stored(w, row->samples, wait);
	if (wait)
		waits_note_stack(&c->waits, row, im, set, stack, c->event_id[row->event]);
	if (wait && stack == c->waits.no_stack)
		w->counter[COUNTER_wait_summed] += row->samples;
	if (n_more && !row->set_id &&
	    !wait) /* the kernel saw no label: those of trampolines are found here */
		w->counter[COUNTER_unlabelled] -= row->samples;
	if (row->kind != ROW_IDLE)
		metric_add(METRIC_stack_depth, n_words, row->samples);
	count_label_flags(w, row, label_flags);
	if (row->last_ns >= c->lost_from_ns && row->last_ns < c->lost_to_ns)
		w->counter[COUNTER_sideband_lost] += row->samples;
	if (no_binding)
		w->counter[COUNTER_trampoline_unknown] += row->samples;
	if (flags.no_mapping)
		w->counter[COUNTER_no_mapping] += row->samples;
	if (flags.jit_unnamed)
		w->counter[COUNTER_jit_unnamed] += row->samples;
	if (flags.names_refused)
		w->counter[COUNTER_names_refused] += row->samples;
	if (flags.names_late)
		w->counter[COUNTER_names_late] += row->samples;
	if (im && proc_reader_refuses(row->tgid))
		w->counter[COUNTER_unanswered] += row->samples;
	return true;
lost:
	w->counter[COUNTER_user_memory] += row->samples;
	return true;
}

/* ---- news ---- */

static void on_map(void *ctx, uint32_t tgid, uint64_t addr)
{
	struct collector *c = ctx;
	const struct proc_image *im = procs_find(c->procs, tgid, UINT64_MAX);
	const struct proc_map *m = im ? proc_image_map(im, addr) : NULL;
	uint64_t at;
	if (!m)
		return;
	unwinding_mapped(c->unwinding, im);
	ruled_look(c->ruled, im);
	/* Opened at the first sight of a file: later its process may be gone, and its container with it. */
	resolver_note_code(c->resolver, im, m);
	if (m->file->path[0] != '/')
		return;
	struct binary *b = resolver_binary(c->resolver, im, m);
	labelling_mapped(c->labelling, im, m);
	if (b && !binary_trampolines(b, &at))
		trampolines_mapped(c->trampolines, tgid);
}

static void drain_sideband(struct collector *c)
{
	struct sideband_loss loss;
	uint64_t since_ns = c->news_ns;
	c->news_ns = proc_now_ns();
	c->next_news_ns = c->news_ns + (unwinding_expects_news(c->unwinding) ? NEWS_SOON_NS : NEWS_EVERY_NS);
	int rc = sideband_drain(c->sideband, c->procs, on_map, c, &loss);
	c->sum.sideband_lost += loss.records;
	c->sum.images_trimmed += procs_trim(c->procs);
	if (!loss.any && !rc)
		return;
	c->sum.sideband_gaps++;
	if (!c->lost_to_ns)
		c->lost_from_ns = since_ns;
	c->lost_to_ns = proc_now_ns();
	procs_lost(c->procs, since_ns);
	unwinding_lost(c->unwinding);
}

/*
 * Take up the images that the BPF programs asked about. The side-band is read first: the fork or exec that an image
 * began with is written there before the first sample of the image.
 */
static void admit(struct collector *c)
{
	if (!c->n_arrived)
		return;
	drain_sideband(c);
	for (size_t i = 0; i < c->n_arrived; i++) {
		const struct wire_record *r = &c->arrived[i];
		const struct proc_id id = { r->start_ns, r->tgid, r->exec_id };
		struct proc_image *im = procs_identify(c->procs, &id, r->at_ns, PROC_NAME);
		if (!im || im->to_ns != UINT64_MAX)
			continue; /* it has ended by now, or has called exec */
		labelling_new_process(c->labelling, im, &id);
		unwinding_new_process(c->unwinding, im, &id);
		ruled_look(c->ruled, im);
	}
	c->n_arrived = 0;
}

/*
 * Rows may take long, for names are read meanwhile, and processes come and go: they are looked at all the same. Between two rows nothing is
 * held that this would change.
 */
static void attend(struct collector *c)
{
	uint64_t now = proc_now_ns();
	if (c->stopped || now < c->next_attend_ns)
		return;
	sampler_poll_ring(c->sampler);
	if (now >= c->next_news_ns)
		drain_sideband(c);
	admit(c);
	labelling_tick(c->labelling);
	unwinding_tick(c->unwinding);
	c->next_attend_ns = proc_now_ns() + ATTEND_NS;
}

struct taking {
	struct collector *c;
	struct window_cpu *w;
	bool put_off;
};

/* A sample that came as a copy: a row of its own. */
static bool on_taken(void *ctx, const struct row *row, const uint64_t *frames, enum counter end)
{
	struct taking *t = ctx;
	struct sampler_half h = { .arena = frames, .arena_words = (uint32_t)row->n_kernel + row->n_user }; /* without Python frames */
	bool added = add_row(t->c, t->w, &h, row, t->put_off);
	t->w->counter[end] += added;
	attend(t->c);
	return added;
}

/*
 * The last rows: what they need is asked for before the first of them is resolved, and may take a moment. A short recording has no
 * others.
 */
static void await_names(struct collector *c, const struct sampler_half *h)
{
	uint64_t now;
	for (uint32_t i = 0, left = h->head->rows_used; i < h->n_rows && left; i++) {
		const struct row *row = &h->rows[i];
		uint32_t n_words = sampler_row_words(row);
		if (!row->samples)
			continue;
		left--;
		if ((row->kind != ROW_TASK && row->kind != ROW_KTHREAD) || row->stack > h->arena_words || n_words > h->arena_words - row->stack)
			continue;
		struct resolver_stack s = { .frames = h->arena + row->stack, .n_kernel = row->n_kernel, .n_user = row->n_user };
		resolver_want_names(c->resolver, row_image(c, row), &s);
	}
	while (downloads_busy(c->downloads) && (now = proc_now_ns()) < c->names_until_ns) {
		struct pollfd p = { .fd = downloads_fd(c->downloads), .events = POLLIN };
		downloads_tick(c->downloads);
		poll(&p, 1, ms_until(c->names_until_ns, now));
		resolver_take_downloads(c->resolver);
	}
}

static void count_runs(const struct half *h)
{
	for (uint32_t i = 0; i < RUN_BUCKETS; i++)
		if (h->run[i])
			metric_add(METRIC_bpf_run, (hist_bucket_low(RUN_HIST_BITS, i) + hist_bucket_high(RUN_HIST_BITS, i)) / 2, h->run[i]);
}

static void add_others(struct collector *c, struct window_cpu *w, const struct wait_others *o)
{
	uint64_t stored;
	if (waits_add_others(&c->waits, o, c->event_id, &stored))
		w->counter[COUNTER_user_memory] += o->all[0].n + o->all[1].n - stored;
	count_stored(w, stored, true);
}

static bool put_off_row(struct collector *c, size_t n, uint32_t row)
{
	if (ARRAY_RESERVE(c->later, c->cap_later, n + 1))
		return false;
	c->later[n] = row;
	return true;
}

/* The rows of a half, but for those with places that are not known yet: their number; c->later says which. */
static size_t add_rows(struct collector *c, struct window_cpu *w, const struct sampler_half *h)
{
	size_t n_later = 0;
	for (uint32_t i = 0, left = h->head->rows_used; i < h->n_rows && left; i++) {
		if (!h->rows[i].samples)
			continue;
		left--;
		if (!add_row(c, w, h, &h->rows[i], true)) {
			if (put_off_row(c, n_later, i))
				n_later++;
			else
				add_row(c, w, h, &h->rows[i], false);
		}
		attend(c);
	}
	return n_later;
}

/* Those with places that are not known yet come last: DWARF is asked for many of them at once. */
static void add_samples(struct collector *c, struct window_cpu *w, const struct sampler_half *h)
{
	struct taking t = { c, w, true };
	size_t n_later = add_rows(c, w, h);
	copies_take(c->copies, h->key, on_taken, &t);
	while (resolver_ask_places(c->resolver))
		attend(c);
	for (size_t i = 0; i < n_later; i++) {
		add_row(c, w, h, &h->rows[c->later[i]], false);
		attend(c);
	}
	t.put_off = false;
	copies_take(c->copies, h->key, on_taken, &t);
}

static void on_half(void *ctx, const struct sampler_half *h)
{
	struct collector *c = ctx;
	struct window_cpu *w = window_cpu(c->window, h->cpu);
	uint64_t ran = 0;
	for (unsigned i = 0; i < MAX_EVENTS; i++) {
		ran += h->head->ran[i];
		w->outside += h->head->outside[i];
	}
	if (!ran && !h->head->rows_used) /* who had the CPU may come later than who waited */
		return;
	if (c->stopped && c->downloads)
		await_names(c, h);
	w->ran += ran;
	w->used = true;
	count_runs(h->head);
	for (size_t i = 0; i < N_COUNTERS; i++)
		w->counter[i] += h->head->counters[i];
	if (copies_newest(c->copies, h->key) >= c->news_ns)
		drain_sideband(c);
	add_samples(c, w, h);
	if (h->others && (h->head->counters[COUNTER_wait_rows_full] ||
			  h->head->counters[COUNTER_wait_parts_full]))
		add_others(c, w, h->others);
}

/* A record of the iterator: a part of a wait that goes on, or sums that are in no half. */
static void on_wait(void *ctx, const struct row *row, const uint64_t *words)
{
	struct collector *c = ctx;
	struct window_cpu *w = window_cpu(c->window, 0);
	struct sampler_half h = { .arena = words, .arena_words = sampler_row_words(row) };
	bool summed = row->kind == ROW_WAIT && row->wait.flags & WAIT_SUMMED;
	if (row->kind == ROW_TASK || row->kind == ROW_KTHREAD || summed)
		w->ran += row->samples;
	if (summed)
		w->counter[COUNTER_wait_summed] += row->samples;
	w->used = true;
	add_row(c, w, &h, row, false);
	if (row->kind == ROW_WAIT || row->kind == ROW_BLAME)
		return;
	if (row->event == c->waits.runq)
		w->counter[COUNTER_blame_unknown] += row->samples;
	if (c->waits.wakers && row->event == c->waits.off)
		w->counter[COUNTER_waker_unknown] += row->samples;
	if (waits_add_part(&c->waits, row, row_image(c, row)))
		w->counter[COUNTER_wait_parts_full] += row->samples;
}

static void on_copy(void *ctx, const struct wire_copy *w, const uint8_t *stack)
{
	struct collector *c = ctx;
	if (w->half / 2 < c->n_cpus && copies_add(c->copies, w, stack))
		window_cpu(c->window, w->half / 2)->counter[COUNTER_user_memory]++;
}

static void on_known(void *ctx, struct proc_image *im)
{
	const struct collector *c = ctx;
	const struct wire_record who = { .start_ns = im->start_ns, .tgid = im->tgid, .exec_id = im->exec_id };
	unwinding_known(c->unwinding, im);
	trampolines_new_process(c->trampolines, &who); /* its mappings have been read, and perhaps a file more */
}

/* The parser is waited for: the ring of copies has room for some tens of them only. */
static bool take_copies(void *ctx)
{
	struct collector *c = ctx;
	return copies_have_room(c->copies) && !sampler_poll_copies(c->sampler);
}

static void on_record(void *ctx, const struct wire_record *r, const void *payload)
{
	struct collector *c = ctx;
	switch (r->kind) {
	case WIRE_FILLING:
		c->filling = true;
		break;
	case WIRE_PYTHON:
		pythons_record(c->pythons, r, payload);
		break;
	case WIRE_NEW_MAPPING: /* the news of it is in the side-band */
		c->next_news_ns = 0;
		break;
	case WIRE_NEW_PROCESS:
		if (c->n_arrived < ARRIVALS_MAX && !ARRAY_RESERVE(c->arrived, c->cap_arrived, c->n_arrived + 1))
			c->arrived[c->n_arrived++] = *r;
		break;
	default:
		labelling_record(c->labelling, r, payload);
	}
}

static void drain(struct collector *c)
{
	METRIC_TIME(drain);
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	drain_sideband(c);
	admit(c);
	resolver_begin(c->resolver, sampler_drain_ms(c->sampler));
	trampolines_begin(c->trampolines);
	ruled_begin(c->ruled);
	uint64_t now = proc_now_ns();
	if (!c->stopped) {
		c->end_ns = (int64_t)clock_ns(CLOCK_REALTIME);
		c->end_boot_ns = (int64_t)now;
	}
	c->filling = false; /* it may fill again while rows are added */
	sampler_drain(c->sampler, on_half, c);
	if (c->lost_to_ns < now) /* no row of that time is left */
		c->lost_from_ns = c->lost_to_ns = 0;
	uint64_t wait = sampler_drain_ms(c->sampler) * 1000000ull;
	if (trampolines_any(c->trampolines) && wait > TRAMPOLINES_DRAIN_NS)
		wait = TRAMPOLINES_DRAIN_NS; /* while they remember */
	c->next_drain_ns = now + wait;
	c->sum.drains++;
	c->sum.drain_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

/* ---- windows ---- */

static int add_events(struct collector *c)
{
	int rc = 0;
	for (unsigned i = 0; !rc && i < c->cfg.n_events; i++) {
		const struct event *e = &c->cfg.event[i];
		struct store_event se = { .name = e->name, .unit = e->unit, .ns_per_sample = e->ns_per_sample,
					  .period = e->tracepoint ? 1 : e->fixed_period ? e->attr.sample_period / c->cfg.weight : 0 };
		if (e->wait)
			se.period = 0;
		rc = store_add_event(c->store, &se, &c->event_id[i]);
	}
	return rc ? rc : waits_renew(&c->waits, &c->cfg);
}

/* Between two windows the store may begin anew with its ids; when ours cannot be made now, rows are lost until they can. */
static void renew(struct collector *c)
{
	c->ids_void |= store_renew(c->store);
	if (c->ids_void && !add_events(c) && !resolver_renewed(c->resolver) && !pythons_renewed(c->pythons)) {
		c->ids_void = false;
		store_renew_end(c->store);
	}
}

/* What of the waits that go on belongs to this window. */
static void tell_waits(struct collector *c)
{
	sampler_poll_ring(c->sampler);
	resolver_begin(c->resolver, sampler_drain_ms(c->sampler));
	sampler_waits(c->sampler, on_wait, c);
}

static void estimate_waits(struct collector *c)
{
	struct window_cpu *w = window_cpu(c->window, 0); /* sums of a label set are of all CPUs */
	uint64_t n = waits_estimate(&c->waits);
	w->counter[COUNTER_wait_estimated] += n;
	w->used |= n != 0;
}

static int end_window(struct collector *c, struct err *err)
{
	struct store_totals t;
	int64_t t1 = c->end_ns;
	if (!c->stopped)
		tell_waits(c);
	estimate_waits(c);
	size_t n = window_totals(c->window, c->stopped, &t);
	int rc = 0;
	if (t1 <= c->t0_ns)
		t1 = c->t0_ns + 1; /* the clock was set back: time in the store does not go back */
	for (size_t i = 0; i < n; i++) {
		uint64_t lost = t.cpu[i].fired - t.cpu[i].stored;
		c->sum.fired += t.cpu[i].fired;
		c->sum.stored += t.cpu[i].stored;
		c->sum.lost += lost;
		c->sum.asleep += t.cpu[i].lost[COUNTER_idle_not_run];
		c->sum.idle += t.cpu[i].flagged[window_idle_flag];
	}
	c->sum.outside += t.outside;
	if (n || t.outside) {
		own_add(&c->own, c->store); /* without memory less is told of ourselves */
		rc = store_commit_window(c->store, c->t0_ns, t1, c->end_boot_ns, &t, err);
		if (rc) {
			c->sum.failed++;
			for (size_t i = 0; i < n; i++) { /* counted again with the next window */
				c->sum.fired -= t.cpu[i].fired;
				c->sum.stored -= t.cpu[i].stored;
				c->sum.lost -= t.cpu[i].fired - t.cpu[i].stored;
				c->sum.asleep -= t.cpu[i].lost[COUNTER_idle_not_run];
			}
			c->sum.outside -= t.outside;
			window_lost(c->window);
		} else {
			own_committed(&c->own);
			c->sum.windows++;
			window_clear(c->window);
		}
	}
	renew(c);
	waits_window(&c->waits);
	c->t0_ns = t1;
	uint64_t window = c->cfg.window_s * NS;
	c->next_window_ns = (int64_t)(((uint64_t)t1 / window + 1) * window);
	procs_forget(c->procs, proc_now_ns() - FORGET_AFTER_NS);
	labelling_forget(c->labelling);
	trampolines_forget(c->trampolines);
	unwinding_forget(c->unwinding);
	resolver_forget(c->resolver);
	pythons_forget(c->pythons, c->procs);
	return rc;
}

/* ---- life ---- */

int collector_open_store(struct store_writer **ret, const char *dir, const char *what, const struct store_options *o,
			 struct err *err)
{
	struct utsname u;
	char os[300];
	uname(&u);
	snprintf(os, sizeof(os), "%s %s %s", u.sysname, u.release, u.machine);
	struct store_meta meta = {
		.host = u.nodename,
		.os = os,
		.what = what,
		.lost_names = collector_lost_names,
		.n_lost = collector_n_lost,
		.flagged_names = collector_flagged_names,
		.n_flagged = collector_n_flagged,
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
static const sandbox_op parser_ops[] = { SYMBOLS_OPS_LIST, [UNWIND_OP] = unwind_op, [FILE_FACTS_OP] = file_facts_op,
					 [FILE_PATH_OP] = file_path_op };

/* The child that parses foreign files. */
static int open_symbolizer(struct collector *c, size_t table_bytes, struct err *err)
{
	struct sandbox_config cfg = {
		.ops = parser_ops,
		.n_ops = sizeof(parser_ops) / sizeof(parser_ops[0]),
		.reader = proc_reader_run,
		.memory = SYMBOLS_MEMORY,
		.serves = PARSER_SERVES,
	};
	int rc = sandbox_new(&c->sandbox, &cfg, err);
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
	c->store = w;
	c->cfg = *cfg;
	c->cfg.weight = cfg->weight ? cfg->weight : 1;
	int rc = proc_check_namespace(&e);
	rc = rc ? rc
		: open_symbolizer(c, cfg->symbols_bytes,
				  &e); /* its child is forked before anything else is open */
	rc = rc ? rc : sampler_open(&c->sampler, cfg, &e);
	if (!rc) {
		c->n_cpus = sampler_n_cpus(c->sampler);
		c->poll = calloc(c->n_cpus + 1, sizeof(*c->poll));
		rc = c->poll ? window_new(&c->window, c->sampler, c->sandbox, c->cfg.weight) : -ENOMEM;
	}
	rc = rc ? rc : sideband_open(&c->sideband, c->n_cpus, SIDEBAND_BYTES, &e);
	if (!rc) {
		struct add_ring a = { c, &e, 0 };
		rc = sampler_cpu_list("/sys/devices/system/cpu/online", add_ring, &a);
		rc = rc ? rc : a.rc;
	}
	rc = rc ? rc : procs_new(&c->procs, resolver_file_gone);
	rc = rc ? rc : resolver_new(&c->resolver, w, c->symbolizer, c->procs, ret_warning);
	if (!rc && cfg->jvm_attach)
		resolver_ask_jvms(c->resolver);
	rc = rc ? rc : pythons_new(&c->pythons, w);
	rc = rc ? rc : labelling_new(&c->labelling, c->sampler, c->procs, c->resolver, cfg);
	rc = rc ? rc : ruled_new(&c->ruled, cfg->recipes, &e);
	rc = rc ? rc : trampolines_new(&c->trampolines, c->procs, c->resolver);
	struct unwinding_config uc = { c->sandbox, UNWIND_OP, cfg->unwind_bytes ? cfg->unwind_bytes : UNWIND_BUDGET };
	rc = rc ? rc : unwinding_new(&c->unwinding, c->sampler, c->procs, c->resolver, &uc);
	rc = rc ? rc : copies_new(&c->copies, c->unwinding);
	c->sets = (struct sets){ c->procs, c->labelling, c->ruled };
	c->waits.sets = &c->sets;
	c->waits.store = w;
	c->waits.weight = c->cfg.weight;
	rc = rc ? rc : add_events(c);
	if (rc) {
		if (!e.code)
			err_sys(&e, rc, "starting to record");
		if (err)
			*err = e;
		collector_close(c);
		return rc;
	}
	labelling_on_known(c->labelling, on_known, c);
	sampler_on_record(c->sampler, on_record, c);
	sampler_on_copy(c->sampler, on_copy, c);
	sandbox_meanwhile(c->sandbox, sampler_copies_fd(c->sampler), take_copies, c);
	c->sum.table_bytes = sampler_memory(c->sampler);
	c->sum.n_cpus = c->n_cpus;
	c->sum.drain_s = sampler_drain_ms(c->sampler) / 1000.0;
	*ret = c;
	return 0;
}

int collector_set_filter(struct collector *c, const struct label_filter *f, const struct redactor *r)
{
	return labelling_set_filter(c->labelling, f, r);
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
	drain_sideband(c);
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

/* What is due by the clock. The CPUs that came and went are looked at once a second. */
static void do_due(struct collector *c)
{
	uint64_t now = proc_now_ns();
	if (now >= c->next_cpus_ns) {
		c->next_cpus_ns = now + NS;
		if (sampler_follow_cpus(c->sampler, on_cpu_change, c)) {
			procs_lost(c->procs, c->news_ns); /* until the new CPU had a ring */
			unwinding_lost(c->unwinding);
		}
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
	struct pollfd *p = calloc(c->n_cpus + 2 + n_fds, sizeof(*p));
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
		wait = min_wait(wait, copies_tick(c->copies, c->news_ns));
		wait = min_wait(wait, c->downloads ? downloads_tick(c->downloads) : -1);
		size_t n = fill_poll(c);
		memcpy(p, c->poll, n * sizeof(*p));
		for (size_t i = 0; i < n_fds; i++)
			p[n + i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
		p[n + n_fds] = (struct pollfd){ .fd = c->downloads ? downloads_fd(c->downloads) : -1, .events = POLLIN };
		if (poll(p, n + n_fds + 1, wait) < 0 && errno != EINTR) {
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
		admit(c);
		if (p[n + n_fds].revents)
			resolver_take_downloads(c->resolver);
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
	c->end_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	c->end_boot_ns = (int64_t)proc_now_ns();
	sampler_stop(c->sampler); /* takes a while */
	tell_waits(c);
	c->stopped = true;
	symbolizer_begin(c->symbolizer, LAST_DRAIN_MS);
	c->names_until_ns = (uint64_t)c->end_boot_ns + LAST_NAMES_NS;
	drain(c);
	return end_window(c, err);
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
	if (c->sandbox)
		sandbox_meanwhile(c->sandbox, -1, NULL, NULL);
	labelling_free(c->labelling);
	ruled_free(c->ruled);
	trampolines_free(c->trampolines);
	copies_free(c->copies);
	unwinding_free(c->unwinding);
	procs_free(c->procs);
	pythons_free(c->pythons);
	resolver_free(c->resolver);
	symbolizer_free(c->symbolizer);
	proc_reader_stop(c->sandbox);
	sandbox_free(c->sandbox);
	sideband_close(c->sideband);
	sampler_close(c->sampler);
	window_free(c->window);
	free(c->arrived);
	free(c->later);
	free(c->poll);
	free(c);
}

void collector_progress(struct collector *c, struct collector_progress *ret)
{
	*ret = c->sum;
	ret->processes = procs_count(c->procs);
	ret->unknown_cpus = sampler_unknown_cpus(c->sampler);
	ret->alive = procs_alive(c->procs);
	unwinding_stats(c->unwinding, &ret->unwinding);
	symbolizer_stats(c->symbolizer, &ret->symbols);
	sandbox_stats(c->sandbox, &ret->parsing);
	proc_reader_stats(&ret->reading);
	resolver_jit_stats(c->resolver, &ret->jit);
	ret->sampled = ret->stored + sampler_pending(c->sampler);
	for (unsigned i = 0; i < c->n_cpus; i++)
		ret->sampled += window_cpu(c->window, i)->stored;
}
