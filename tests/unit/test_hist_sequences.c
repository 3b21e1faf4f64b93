/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every short sequence of calls to a histogram, at the values where buckets and counters change,
 * against the values themselves. tests/models/hist*.pml does the same for threads.
 */
#include "unit/hist_model.h"

#define LENGTH 4
#define BITS_MAX 2

/* The ends of the first rows, of a row far up, and of the range. */
#define VALUES 9
static uint64_t value_at(unsigned bits, unsigned i)
{
	const uint64_t unit = 1ull << bits, values[VALUES] = {
		0,	    1,		unit - 1, unit, 2 * unit - 1, 2 * unit, (1ull << 40) - 1,
		1ull << 63, UINT64_MAX,
	};
	return values[i];
}

/* Digit `at` of a number whose digits are the calls of a sequence. */
static unsigned digit(unsigned sequence, unsigned base, unsigned at)
{
	while (at--)
		sequence /= base;
	return sequence % base;
}

static struct values m;

static void fill(unsigned bits, unsigned sequence, unsigned from, unsigned to)
{
	m.n = 0;
	for (unsigned i = from; i < to; i++)
		m.v[m.n++] = value_at(bits, digit(sequence, VALUES, i));
}

/* Each rank and each value has its brute-force answer. */
static void check_answers(const struct hist_snapshot *s)
{
	for (size_t rank = 0; rank < m.n; rank++) {
		struct hist_value v = hist_snapshot_at(s, rank);
		assert_int_equal(v.low, model_low(s->bits, m.v[rank]));
		assert_int_equal(v.high, model_high(s->bits, m.v[rank]));
	}
	for (unsigned k = 0; k < VALUES; k++) {
		uint64_t v = value_at(s->bits, k), low, high, below = 0, within = 0;
		for (size_t i = 0; i < m.n; i++) {
			below += m.v[i] < model_low(s->bits, v);
			within += model_low(s->bits, m.v[i]) == model_low(s->bits, v);
		}
		hist_snapshot_rank(s, v, &low, &high);
		assert_int_equal(high, below + within);
		assert_int_equal(low, v == model_high(s->bits, v) ? below + within : below);
	}
}

/* Record, ask, coarsen. */
static void check_sequence(unsigned bits, unsigned sequence)
{
	struct err err = { 0 };
	struct hist_snapshot s;
	fill(bits, sequence, 0, LENGTH);
	struct hist *h = model_hist(bits, &m);
	qsort(m.v, m.n, sizeof(m.v[0]), model_compare);
	for (unsigned lower = 0; lower <= bits; lower++) {
		model_snapshot(&s, h);
		assert_int_equal(hist_snapshot_coarsen(&s, lower, &err), 0);
		model_check(&s, &m);
		check_answers(&s);
		hist_snapshot_fini(&s);
	}
	hist_free(h);
}

/* Two parts that are merged, the second of a precision of its own, are the whole. */
static void check_parts(unsigned bits, unsigned sequence, unsigned cut, unsigned bits2)
{
	struct err err = { 0 };
	struct hist_snapshot s, s2;
	fill(bits, sequence, 0, cut);
	struct hist *h = model_hist(bits, &m);
	fill(bits, sequence, cut, LENGTH);
	struct hist *h2 = model_hist(bits2, &m);
	model_snapshot(&s, h);
	model_snapshot(&s2, h2);
	assert_int_equal(hist_snapshot_merge(&s, &s2, &err), 0);
	fill(bits, sequence, 0, LENGTH);
	qsort(m.v, m.n, sizeof(m.v[0]), model_compare);
	assert_int_equal(s.bits, bits < bits2 ? bits : bits2);
	model_check(&s, &m);
	hist_snapshot_fini(&s);
	hist_snapshot_fini(&s2);
	hist_free(h);
	hist_free(h2);
}

static void test_values(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits <= BITS_MAX; bits++) {
		for (unsigned q = 0; q < VALUES * VALUES * VALUES * VALUES; q++) {
			check_sequence(bits, q);
			check_parts(bits, q, q % (LENGTH + 1), (q / VALUES) % (BITS_MAX + 1));
		}
	}
}

/* ---- counters that carry ---- */

static const uint64_t counts[] = {
	1,	  1u << 16,	  (1u << 16) + 1, (1u << 31) - 1,
	1u << 31, (1u << 31) + 1, UINT32_MAX,	  1ull << 32,
};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))
#define ADDS 3
#define CALLS (2 * COUNTS) /* of one value and of another */

/* Each sum is whole after each call, whichever way the counter carried. */
static void test_carries(void **state)
{
	(void)state;
	static const uint64_t values[2] = { 3, 1ull << 50 };
	for (unsigned q = 0; q < CALLS * CALLS * CALLS; q++) {
		uint64_t sum[2] = { 0, 0 };
		struct hist *h;
		assert_int_equal(hist_new(1, &h), 0);
		for (unsigned i = 0; i < ADDS; i++) {
			unsigned call = digit(q, CALLS, i), which = call / COUNTS;
			struct hist_snapshot s;
			uint32_t index = 0;
			uint64_t n;
			hist_add(h, values[which], counts[call % COUNTS]);
			hist_record(h, values[which]);
			sum[which] += counts[call % COUNTS] + 1;
			model_snapshot(&s, h);
			for (unsigned k = 0; k < 2; k++, index++) {
				if (!sum[k])
					continue;
				assert_true(hist_snapshot_next(&s, &index, &n));
				assert_int_equal(index, hist_bucket_index(1, values[k]));
				assert_int_equal(n, sum[k]);
			}
			assert_int_equal(s.total, sum[0] + sum[1]);
			hist_snapshot_fini(&s);
		}
		hist_free(h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_carries),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
