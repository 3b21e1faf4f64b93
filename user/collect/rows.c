/* SPDX-License-Identifier: Apache-2.0 */
/* Add rows of the BPF programs, with names and labels, to the open window of the store. */
#include "collect/collector_int.h"

#include "hist/metrics.h"
#include "hist_bucket.h"
#include "script_wire.h"
#include "store/writer.h"

#include <errno.h>
#include <string.h>

/* Is it of a user thread with its stack: a sample, a wait, or the weight of one? */
static bool is_task(const struct row *row)
{
	return row->kind == ROW_TASK || row->kind == ROW_LATENCY;
}

/*
 * Behind the system's labels and the application's come those of trampolines. True: some have no
 * answer yet.
 */
static bool row_labels(struct collector *c, const struct row *row, const struct proc_image *im,
		       const struct label *more, size_t n_more, struct sets_labels *l)
{
	sets_of(&c->sets, row, im, SETS_THREAD, !is_task(row), l);
	for (size_t i = 0; i < n_more; i++)
		l->v[l->n++] = more[i];
	return l->late;
}

/*
 * Has it user frames, which are named by the mappings? Rows of waits without a stack use that
 * member for something else.
 */
static bool has_user_frames(const struct row *row)
{
	return row->n_user && is_task(row);
}

/*
 * Can /proc show the image? It has nothing of a process that has ended, as most have on a host of
 * short processes.
 */
static bool is_in_proc(const struct collector *c, const struct proc_image *im)
{
	const struct proc_image *newest = procs_find(c->procs, im->tgid, UINT64_MAX);
	return newest && newest->to_ns == UINT64_MAX;
}

static struct proc_image *with_cmdline(const struct collector *c, struct proc_image *im)
{
	if (im && c->sets.cmdline)
		proc_image_read_cmdline(im);
	return im;
}

struct proc_image *rows_image(struct collector *c, const struct row *row)
{
	const struct proc_id id = { row->start_ns, row->tgid, row->exec_id };
	bool frames = has_user_frames(row);
	struct proc_image *im =
		procs_identify(c->procs, &id, row->last_ns, frames ? PROC_MAPS : PROC_NAME);
	if (!im)
		return NULL;
	if (frames)
		unwinding_sampled(c->unwinding, im, row->last_ns);
	if (im->cgroup_inherited && !procs_in_cgroup(c->procs, row->cgroup) && is_in_proc(c, im))
		proc_image_read_cgroup(im);
	return with_cmdline(c, im);
}

void rows_script(struct collector *c, const struct row *row, struct rows_script *script,
		 struct resolver_stack *io)
{
	const uint64_t *words = io->frames + io->n_kernel + io->n_user;
	uint32_t n = row->n_script <= SCRIPT_FRAMES_MAX ? row->n_script : SCRIPT_FRAMES_MAX;
	for (uint32_t i = 0; i < n; i++) {
		script->frame[i] = scripts_frame(c->scripts, row, words[i]);
		script->entry[i] = words[i] & SCRIPT_ENTRY;
	}
	io->script = script->frame;
	io->entry = script->entry;
	io->n_script = n;
	io->language = n ? SCRIPT_LANGUAGE(words[0]) : 0;
}

/* The labels of the trampolines on a row's stack, whose frames become one and the same. */
static size_t trampoline_labels(struct collector *c, const struct row *row,
				struct resolver_stack *s, struct label *out, char *room,
				bool *ret_unknown, bool *ret_late)
{
	uint64_t flags = 0; /* of the labels of the set alone */
	*ret_unknown = *ret_late = false;
	if (!trampolines_any(c->trampolines) || !is_task(row) ||
	    s->n_kernel + s->n_user > STACK_WORDS_MAX)
		return 0;
	memcpy(c->folded, s->frames, (s->n_kernel + s->n_user) * sizeof(uint64_t));
	s->frames = c->folded;
	size_t n = trampolines_labels(c->trampolines, row, c->folded + s->n_kernel, s->n_user, out,
				      ret_unknown, ret_late);
	return labelling_filter(c->labelling, out, n, room, &flags);
}

/* What labelling_find had to say. */
static void count_label_flags(struct window_cpu *w, const struct row *row, uint64_t flags)
{
	if (flags == LABELLING_UNKNOWN)
		w->counter[COUNTER_label_unknown] += row->samples;
	for (unsigned i = COUNTER_labels_cut; flags && flags != LABELLING_UNKNOWN && i < N_COUNTERS;
	     i++)
		if (flags >> (i - COUNTER_labels_cut) & 1)
			w->counter[i] += row->samples;
}

bool rows_put_aside(struct collector *c, struct sample *s)
{
	const struct proc_id id = { s->row.start_ns, s->row.tgid, s->row.exec_id };
	s->user = proc_image_user(procs_lookup(c->procs, &id));
	return aside_add(&c->aside, s, proc_now_ns());
}

static bool is_wait(const struct collector *c, const struct row *row)
{
	return row->event < c->cfg.n_events && c->cfg.event[row->event].wait;
}

/* Does a row count as samples? Others have lengths of waits, or who was running. */
static bool is_samples(const struct row *row)
{
	return row->kind < ROW_WAIT || (row->kind == ROW_WAIT && row->wait.flags & WAIT_SUMMED);
}

/* Does it have the weight of samples or waits that are rows of their own? */
static bool is_weight(const struct row *row)
{
	return row->kind == ROW_LATENCY ||
	       (row->kind == ROW_WAIT && row->wait.flags & WAIT_LATENCY);
}

bool rows_left_out(struct collector *c, unsigned cpu, const struct row *row, bool last)
{
	bool late;
	if (!c->chooser || row->kind == ROW_IDLE)
		return false;
	const struct proc_image *im =
		procs_in_cgroup(c->procs, row->cgroup) ? NULL : rows_image(c, row);
	if (!chooser_leaves_out(c->chooser, row->cgroup, im, waits_is_kthread(row), &late) ||
	    (late && !last))
		return false;
	if (is_samples(row)) {
		window_cpu(c->window, cpu)->outside += row->samples;
		window_cpu(c->window, cpu)->left_out = true;
	}
	return true;
}

static void count_stored(struct window_cpu *w, uint64_t n, bool waits)
{
	w->stored += n;
	if (waits)
		w->counter[COUNTER_waits] += n;
}

/*
 * Add a row of waits without their stack; those that count as samples are in no other row. False,
 * only with put_off: labels are missing.
 */
static bool add_wait(struct collector *c, const struct sampler_half *h, const struct row *row,
		     uint32_t number, bool put_off)
{
	struct window_cpu *w = window_cpu(c->window, h->cpu);
	bool summed = row->kind == ROW_WAIT && row->wait.flags & WAIT_SUMMED;
	if (rows_left_out(c, h->cpu, row, !put_off))
		return true;
	struct waits_try r = { .put_off = put_off };
	int rc = row->event < c->cfg.n_events
			 ? waits_add(&c->waits, h, row, rows_image(c, row), c->event_id, &r)
			 : -EINVAL;
	if (rc == -EINPROGRESS)
		return false;
	if (r.cut)
		w->counter[COUNTER_blame_cut] += row->samples;
	if (row->kind == ROW_BLAME && row->occupant == OCCUPANT_OTHER)
		w->counter[COUNTER_blame_unknown] += row->samples;
	if (rc)
		w->counter[summed	     ? COUNTER_user_memory
			   : is_weight(row)  ? COUNTER_latency_rows_full
			   : is_wait(c, row) ? COUNTER_wait_parts_full
					     : COUNTER_value_spread_full] += row->samples;
	else if (summed)
		count_stored(w, row->samples, true);
	if (!rc && summed)
		instants_stored(&c->instants, number, r.set, c->waits.no_stack,
				c->event_id[row->event]);
	if (r.late && summed)
		w->counter[COUNTER_labels_late] += row->samples;
	return true;
}

/* The same, or put it aside while labels are missing. */
static void add_wait_row(struct collector *c, const struct sampler_half *h, const struct row *row,
			 uint32_t number)
{
	const char *name;
	struct sample s = { .row = *row, .cpu = h->cpu, .number = number };
	if (add_wait(c, h, row, number, true))
		return;
	if (row->kind == ROW_BLAME && waits_occupant(h, row, &name)) {
		s.stack = (struct resolver_stack){ .frames = h->arena + row->occupant,
						   .n_user = OCCUPANT_WORDS };
		s.row.occupant = 0;
	}
	if (!rows_put_aside(c, &s))
		add_wait(c, h, row, number, false);
}

/*
 * Find the label set of a sample, and fold the frames of trampolines. With `last`, leave out labels
 * that have no answer yet; else the sample is `unset` then. 0 or -errno.
 */
static int label_sample(struct collector *c, const struct proc_image *im, bool last,
			struct sample *s)
{
	static struct sets_labels l;
	struct label more[TRAMPOLINES_LABELS_MAX];
	char room[TRAMPOLINES_LABELS_MAX * REDACTED_LEN];
	struct resolver_stack stack = s->stack;
	size_t n = trampoline_labels(c, &s->row, &stack, more, room, &s->no_binding, &s->unset);
	s->unset |= row_labels(c, &s->row, im, more, n, &l);
	if (s->unset && !last)
		return 0;
	s->stack = stack;
	s->by_trampolines = n;
	s->label_flags = l.flags;
	return sets_store(&l, c->store, &s->set);
}

/* All but the names of its frames. 0 or -errno. */
static int find_sample(struct collector *c, const struct sampler_half *h, const struct row *row,
		       uint32_t number, const struct heap_hit *hit, struct rows_script *script,
		       struct sample *ret)
{
	uint32_t n_words = sampler_row_words(row);
	struct proc_image *im = row->kind == ROW_IDLE ? NULL : rows_image(c, row);
	struct resolver_stack s = { .frames = h->arena + row->stack,
				    .n_kernel = row->n_kernel,
				    .n_user = row->n_user,
				    .put_off = true };
	bool wait = is_wait(c, row);
	rows_script(c, row, script, &s);
	s.script_cut =
		s.n_script >= SCRIPT_FRAMES_MAX || n_words >= (wait ? WAIT_WORDS : STACK_WORDS_MAX);
	if (wait && row->earlier && is_task(row) && !row->n_user)
		s.root = c->waits.earlier;
	if (wait)
		resolver_trim_switch(c->resolver, &s);
	*ret = (struct sample){
		.row = *row, .cpu = h->cpu, .number = number, .heap = *hit, .stack = s
	};
	ret->news_lost = row->last_ns >= c->lost_from_ns && row->last_ns < c->lost_to_ns;
	return label_sample(c, im, false, ret);
}

static void count_flags(struct window_cpu *w, const struct sample *s,
			const struct resolver_flags *flags)
{
	uint64_t n = s->row.samples;
	count_label_flags(w, &s->row, s->label_flags);
	w->counter[COUNTER_labels_late] += s->unset ? n : 0;
	w->counter[COUNTER_sideband_lost] += s->news_lost ? n : 0;
	w->counter[COUNTER_trampoline_unknown] += s->no_binding ? n : 0;
	w->counter[COUNTER_no_mapping] += flags->no_mapping ? n : 0;
	w->counter[COUNTER_jit_unnamed] += flags->jit_unnamed ? n : 0;
	w->counter[COUNTER_names_refused] += flags->names_refused ? n : 0;
	w->counter[COUNTER_lines_saved] += flags->lines_saved ? n : 0;
	w->counter[COUNTER_names_saved] += flags->names_saved ? n : 0;
	w->counter[COUNTER_names_late] += flags->names_late ? n : 0;
}

/*
 * The store's stack of a sample: 0, -EINPROGRESS, or -errno. *ret_full: the dictionaries are full,
 * and it is "(other)".
 */
static int find_stack(struct collector *c, const struct sample *p, struct proc_image *im,
		      bool put_off, uint32_t *ret_stack, struct resolver_flags *ret_flags,
		      bool *ret_full)
{
	struct resolver_stack s = p->stack;
	*ret_full = false;
	if (p->row.kind == ROW_IDLE)
		return resolver_idle(c->resolver, ret_stack);
	*ret_full = limit_is_full(c);
	if (*ret_full) {
		*ret_stack = c->other_stack;
		return 0;
	}
	s.put_off = put_off;
	return resolver_stack(c->resolver, im, &s, ret_stack, ret_flags);
}

/* The image of a sample that was found before, with its mappings if they have come meanwhile. */
static struct proc_image *sample_image(struct collector *c, const struct row *row)
{
	const struct proc_id id = { row->start_ns, row->tgid, row->exec_id };
	struct proc_image *im = row->kind == ROW_IDLE ? NULL : procs_lookup(c->procs, &id);
	return with_cmdline(c, im && proc_image_is_late(im)
				       ? procs_identify(c->procs, &id, row->last_ns, PROC_MAPS)
				       : im);
}

/* Samples of another rate are another event of the same name: queries add up such rates. */
static int stored_event(struct collector *c, const struct sample *p, uint32_t *ret)
{
	const struct row *row = &p->row;
	if (p->heap.mean)
		return heap_alloc_event(&c->heap, p->heap.mean, ret);
	if (row->kind == ROW_LATENCY)
		*ret = waits_weighed(&c->waits, row);
	else if (is_wait(c, row) || row->thinning >= RATES_MAX)
		*ret = c->event_id[row->event];
	else
		*ret = c->rate_id[row->event][row->thinning];
	return 0;
}

/* Store a sample. False: names or labels are missing, and it may be put off. */
static bool store_sample(struct collector *c, const struct sample *p, bool put_off)
{
	struct window_cpu *w = window_cpu(c->window, p->cpu);
	struct proc_image *im = sample_image(c, &p->row);
	struct sample labelled = *p;
	struct resolver_flags flags = { 0 };
	bool wait = is_wait(c, &p->row), full;
	uint32_t stack, event;
	if (rows_left_out(c, p->cpu, &p->row, !put_off))
		return true;
	int rc = p->unset ? label_sample(c, im, !put_off, &labelled) : 0;
	if (!rc && labelled.unset && put_off)
		return false;
	p = &labelled;
	const struct row *row = &p->row;
	rc = rc ? rc : find_stack(c, p, im, put_off, &stack, &flags, &full);
	if (rc == -EINPROGRESS || (!rc && put_off && c->hold_names))
		return false;
	if (!rc && wait && !stack)
		stack = c->waits.no_stack;
	rc = rc ? rc : stored_event(c, p, &event);
	rc = rc ? rc
		: store_add_row(c->store, p->set, stack, event, row->samples * c->cfg.weight,
				row->value);
	const bool weight = is_weight(row);
	if (rc) {
		w->counter[weight ? COUNTER_latency_rows_full : COUNTER_user_memory] +=
			row->samples;
		return true;
	}
	if (wait)
		waits_note_stack(&c->waits, row, im, p->set, stack, event);
	if (weight) /* the sample itself is another row */
		return true;
	if (p->heap.ptr && heap_add_alloc(&c->heap, row, &p->heap, p->set, stack))
		w->counter[COUNTER_heap_untracked] += row->samples;
	count_stored(w, row->samples, wait);
	instants_stored(&c->instants, p->number, p->set, stack, event);
	if (full && row->kind != ROW_IDLE)
		limit_count(c, row->samples);
	if (wait && stack == c->waits.no_stack)
		w->counter[COUNTER_wait_summed] += row->samples;
	/* The kernel saw no label: those of trampolines are found here */
	if (p->by_trampolines && !row->set_id && !wait)
		w->counter[COUNTER_unlabelled] -= row->samples;
	if (row->kind != ROW_IDLE)
		metric_add(METRIC_stack_depth, sampler_row_words(row), row->samples);
	count_flags(w, p, &flags);
	if (im && proc_reader_refuses(row->tgid))
		w->counter[COUNTER_unanswered] += row->samples;
	return true;
}

static bool add_sample(struct collector *c, const struct sampler_half *h, const struct row *row,
		       uint32_t number, const struct heap_hit *hit)
{
	uint32_t n_words = sampler_row_words(row);
	struct rows_script script;
	struct sample s;
	if (row->stack > h->arena_words || n_words > h->arena_words - row->stack ||
	    row->event >= MAX_EVENTS || find_sample(c, h, row, number, hit, &script, &s))
		return false;
	if (!store_sample(c, &s, true) && !rows_put_aside(c, &s))
		store_sample(c, &s, false);
	return true;
}

static bool is_heap(const struct collector *c, const struct row *row)
{
	return row->event < c->cfg.n_events && c->cfg.event[row->event].heap;
}

/* The number of a row that is a sample of its own, or a part of one wait. */
static uint32_t add_instant(struct collector *c, unsigned cpu, const struct row *row)
{
	const bool wait = is_wait(c, row);
	if (wait && row->value < INSTANT_WAIT_NS)
		return INSTANTS_NONE;
	uint32_t number =
		instants_add_one(&c->instants, cpu, row, wait ? (uint32_t)(row->value / 1000) : 0);
	if (c->instants.on && number == INSTANTS_NONE)
		window_cpu(c->window, cpu)->counter[COUNTER_instants_full] += row->samples;
	return number;
}

/* A sampled allocation, or the free of one. False: an allocation found no memory. */
static bool add_heap(struct collector *c, const struct sampler_half *h, const struct row *row)
{
	const uint64_t size = row->samples ? row->value * HEAP_OBJECT / row->samples : 0;
	const struct heap_hit hit = { row->first_ns, row->samples, heap_mean_of(size, row->value) };
	struct row sample = *row;
	if (row->kind == ROW_FREE) {
		heap_add_free(&c->heap, row);
		return true;
	}
	sample.samples = 1;
	sample.first_ns = row->last_ns;
	return add_sample(c, h, &sample, add_instant(c, h->cpu, &sample), &hit);
}

void rows_enter(struct collector *c, const struct sampler_half *h, const struct row *row,
		uint32_t number)
{
	static const struct heap_hit none;
	struct window_cpu *w = window_cpu(c->window, h->cpu);
	limit_rows(c);
	if (row->kind == ROW_WAIT || row->kind == ROW_BLAME)
		add_wait_row(c, h, row, number);
	else if (row->kind == ROW_WAKER)
		wakers_add(c, h, row);
	else if (is_heap(c, row) ? !add_heap(c, h, row) : !add_sample(c, h, row, number, &none))
		w->counter[row->kind == ROW_LATENCY ? COUNTER_latency_rows_full
						    : COUNTER_user_memory] +=
			is_heap(c, row) ? 1 : row->samples;
}

void rows_enter_one(struct collector *c, const struct sampler_half *h, const struct row *row)
{
	rows_enter(c, h, row, add_instant(c, h->cpu, row));
}

/* A row that was put aside. */
static bool try_again(void *ctx, const struct sample *s, bool last)
{
	struct collector *c = ctx;
	const struct sampler_half h = { .cpu = s->cpu,
					.arena = s->stack.frames,
					.arena_words = s->stack.n_user };
	switch (s->row.kind) {
	case ROW_WAIT:
	case ROW_BLAME:
		return add_wait(c, &h, &s->row, s->number, !last);
	case ROW_WAKER:
		return wakers_try(c, &h, s, last);
	default:
		return store_sample(c, s, !last);
	}
}

/* A sample that came as a copy: a row of its own, without script frames. */
static void on_copy(void *ctx, unsigned cpu, const struct row *row, const uint64_t *frames,
		    uint64_t weight, enum counter end)
{
	struct collector *c = ctx;
	uint32_t n_words = (uint32_t)row->n_kernel + row->n_user;
	struct sampler_half h = { .cpu = cpu, .arena = frames, .arena_words = n_words };
	rows_enter_one(c, &h, row);
	if (weight) {
		struct row of = *row;
		of.kind = ROW_LATENCY;
		of.value = weight;
		rows_enter(c, &h, &of, INSTANTS_NONE);
	}
	window_cpu(c->window, h.cpu)->counter[end]++;
	news_attend(c);
}

void rows_go_on(struct collector *c, bool now)
{
	c->copies_left = copies_hand_out(c->copies, now, on_copy, c);
	hangs_go_on(c, now);
	aside_try(&c->aside, proc_now_ns(), now, try_again, c);
}

bool rows_wait(const struct collector *c)
{
	return c->aside.n || c->copies_left || c->hangs.n;
}

static void count_runs(const struct half *h)
{
	for (uint32_t i = 0; i < RUN_BUCKETS; i++)
		if (h->run[i])
			metric_add(METRIC_bpf_run,
				   (hist_bucket_low(RUN_HIST_BITS, i) +
				    hist_bucket_high(RUN_HIST_BITS, i)) /
					   2,
				   h->run[i]);
}

static void add_others(struct collector *c, struct window_cpu *w, const struct wait_others *o)
{
	uint64_t stored;
	if (waits_add_others(&c->waits, o, c->event_id, &stored))
		w->counter[COUNTER_user_memory] += o->all[0].n + o->all[1].n - stored;
	count_stored(w, stored, true);
}

void rows_on_half(void *ctx, const struct sampler_half *h)
{
	struct collector *c = ctx;
	struct window_cpu *w = window_cpu(c->window, h->cpu);
	uint64_t ran = 0, lost;
	for (unsigned i = 0; i < MAX_EVENTS; i++) {
		ran += h->head->ran[i];
		w->outside += h->head->outside[i];
	}
	w->thinned += h->head->thinned;
	if (!ran && !h->head->rows_used) /* who was running may come later than who waited */
		return;
	w->ran += ran;
	w->used = true;
	window_take_unkept(w, h->id);
	count_runs(h->head);
	wakers_begin_half(c);
	for (size_t i = 0; i < N_COUNTERS; i++)
		w->counter[i] += h->head->counters[i];
	if (copies_newest(c->copies, h->id) >= c->news_ns)
		news_read(c);
	const uint32_t first = instants_add_half(&c->instants, h, &lost);
	w->counter[COUNTER_instants_full] += lost;
	for (uint32_t i = 0, left = h->head->rows_used; i < h->n_rows && left; i++) {
		if (!h->rows[i].samples)
			continue;
		left--;
		rows_enter(c, h, &h->rows[i], first == INSTANTS_NONE ? INSTANTS_NONE : first + i);
		news_attend(c);
	}
	copies_take(c->copies, h->id);
	c->copies_left = copies_hand_out(c->copies, false, on_copy, c);
	if (h->others && (h->head->counters[COUNTER_wait_rows_full] ||
			  h->head->counters[COUNTER_wait_parts_full]))
		add_others(c, w, h->others);
}

void rows_end_window(struct collector *c)
{
	struct window_cpu *w = window_cpu(c->window, 0); /* sums of a label set are of all CPUs */
	struct causes_result causes;
	uint64_t n = waits_end(&c->waits, &causes);
	w->counter[COUNTER_wait_estimated] += n;
	w->counter[COUNTER_blame_cut] += causes.cut[CAUSE_BLAME];
	w->counter[COUNTER_waker_cut] += causes.cut[CAUSE_WAKER];
	w->counter[COUNTER_lock_cut] += causes.locks_cut;
	w->counter[COUNTER_wait_parts_full] += causes.failed;
	struct sampler_latency flaws;
	sampler_latency_end_window(c->sampler, &flaws);
	w->counter[COUNTER_latency_alone] += flaws.alone;
	w->counter[COUNTER_latency_locked] += flaws.locked;
	w->counter[COUNTER_latency_recounted] += flaws.recounted;
	w->used |= flaws.alone || flaws.locked || flaws.recounted;
	struct heap_lost heap;
	if (heap_end_window(&c->heap, c->procs, (uint64_t)c->closing_end_boot_ns, &heap))
		heap.untracked++;
	w->counter[COUNTER_heap_free_lost] += heap.frees;
	w->counter[COUNTER_heap_free_unknown] += heap.unknown;
	w->counter[COUNTER_heap_untracked] += heap.untracked;
	w->used |= heap.frees || heap.unknown || heap.untracked;
	w->used |= n || causes.cut[CAUSE_BLAME] || causes.cut[CAUSE_WAKER] || causes.locks_cut ||
		   causes.failed;
	limit_rows(c);
}
