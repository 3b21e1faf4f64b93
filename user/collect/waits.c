/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/waits.h"

#include "query/waits.h"
#include "store/writer.h"

#include <errno.h>
#include <xxhash.h>
#include <string.h>

#define BLAME_SPAN_NS 15000000000ull /* longer than a window and the sums of a thread */

static int one_frame(struct waits *w, const struct store_frame *f, uint32_t *ret_stack)
{
	uint32_t frame;
	int rc = store_add_frame(w->store, f, &frame);
	return rc ? rc : store_add_stack(w->store, 0, frame, ret_stack);
}

static int add_event(struct waits *w, const char *name, uint32_t *ret)
{
	struct store_event e = { .name = name, .unit = "nanoseconds" };
	return store_add_event(w->store, &e, ret);
}

int waits_renew(struct waits *w, const struct sampler_config *cfg)
{
	struct store_frame none = { .kind = FRAME_KERNEL }, interrupt = none, earlier = none;
	w->on = false;
	for (unsigned i = 0; i < cfg->n_events; i++) {
		if (!cfg->event[i].wait)
			continue;
		*(strcmp(cfg->event[i].name, EVENT_OFF) ? &w->runq : &w->off) = i;
		w->on = true;
	}
	if (!w->on)
		return 0;
	w->wakers = cfg->wakers;
	w->latency = cfg->latency[0];
	int rc = add_event(w, "blame", &w->blame);
	rc = rc || !w->wakers ? rc : add_event(w, WAKER_EVENT, &w->waker);
	rc = rc || !w->wakers ? rc : add_event(w, WAKER_IDLE_EVENT, &w->waker_idle);
	rc = rc || !w->latency ? rc : add_event(w, LATENCY_OFF_EVENT, &w->weighed[0]);
	rc = rc || !w->latency ? rc : add_event(w, LATENCY_EVENT, &w->weighed[1]);
	if (!rc && !w->causes.sets.n)
		rc = causes_init(&w->causes);
	rc = rc ? rc
		: store_add_string(w->store, WAITS_NO_STACK, strlen(WAITS_NO_STACK),
				   &none.function);
	rc = rc ? rc : store_add_string(w->store, "[kernel]", 8, &none.module);
	rc = rc ? rc : one_frame(w, &none, &w->no_stack);
	earlier.module = interrupt.module = none.module;
	rc = rc ? rc
		: store_add_string(w->store, WAIT_EARLIER, strlen(WAIT_EARLIER), &earlier.function);
	rc = rc ? rc : one_frame(w, &earlier, &w->earlier);
	rc = rc || !w->wakers ? rc
			      : store_add_string(w->store, WAITS_INTERRUPT, strlen(WAITS_INTERRUPT),
						 &interrupt.function);
	w->causes.no_stack = w->no_stack;
	return rc || !w->wakers ? rc : one_frame(w, &interrupt, &w->interrupt);
}

/*
 * Find the occupant at `at` of the arena. Return NULL, or a name where it is no thread. n_words: of
 * the occupant and its stack.
 */
static const char *occupant_of(const struct sampler_half *h, uint32_t at, uint32_t n_words,
			       const struct occupant **ret)
{
	const struct occupant *who = NULL;
	*ret = NULL;
	if (h && at <= h->arena_words && h->arena_words - at >= n_words)
		who = (const struct occupant *)(const void *)(h->arena + at);
	if (who && who->tgid) {
		*ret = who;
		return NULL;
	}
	switch (who ? who->start_ns : at) {
	case OCCUPANT_IDLE:
		return "(idle)";
	case OCCUPANT_INTERRUPT:
		return "(interrupt)";
	default:
		return "(other)";
	}
}

static uint64_t process_hash(uint32_t tgid, uint64_t start_ns)
{
	return start_ns ^ (uint64_t)tgid << 40;
}

bool waits_is_kthread(const struct row *row)
{
	switch (row->kind) {
	case ROW_WAIT:
	case ROW_BLAME:
		return row->wait.flags & WAIT_KTHREAD;
	case ROW_WAKER:
		return row->waker_flags & WAIT_KTHREAD;
	default:
		return row->kind == ROW_KTHREAD;
	}
}

/* Kernel threads of one kind are one program: kworker/0:1 and kworker/u8:2. */
static size_t kthread_kind(const char *comm)
{
	size_t len = strnlen(comm, COMM_SIZE), kind = strcspn(comm, "/:-0123456789");
	return kind && kind < len ? kind : len;
}

static uint64_t program_hash(const struct row *row, const struct proc_image *im)
{
	char comm[COMM_SIZE + 1] = "";
	if (im && im->exe)
		return XXH3_64bits(im->exe->path, strlen(im->exe->path));
	memcpy(comm, row->comm, COMM_SIZE);
	return XXH3_64bits(comm, waits_is_kthread(row) ? kthread_kind(comm) : strlen(comm));
}

/* Threads whose names differ by a number at the end are of one kind: "worker-1", "worker-2". */
static uint64_t thread_kind(const struct row *row)
{
	char comm[COMM_SIZE + 1] = "";
	memcpy(comm, row->comm, COMM_SIZE);
	size_t len = waits_is_kthread(row) ? kthread_kind(comm) : strlen(comm), kind = len;
	while (kind && comm[kind - 1] >= '0' && comm[kind - 1] <= '9')
		kind--;
	return XXH3_64bits(comm, kind ? kind : len);
}

void waits_note_stack(struct waits *w, const struct row *row, const struct proc_image *im,
		      uint32_t set, uint32_t stack, uint32_t event_id)
{
	const uint64_t kind = thread_kind(row),
		       image[] = { row->start_ns, (uint64_t)row->tgid << 32 | row->exec_id, kind },
		       program[] = { program_hash(row, im), kind };
	const struct estimate_key key = { event_id, set, XXH3_64bits(image, sizeof(image)),
					  XXH3_64bits(program, sizeof(program)) };
	/* waits that a sampled one stands for, without itself */
	uint64_t others = (1ull << 2 * row->thinning) - 1;
	if (stack == w->no_stack)
		estimate_add_rest(&w->estimate, &key, row->samples, row->value);
	else
		estimate_add_sample(&w->estimate, &key, stack, (uint32_t)row->samples,
				    row->samples * others, row->value * others);
}

uint64_t waits_end(struct waits *w, struct causes_result *ret)
{
	const struct causes_store to = { w->store, w->locks,	  w->blame,
					 w->waker, w->waker_idle, w->weight };
	*ret = (struct causes_result){ 0 };
	if (!w->on)
		return 0;
	causes_flush(&w->causes, &to, ret);
	return estimate_divide(&w->estimate, w->store, w->no_stack, w->weight);
}

void waits_fini(struct waits *w)
{
	estimate_fini(&w->estimate);
	causes_fini(&w->causes);
}

void waits_window(struct waits *w)
{
	estimate_clear(&w->estimate);
	if (w->on)
		causes_clear(&w->causes);
}

/*
 * The occupant ran at some time during waits of which the last ended at ns. So only its
 * exact identity finds its image. An image that no row has identified yet is taken by time, if the
 * process has had no other for BLAME_SPAN_NS. Else none: a row never gets what belongs to another
 * image.
 */
static struct proc_image *occupant_image(struct procs *p, const struct occupant *who, uint64_t ns)
{
	const struct proc_id id = { who->start_ns, who->tgid, who->exec_id };
	struct proc_image *im = procs_lookup(p, &id);
	uint64_t begin = ns > BLAME_SPAN_NS ? ns - BLAME_SPAN_NS : 0;
	if (!im && procs_find(p, who->tgid, ns) == procs_find(p, who->tgid, begin))
		im = procs_identify(p, &id, ns, PROC_NAME);
	return im;
}

/* Shall the row wait for labels that have no answer yet? */
static bool is_put_off(const struct sets_labels *l, struct waits_try *io_try)
{
	io_try->late = l->late;
	return l->late && io_try->put_off;
}

/*
 * Add waiting time by its cause: who, or where that is NULL, name. io_l has the labels of the
 * thread that waited.
 */
static int add_cause(struct waits *w, struct cause *c, const struct row *row,
		     const struct occupant *who, const struct proc_image *by, const char *name,
		     struct sets_labels *io_l, struct waits_try *io_try)
{
	c->n = row->samples;
	c->ns = row->value;
	io_l->n = labels_normalize(io_l->v, io_l->n);
	memcpy(w->waited, io_l->v, io_l->n * sizeof(*io_l->v));
	c->waited = (struct cause_labels){ w->waited, io_l->n };
	sets_add_occupant(w->sets, who, by, name, io_l);
	if (is_put_off(io_l, io_try))
		return -EINPROGRESS;
	io_l->n = labels_normalize(io_l->v, io_l->n);
	c->pair = (struct cause_labels){ io_l->v, io_l->n };
	c->process[0] = process_hash(row->tgid, row->start_ns);
	c->process[1] = who ? process_hash(who->tgid, who->start_ns) : 0;
	c->named = who;
	return causes_add(&w->causes, c, &io_try->cut);
}

static int add_blame(struct waits *w, const struct sampler_half *h, const struct row *row,
		     struct sets_labels *io_l, struct waits_try *io_try)
{
	const struct occupant *who;
	const char *name = occupant_of(h, row->occupant, sampler_row_words(row), &who);
	struct proc_image *by = who ? occupant_image(w->sets->procs, who, row->last_ns) : NULL;
	struct cause c = { .event = CAUSE_BLAME };
	return add_cause(w, &c, row, who, by, name, io_l, io_try);
}

const struct occupant *waits_occupant(const struct sampler_half *h, const struct row *row,
				      const char **ret_name)
{
	const struct occupant *who;
	*ret_name = occupant_of(h, row->occupant, sampler_row_words(row), &who);
	return who;
}

int waits_add_waker(struct waits *w, const struct sampler_half *h, const struct row *row,
		    const struct waits_waker *k, struct waits_try *io_try)
{
	static struct sets_labels l;
	struct cause c = { .event = CAUSE_WAKER,
			   .part = k->part,
			   .thinning = row->thinning,
			   .lock = k->lock,
			   .lock_end = k->lock_end };
	const char *name;
	const struct occupant *who = waits_occupant(h, row, &name);
	c.stack = k->stack			     ? *k->stack
		  : k->lock_end & LOCK_END_INTERRUPT ? w->interrupt
						     : w->no_stack;
	c.program = program_hash(row, k->image);
	sets_of(w->sets, row, k->image, SETS_WORK, row->waker_flags & WAIT_KTHREAD, &l);
	return add_cause(w, &c, row, who, k->by, name, &l, io_try);
}

uint32_t waits_weighed(const struct waits *w, const struct row *row)
{
	return w->weighed[row->event != w->off];
}

/*
 * Waits without a stack: those that count as samples, their weights, or those of one length; hits
 * of one value.
 */
static int add_waits(struct waits *w, const struct row *row, const struct proc_image *im,
		     struct sets_labels *l, const uint32_t *event_id, uint32_t *ret_set)
{
	bool weights = row->wait.flags & WAIT_LATENCY,
	     summed = weights || row->wait.flags & WAIT_SUMMED;
	const uint32_t stack = w->no_stack,
		       event = weights ? waits_weighed(w, row) : event_id[row->event];
	uint32_t set;
	int rc = sets_store(l, w->store, &set);
	if (!rc && !summed)
		return spreads_add(&w->spreads, set, row->event, row->wait.bucket, row->samples);
	rc = rc ? rc
		: store_add_row(w->store, set, stack, event, row->samples * w->weight, row->value);
	if (rc)
		return rc;
	waits_note_stack(w, row, im, set, stack, event);
	*ret_set = set;
	return 0;
}

int waits_add(struct waits *w, const struct sampler_half *h, const struct row *row,
	      const struct proc_image *im, const uint32_t *event_id, struct waits_try *io_try)
{
	static struct sets_labels l; /* 30 KiB */
	bool summed = row->kind == ROW_WAIT && row->wait.flags & (WAIT_SUMMED | WAIT_LATENCY);
	sets_of(w->sets, row, im, summed ? SETS_THREAD : SETS_WORK, row->wait.flags & WAIT_KTHREAD,
		&l);
	if (row->kind == ROW_BLAME)
		return add_blame(w, h, row, &l, io_try);
	return is_put_off(&l, io_try) ? -EINPROGRESS
				      : add_waits(w, row, im, &l, event_id, &io_try->set);
}

/* Add the waits that found no row, of one event. */
static int add_other(struct waits *w, const struct wait_other *o, uint32_t set, uint32_t stack,
		     uint32_t event, uint64_t samples)
{
	return samples || o->ns ? store_add_row(w->store, set, stack, event, samples, o->ns) : 0;
}

static int add_other_lengths(struct waits *w, const struct wait_others *o, uint32_t set)
{
	int rc = 0;
	for (uint32_t i = 0; !rc && i < 2 * WAIT_BUCKETS; i++)
		if (o->length[i])
			rc = spreads_add(&w->spreads, set, i < WAIT_BUCKETS ? w->off : w->runq,
					 i % WAIT_BUCKETS, o->length[i]);
	return rc;
}

int waits_add_others(struct waits *w, const struct wait_others *o, const uint32_t *event_id,
		     uint64_t *ret_stored)
{
	static struct sets_labels l;
	uint32_t set;
	l.n = 0;
	l.v[l.n++] = (struct label){
		.key = "comm", .key_len = 4, .str = "(other)", .str_len = 7, .type = LABEL_STRING
	};
	*ret_stored = 0;
	int rc = sets_store(&l, w->store, &set);
	for (unsigned i = 0; !rc && i < 2; i++) {
		rc = add_other(w, &o->all[i], set, w->no_stack, event_id[i ? w->runq : w->off],
			       o->all[i].n * w->weight);
		*ret_stored += rc ? 0 : o->all[i].n;
	}
	for (unsigned i = 0; !rc && w->latency && i < 2; i++)
		rc = add_other(w, &o->latency[i], set, w->no_stack, w->weighed[i],
			       o->latency[i].n * w->weight);
	rc = rc ? rc : add_other_lengths(w, o, set);
	sets_add_occupant(w->sets, NULL, NULL, "(other)", &l);
	rc = rc ? rc : sets_store(&l, w->store, &set);
	rc = rc ? rc : add_other(w, &o->blame, set, 0, w->blame, o->blame.n);
	return rc || !w->wakers ? rc
				: add_other(w, &o->waker, set, w->no_stack, w->waker,
					    o->waker.n * w->weight);
}
