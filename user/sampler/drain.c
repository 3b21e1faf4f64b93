/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Take what the BPF programs wrote. Each CPU has a half, and some halves are spare:
 *
 *   for some CPUs at a time: give each a spare half; wait until its program is not in the old one;
 *   copy what is in use of that, zero it: it is spare
 *   then the records of the ring, then the copies, CPU by CPU, to the caller
 *
 * A half has an id: its index, and a count of the times that it was given out. What belongs to a
 * half (copies of stacks, places in its arena) names the id, so that it is not taken for what a
 * later owner wrote.
 */
#include "sampler/sampler_int.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define GIVEN_OUT (HALF_INDEX(~0u) + 1) /* in an id: once more */

/* What was taken of a CPU: one allocation, which begins with the half. NULL: nothing. */
struct sampler_taken {
	struct half *head;
	struct row *rows;
	uint64_t *arena;
	struct instant *instants;
	struct wait_others *others;
};

static struct half *half_at(const struct sampler *s, uint32_t id)
{
	return (struct half *)(s->halves + (size_t)HALF_INDEX(id) * s->programs.sizes.half_bytes);
}

struct half *sampler_half_of(const struct sampler *s, unsigned cpu)
{
	return half_at(s, s->states[cpu].active);
}

int sampler_give_halves(struct sampler *s)
{
	s->n_spares = s->programs.sizes.n_halves - s->n_cpus;
	s->spare = calloc(s->n_spares, sizeof(*s->spare));
	s->taken = calloc(s->n_cpus, sizeof(*s->taken));
	s->place = calloc(s->programs.sizes.rows, sizeof(*s->place));
	if (!s->spare || !s->taken || !s->place)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n_spares; i++)
		s->spare[i] = s->n_cpus + i;
	for (uint32_t c = 0; c < s->n_cpus; c++)
		s->states[c].active = half_at(s, c)->id = c;
	return 0;
}

static void release(struct sampler_taken *t)
{
	free(t->head);
	*t = (struct sampler_taken){ 0 };
}

void sampler_free_drain(struct sampler *s)
{
	for (unsigned c = 0; s->taken && c < s->n_cpus; c++)
		release(&s->taken[c]);
	free(s->taken);
	free(s->spare);
	free(s->place);
}

/* Wait until the program of this CPU is not in the half that it had. Microseconds. */
static void wait_outside(const struct cpu_state *st)
{
	uint32_t seq = __atomic_load_n(&st->seq, __ATOMIC_ACQUIRE);
	for (unsigned spins = 0; (seq & 1) && __atomic_load_n(&st->seq, __ATOMIC_ACQUIRE) == seq;
	     spins++)
		if (spins > 100)
			sched_yield();
}

void sampler_pass(struct sampler *s)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (unsigned c = 0; c < s->n_cpus; c++)
		wait_outside(&s->states[c]);
}

static void read_counts(struct sampler *s, struct cpu *c)
{
	for (unsigned i = 0; i < s->cfg.n_events; i++) {
		uint64_t v = 0;
		if (c->fd[i] >= 0)
			event_count(c->fd[i], &v);
		c->count[i] = c->base[i] + v;
	}
}

/* ---- taking ---- */

static bool has_others(const struct half *h)
{
	return h->counters[COUNTER_wait_rows_full] || h->counters[COUNTER_wait_parts_full];
}

/* Count rows of h as lost that there is no memory to take. */
static void count_lost(struct half *h, const struct row *rows, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		bool sample = rows[i].kind <= ROW_IDLE ||
			      (rows[i].kind == ROW_WAIT && rows[i].wait.flags & WAIT_SUMMED);
		if (rows[i].samples && sample)
			h->counters[COUNTER_user_memory] += rows[i].samples;
	}
	h->rows_used = h->arena_used = h->instants_used = 0;
}

/* Their rows are where s->place says. */
static void copy_instants(const struct sampler *s, struct instant *to, const struct instant *from,
			  uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		to[i] = from[i];
		to[i].row =
			from[i].row < s->programs.sizes.rows ? s->place[from[i].row] : UINT32_MAX;
	}
}

/* Rows in use come one behind the other. */
static void copy_half(const struct sampler *s, unsigned cpu, struct half *h,
		      struct wait_others *others)
{
	struct sampler_taken *t = &s->taken[cpu];
	const struct row *rows = (const struct row *)(h + 1);
	const uint64_t *arena =
		(const uint64_t *)((const struct stack_ref *)(rows + s->programs.sizes.rows) +
				   s->programs.sizes.rows);
	const struct instant *instants =
		(const struct instant *)(arena + s->programs.sizes.words + STACK_WORDS_MAX);
	bool more = others && has_others(h);
	size_t n_rows = h->rows_used, n_words = h->arena_used, n_instants = h->instants_used;
	size_t size = sizeof(*h) + n_rows * sizeof(*rows) + n_words * sizeof(*arena) +
		      n_instants * sizeof(*instants) + (more ? sizeof(*others) : 0);
	t->head = malloc(size);
	if (!t->head) { /* the counters still have room */
		count_lost(h, rows, s->programs.sizes.rows);
		t->head = malloc(sizeof(*h));
		n_rows = n_words = n_instants = 0;
		more = false;
	}
	if (!t->head)
		return;
	*t->head = *h;
	t->rows = (struct row *)(t->head + 1);
	t->arena = (uint64_t *)(t->rows + n_rows);
	t->instants = (struct instant *)(t->arena + n_words);
	t->others = more ? (struct wait_others *)(t->instants + n_instants) : NULL;
	memcpy(t->arena, arena, n_words * sizeof(*arena));
	if (more)
		*t->others = *others;
	for (size_t i = 0, n = 0; i < s->programs.sizes.rows && n < n_rows; i++) {
		if (!rows[i].samples)
			continue;
		s->place[i] = (uint32_t)n;
		struct row *row = &t->rows[n++];
		*row = rows[i];
		if (row->kind <= ROW_IDLE && !sampler_row_words(row))
			/* It may be what another row had, in an arena that is no more */
			row->stack = 0;
	}
	copy_instants(s, t->instants, instants, (uint32_t)n_instants);
}

/* The arena needs no zeroing: only what references name is read. */
static void zero_half(const struct sampler *s, struct half *h, struct wait_others *others)
{
	struct row *rows = (struct row *)(h + 1);
	if (h->rows_used)
		memset(rows, 0, s->programs.sizes.rows * sizeof(*rows));
	if (h->refs_used)
		memset(rows + s->programs.sizes.rows, 0,
		       s->programs.sizes.rows * sizeof(struct stack_ref));
	if (others && has_others(h))
		memset(others, 0, sizeof(*others));
	memset(h, 0, sizeof(*h));
}

/* Of the CPU that had the half `id`, which is spare then. */
static void take(struct sampler *s, unsigned cpu, uint32_t id)
{
	struct half *h = half_at(s, id);
	struct wait_others *others = s->others ? &s->others[HALF_INDEX(id)] : NULL;
	struct cpu *c = &s->cpu[cpu];
	for (unsigned i = 0; i < s->cfg.n_events; i++) {
		c->ran[i] += h->ran[i];
		c->covered[i] += h->covered[i];
	}
	c->idle += h->idle;
	uint32_t rows_used = h->rows_used;
	copy_half(s, cpu, h, others);
	h->rows_used = rows_used;
	zero_half(s, h, others);
}

/* CPUs from `first` on, as many as there are spare halves: how many. */
static unsigned take_some(struct sampler *s, unsigned first)
{
	unsigned n = s->n_cpus - first < s->n_spares ? s->n_cpus - first : s->n_spares;
	for (unsigned i = 0; i < n; i++) {
		uint32_t old = s->states[first + i].active, id = s->spare[i] + GIVEN_OUT;
		half_at(s, id)->id = id;
		/* The zeroes of the last drain come first */
		__atomic_store_n(&s->states[first + i].active, id, __ATOMIC_RELEASE);
		s->spare[i] = old;
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < n; i++) {
		wait_outside(&s->states[first + i]);
		take(s, first + i, s->spare[i]);
	}
	return n;
}

int sampler_drain(struct sampler *s, void (*on_half)(void *, const struct sampler_half *),
		  void *ctx)
{
	for (unsigned c = 0; c < s->n_cpus; c++)
		read_counts(s, &s->cpu[c]);
	for (unsigned c = 0; c < s->n_cpus;)
		c += take_some(s, c);
	int rc = sampler_poll_ring(s);
	for (unsigned c = 0; c < s->n_cpus; c++) {
		struct sampler_taken *t = &s->taken[c];
		if (!t->head)
			continue;
		const struct sampler_half h = { .cpu = c,
						.id = t->head->id,
						.head = t->head,
						.rows = t->rows,
						.n_rows = t->head->rows_used,
						.arena = t->arena,
						.arena_words = t->head->arena_used,
						.instants = t->instants,
						.n_instants = t->head->instants_used,
						.others = t->others };
		on_half(ctx, &h);
		release(t);
	}
	return rc;
}
