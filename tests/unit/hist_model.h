/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle of the histogram tests: the values themselves, sorted, and sums in whole numbers. It
 * finds buckets by doubling and dividing, not by the arithmetic under test.
 */
#ifndef TESTS_HIST_MODEL_H
#define TESTS_HIST_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hist/dump.h"
#include "hist/multi.h"
#include "hist/snapshot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 u128;

struct values {
	uint64_t v[20000];
	size_t n;
};

static uint64_t model_seed = 1;

static inline uint64_t model_random(void)
{
	model_seed ^= model_seed << 13;
	model_seed ^= model_seed >> 7;
	model_seed ^= model_seed << 17;
	return model_seed * 0x2545f4914f6cdd1dull;
}

/* The least value of the bucket of v, and how many values it has. */
static inline uint64_t model_width(unsigned bits, uint64_t v)
{
	uint64_t width = 1, unit = 1;
	for (unsigned i = 0; i < bits; i++)
		unit *= 2;
	while (v / width >= 2 * unit)
		width *= 2;
	return width;
}

static inline uint64_t model_low(unsigned bits, uint64_t v)
{
	return v - v % model_width(bits, v);
}

static inline uint64_t model_high(unsigned bits, uint64_t v)
{
	return model_low(bits, v) + (model_width(bits, v) - 1);
}

/* Shapes of input; the last ones are those that broke others. */
#define MODEL_SHAPES 14

static inline uint64_t model_edge(void)
{
	uint64_t p = 1ull << model_random() % 64;
	return p + model_random() % 3 - 1;
}

static inline uint64_t model_value(unsigned shape)
{
	switch (shape) {
	case 0:
		return model_random();
	case 1:
		return model_random() >> model_random() % 64;
	case 2:
		return model_random() % 100;
	case 3:
		return 1000000 + model_random() % 1000;
	case 4:
		return model_edge();
	case 5:
		return 0;
	case 6:
		return UINT64_MAX;
	case 7:
		return model_random() % 2 ? 0 : UINT64_MAX;
	case 8:
		return UINT64_MAX - model_random() % 5;
	case 9:
		return 1ull << 40;
	case 10:
		return 1ull << 63 | model_random() >> 1;
	case 11:
		return model_random() % 1000 ? 20000 + model_random() % 5000 : model_random() >> 24;
	case 12:
		return 1;
	default:
		return model_random() % 2 ? 1 : 1ull << 62;
	}
}

static inline int model_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static inline void model_fill(struct values *m, unsigned shape, size_t n)
{
	m->n = n;
	for (size_t i = 0; i < n; i++)
		m->v[i] = model_value(shape);
	qsort(m->v, n, sizeof(m->v[0]), model_compare);
}

static inline struct hist *model_hist(unsigned bits, const struct values *m)
{
	struct hist *h;
	assert_int_equal(hist_new(bits, &h), 0);
	for (size_t i = 0; i < m->n; i++)
		hist_record(h, m->v[i]);
	return h;
}

static inline void model_snapshot(struct hist_snapshot *s, const struct hist *h)
{
	struct err err = { 0 };
	hist_snapshot_init(s, h->bits);
	if (hist_snapshot_add(s, h, &err))
		fail_msg("%s", err.text);
}

/* Every bucket of s, and no other, counts what the model says; m may be NULL: s is empty. */
static inline void model_check(const struct hist_snapshot *s, const struct values *m)
{
	uint32_t index = 0;
	uint64_t n, total = 0;
	for (size_t i = 0; m && i < m->n; index++) {
		uint64_t low = model_low(s->bits, m->v[i]), high = model_high(s->bits, m->v[i]),
			 count = 0;
		for (; i < m->n && m->v[i] <= high; i++)
			count++;
		assert_true(hist_snapshot_next(s, &index, &n));
		assert_int_equal(hist_bucket_low(s->bits, index), low);
		assert_int_equal(hist_bucket_high(s->bits, index), high);
		assert_int_equal(n, count);
		total += n;
	}
	assert_false(hist_snapshot_next(s, &index, &n));
	assert_int_equal(s->total, total);
}

#endif
