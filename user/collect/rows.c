/* SPDX-License-Identifier: Apache-2.0 */
/* Add rows of the BPF programs, with names and labels, to the open window of the store. */
#include "collect/collector_int.h"

#include "hist/metrics.h"
#include "hist_bucket.h"
#include "python_wire.h"
#include "util/array.h"

#include <errno.h>
#include <string.h>

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
	bool known = who && s.n_kernel + s.n_user && !limit_is_full(c), cut = false;
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
static bool rows_add(struct collector *c, struct window_cpu *w, const struct sampler_half *h, const struct row *row, bool put_off)
{
	uint32_t set, stack;
	bool no_binding;
	uint64_t label_flags;
	struct label more[TRAMPOLINES_LABELS_MAX];
	char room[TRAMPOLINES_LABELS_MAX * REDACTED_LEN];
	struct resolver_flags flags = { 0 };
	uint32_t n_words = sampler_row_words(row);
	struct python_stack py;
	limit_rows(c);
	bool full = limit_is_full(c);
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
	else if (!rc && full)
		stack = c->other_stack;
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
	if (full && row->kind != ROW_IDLE)
		limit_count(c, row->samples);
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
	if (flags.lines_saved)
		w->counter[COUNTER_lines_saved] += row->samples;
	if (flags.names_saved)
		w->counter[COUNTER_names_saved] += row->samples;
	if (flags.names_late)
		w->counter[COUNTER_names_late] += row->samples;
	if (im && proc_reader_refuses(row->tgid))
		w->counter[COUNTER_unanswered] += row->samples;
	return true;
lost:
	w->counter[COUNTER_user_memory] += row->samples;
	return true;
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
	bool added = rows_add(t->c, t->w, &h, row, t->put_off);
	t->w->counter[end] += added;
	news_attend(t->c);
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
		if (!rows_add(c, w, h, &h->rows[i], true)) {
			if (put_off_row(c, n_later, i))
				n_later++;
			else
				rows_add(c, w, h, &h->rows[i], false);
		}
		news_attend(c);
	}
	return n_later;
}

/* Those with places that are not known yet come last: DWARF is asked for many of them at once. */
static void add_samples(struct collector *c, struct window_cpu *w, const struct sampler_half *h)
{
	struct taking t = { c, w, true };
	size_t n_later = add_rows(c, w, h);
	copies_take(c->copies, h->id, on_taken, &t);
	while (resolver_ask_places(c->resolver))
		news_attend(c);
	for (size_t i = 0; i < n_later; i++) {
		rows_add(c, w, h, &h->rows[c->later[i]], false);
		news_attend(c);
	}
	t.put_off = false;
	copies_take(c->copies, h->id, on_taken, &t);
}

void rows_on_half(void *ctx, const struct sampler_half *h)
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
	if (copies_newest(c->copies, h->id) >= c->news_ns)
		news_read(c);
	add_samples(c, w, h);
	if (h->others && (h->head->counters[COUNTER_wait_rows_full] ||
			  h->head->counters[COUNTER_wait_parts_full]))
		add_others(c, w, h->others);
}

void rows_on_wait(void *ctx, const struct row *row, const uint64_t *words)
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
	rows_add(c, w, &h, row, false);
	if (row->kind == ROW_WAIT || row->kind == ROW_BLAME)
		return;
	if (row->event == c->waits.runq)
		w->counter[COUNTER_blame_unknown] += row->samples;
	if (c->waits.wakers && row->event == c->waits.off)
		w->counter[COUNTER_waker_unknown] += row->samples;
	if (waits_add_part(&c->waits, row, row_image(c, row)))
		w->counter[COUNTER_wait_parts_full] += row->samples;
}
