/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/sizes.h"

#include <linux/types.h>
#include "wire.h"

#define HALF_SAMPLES_MAX 1024 /* a higher rate is drained more often instead */
#define STACK_WORDS_MEAN 48
/*
 * Rows and words of stacks that a window's waits need: each thread has a row for each length of its
 * waits.
 */
#define WAIT_ROWS 12000
#define WAIT_WORDS_ALL 60000
/* And wakers: a row for each that woke it. */
#define WAKER_ROWS 8000
#define WAKER_WORDS_ALL 60000

#define ROWS_LEAST 64u
#define ROWS_FIRST_LEAST 2048u
#define ROW_WAIT_WORDS 5 /* of stacks, for each row of a half: WAIT_WORDS_ALL / WAIT_ROWS */
#define WORDS_LEAST 512u
#define SPARES_MAX 16u

/* For each CPU where there are few; for all of them together where there are many. */
#define RUNS_MAX 2048u
#define RUNS_ALL (1u << 16)
#define REUSE_MAX 8u
#define REUSE_ALL 1024u
#define RECALLED_MAX 512u
#define RECALLED_ALL (1u << 15)
#define COPIES_MAX 64u
#define RING_MAX (128u << 10)
#define RING_LEAST (16u << 10)
#define RINGS_ALL (8u << 20)

/* Or the largest there is. Numbers may be those of a recorder that was taken over. */
static uint32_t pow2_at_least(uint32_t n)
{
	uint32_t p = 1;
	while (p < n && p < 1u << 31)
		p *= 2;
	return p;
}

/*
 * The largest power of two of which all CPUs together have at most `all`; from `least` to `most`.
 */
static uint32_t share(uint32_t all, unsigned n_cpus, uint32_t least, uint32_t most)
{
	uint32_t n = most;
	while (n > least && (uint64_t)n * n_cpus > all)
		n /= 2;
	return n;
}

void sizes_of_cpus(unsigned n_cpus, struct sizes *ret)
{
	ret->n_halves = n_cpus + (n_cpus < SPARES_MAX ? n_cpus : SPARES_MAX);
	ret->runs = share(RUNS_ALL, n_cpus, 64, RUNS_MAX);
	ret->reuse = share(REUSE_ALL, n_cpus, 1, REUSE_MAX);
	ret->recalled = share(RECALLED_ALL, n_cpus, 32, RECALLED_MAX);
	ret->copies = pow2_at_least(n_cpus) < COPIES_MAX ? pow2_at_least(n_cpus) : COPIES_MAX;
	ret->ring_bytes = share(RINGS_ALL, n_cpus, RING_LEAST, RING_MAX);
}

/* With instants a half has room for one of each row. */
static size_t half_bytes(uint32_t rows, uint32_t words, bool instants)
{
	size_t n = sizeof(struct half) + rows * (sizeof(struct row) + sizeof(struct stack_ref)) +
		   ((size_t)words + STACK_WORDS_MAX) * sizeof(uint64_t) +
		   (instants ? rows * sizeof(struct instant) : 0);
	return (n + 7) & ~(size_t)7;
}

/* Rows that a CPU fills in a window, and the words of their stacks; how long that window may be. */
static void wanted(const struct sizes_question *q, struct sizes *s, uint32_t *ret_rows,
		   uint32_t *ret_words)
{
	uint32_t rows = q->hz * q->window_s * 5 / 4 + 16;
	s->drain_ms = q->window_s * 1000;
	if (rows > HALF_SAMPLES_MAX) {
		rows = HALF_SAMPLES_MAX;
		uint64_t ms = (uint64_t)HALF_SAMPLES_MAX * 4 / 5 * 1000 / q->hz;
		s->drain_ms = ms < 20 ? 20 : (unsigned)ms;
		if (s->drain_ms == 20) /* not more often than that: larger halves instead */
			rows = q->hz / 50 * 5 / 4 + 64;
	}
	uint32_t words = rows * STACK_WORDS_MEAN * 2 / 3;
	if (q->waits) {
		rows += WAIT_ROWS;
		words += WAIT_WORDS_ALL;
	}
	if (q->wakers) {
		rows += WAKER_ROWS;
		words += WAKER_WORDS_ALL;
	}
	*ret_rows = pow2_at_least(rows);
	*ret_words = pow2_at_least(words);
}

static size_t total(const struct sizes_question *q, const struct sizes *s, uint32_t rows,
		    uint32_t words)
{
	size_t cpu = q->cpu_fixed_bytes + s->ring_bytes + s->reuse * q->reuse_bytes +
		     s->recalled * q->recalled_bytes + s->runs * q->run_bytes;
	return q->fixed_bytes + q->n_cpus * cpu + s->copies * q->copy_bytes +
	       s->n_halves * (half_bytes(rows, words, q->instants) + q->half_extra_bytes);
}

static uint32_t words_for(uint32_t rows, uint32_t all_rows, uint32_t all_words)
{
	uint32_t words = (uint32_t)((uint64_t)all_words * rows / all_rows);
	return words < WORDS_LEAST ? WORDS_LEAST : words;
}

void sizes_choose(const struct sizes_question *q, struct sizes *ret)
{
	uint32_t all_rows, all_words;
	size_t budget = q->n_cpus > 512 ? (size_t)q->n_cpus * (SIZES_BUDGET / 512) : SIZES_BUDGET;
	struct sizes s = { 0 };
	sizes_of_cpus(q->n_cpus, &s);
	wanted(q, &s, &all_rows, &all_words);
	s.rows = q->rows && pow2_at_least(q->rows) < all_rows ? pow2_at_least(q->rows) : all_rows;
	while (s.rows > ROWS_LEAST &&
	       total(q, &s, s.rows, words_for(s.rows, all_rows, all_words)) > budget)
		s.rows /= 2;
	s.words = words_for(s.rows, all_rows, all_words);
	s.half_bytes = (uint32_t)half_bytes(s.rows, s.words, q->instants);
	s.bytes = total(q, &s, s.rows, s.words);
	s.may_grow = 2 * s.rows <= all_rows &&
		     total(q, &s, 2 * s.rows, words_for(2 * s.rows, all_rows, all_words)) <= budget;
	*ret = s;
}

uint32_t sizes_first_rows(unsigned n_cpus, size_t bytes)
{
	struct sizes s;
	uint32_t rows = ROWS_FIRST_LEAST;
	sizes_of_cpus(n_cpus, &s);
	while (rows < 1u << 30 &&
	       s.n_halves * half_bytes(2 * rows, 2 * rows * ROW_WAIT_WORDS, false) <= bytes)
		rows *= 2;
	return rows;
}
