/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histograms beside the sorted values: buckets, quantiles, ranks, moments, merging, memory,
 * counters that carry.
 */
#include "unit/hist_model.h"

#include <sys/mman.h>

static struct values m, m2;

/* From bucket to bucket: no gap, no overlap, the last one ends with the last value. */
static void test_buckets(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits <= HIST_BITS_MAX; bits++) {
		uint64_t low = 0;
		for (uint32_t i = 0; i < HIST_BUCKETS(bits); i++) {
			uint64_t high = low + (model_width(bits, low) - 1);
			assert_int_equal(hist_bucket_low(bits, i), low);
			assert_int_equal(hist_bucket_high(bits, i), high);
			assert_int_equal(hist_bucket_index(bits, low), i);
			assert_int_equal(hist_bucket_index(bits, high), i);
			assert_int_equal(hist_bucket_index(bits, low + (high - low) / 3), i);
			/* half a bucket is within the stated error of all that is in it */
			assert_true((u128)(high - low + 1) << bits <= (u128)(low ? low : 1) ||
				    high == low);
			low = high + 1;
		}
		assert_true(low == 0);
	}
	assert_int_equal(hist_bits(0.01), 6);
	assert_int_equal(hist_bits(0.1), 3);
	assert_int_equal(hist_bits(1), 0);
	assert_int_equal(hist_bits(0), HIST_BITS_MAX);
}

/* |got - want| <= want / 2^(bits+1), without rounding. */
static void check_within(unsigned bits, uint64_t got, uint64_t want)
{
	uint64_t off = got > want ? got - want : want - got;
	if ((u128)off << (bits + 1) > want)
		fail_msg("%u bits: %llu instead of %llu", bits, (unsigned long long)got,
			 (unsigned long long)want);
}

static void check_value(const struct hist_snapshot *s, struct hist_value got, uint64_t want)
{
	assert_true(got.low <= want && want <= got.high);
	assert_int_equal(got.low, model_low(s->bits, want));
	assert_int_equal(got.high, model_high(s->bits, want));
	check_within(s->bits, got.value, want);
}

static void check_ranks(const struct hist_snapshot *s)
{
	for (size_t i = 0; i < m.n; i += 1 + m.n / 300)
		check_value(s, hist_snapshot_at(s, i), m.v[i]);
	check_value(s, hist_snapshot_at(s, m.n + 5), m.v[m.n - 1]);
	for (unsigned permille = 1; permille <= 1000; permille++) {
		uint64_t rank = (permille * m.n + 999) / 1000;
		check_value(s, hist_snapshot_quantile(s, permille / 1000.0), m.v[rank - 1]);
	}
	check_value(s, hist_snapshot_quantile(s, 0), m.v[0]);
	check_value(s, hist_snapshot_quantile(s, -1), m.v[0]);
	check_value(s, hist_snapshot_quantile(s, NAN), m.v[0]);
	check_value(s, hist_snapshot_quantile(s, 2), m.v[m.n - 1]);
	check_value(s, hist_snapshot_quantile(s, INFINITY), m.v[m.n - 1]);
}

static uint64_t upto(uint64_t v)
{
	uint64_t n = 0;
	for (size_t i = 0; i < m.n && m.v[i] <= v; i++)
		n++;
	return n;
}

static void check_rank_of(const struct hist_snapshot *s)
{
	for (unsigned i = 0; i < 100; i++) {
		uint64_t v = i % 2 ? m.v[model_random() % m.n] : model_value(i % MODEL_SHAPES), low,
			 high;
		uint64_t first = model_low(s->bits, v), last = model_high(s->bits, v);
		hist_snapshot_rank(s, v, &low, &high);
		assert_int_equal(high, upto(last));
		assert_int_equal(low, v == last ? upto(last) : first ? upto(first - 1) : 0);
		assert_true(low <= upto(v) && upto(v) <= high);
	}
}

#if defined(__aarch64__)
typedef long double exact_float; /* of 128 bits there */
#else
typedef __float128 exact_float;
#endif

static void check_moments(const struct hist_snapshot *s)
{
	u128 sum = 0;
	for (size_t i = 0; i < m.n; i++)
		sum += m.v[i];
	exact_float mean = (exact_float)sum / m.n, var = 0, square = 0;
	for (size_t i = 0; i < m.n; i++) {
		var += (m.v[i] - mean) * (m.v[i] - mean);
		square += (exact_float)m.v[i] * m.v[i];
	}
	struct hist_moments got = hist_snapshot_moments(s);
	struct hist_sum bounds = hist_snapshot_sum(s);
	double rms = (double)sqrtl((long double)(square / m.n)),
	       deviation = (double)sqrtl((long double)(var / m.n));
	double e = 1.0 / (2u << s->bits), rounding = 1e-12;
	assert_true(got.error == e);
	assert_true(bounds.low <= sum && sum <= bounds.high);
	assert_true(fabs(got.mean - (double)mean) <= (e + rounding) * (double)mean);
	assert_true(fabs(got.deviation - deviation) <= (e + rounding) * rms);
	assert_true(fabs(got.square_mean - rms) <= (e + rounding) * rms);
}

static void test_questions(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits <= HIST_BITS_MAX; bits++) {
		for (unsigned shape = 0; shape < MODEL_SHAPES; shape++) {
			static const size_t sizes[] = { 1, 2, 10, 3000 };
			struct hist_snapshot s;
			model_fill(&m, shape, sizes[(bits + shape) % 4]);
			struct hist *h = model_hist(bits, &m);
			model_snapshot(&s, h);
			model_check(&s, &m);
			check_ranks(&s);
			check_rank_of(&s);
			check_moments(&s);
			hist_snapshot_fini(&s);
			hist_free(h);
		}
	}
}

static void test_empty(void **state)
{
	(void)state;
	struct hist_snapshot s;
	uint64_t low = 1, high = 1;
	m.n = 0;
	struct hist *h = model_hist(6, &m);
	model_snapshot(&s, h);
	model_check(&s, NULL);
	assert_int_equal(hist_snapshot_at(&s, 0).high, 0);
	assert_int_equal(hist_snapshot_quantile(&s, 0.5).value, 0);
	hist_snapshot_rank(&s, UINT64_MAX, &low, &high);
	assert_int_equal(low + high, 0);
	struct hist_moments moments = hist_snapshot_moments(&s);
	assert_true(moments.mean == 0 && moments.deviation == 0);
	hist_snapshot_fini(&s);
	hist_snapshot_fini(NULL);
	hist_free(h);
	hist_free(NULL);
	assert_int_equal(hist_new(HIST_BITS_MAX + 1, &h), -EINVAL);
}

/* Both ways of recording, and adding many at once, count the same. */
static void test_ways(void **state)
{
	(void)state;
	struct hist *h;
	struct hist_snapshot s;
	model_fill(&m, 1, 5000);
	assert_int_equal(hist_new(5, &h), 0);
	for (size_t i = 0; i < m.n; i++)
		hist_record_own(h, m.v[i]);
	model_snapshot(&s, h);
	model_check(&s, &m);
	hist_snapshot_fini(&s);
	hist_free(h);
	assert_int_equal(hist_new(5, &h), 0);
	for (size_t i = 0, n; i < m.n; i += n) {
		for (n = 1; i + n < m.n && m.v[i] == m.v[i + n];)
			n++;
		hist_add(h, m.v[i], n);
	}
	model_snapshot(&s, h);
	model_check(&s, &m);
	hist_snapshot_fini(&s);
	hist_free(h);
}

/* Merging equals recording everything with the lower precision. */
static void check_merge(unsigned bits, unsigned bits2, unsigned shape, unsigned shape2)
{
	struct err err = { 0 };
	struct hist_snapshot s, s2;
	model_fill(&m, shape, 1 + model_random() % 800);
	model_fill(&m2, shape2, model_random() % 800);
	struct hist *h = model_hist(bits, &m), *h2 = model_hist(bits2, &m2);
	model_snapshot(&s, h);
	model_snapshot(&s2, h2);
	struct hist_snapshot before = s2;
	assert_int_equal(hist_snapshot_merge(&s, &s2, &err), 0);
	assert_memory_equal(&before, &s2, sizeof(s2)); /* what is merged stays as it is */
	model_check(&s2, &m2);
	assert_int_equal(s.bits, bits < bits2 ? bits : bits2);
	memcpy(m.v + m.n, m2.v, m2.n * sizeof(m.v[0]));
	m.n += m2.n;
	qsort(m.v, m.n, sizeof(m.v[0]), model_compare);
	model_check(&s, &m);
	/* and so it is when histograms are added to one snapshot */
	hist_snapshot_fini(&s);
	hist_snapshot_init(&s, HIST_BITS_MAX);
	assert_int_equal(hist_snapshot_add(&s, h, &err), 0);
	assert_int_equal(hist_snapshot_add(&s, h2, &err), 0);
	model_check(&s, &m);
	hist_snapshot_fini(&s);
	hist_snapshot_fini(&s2);
	hist_free(h);
	hist_free(h2);
}

static void test_merge(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits <= HIST_BITS_MAX; bits++)
		for (unsigned bits2 = 0; bits2 <= HIST_BITS_MAX; bits2++)
			check_merge(bits, bits2, (bits + 3 * bits2) % MODEL_SHAPES,
				    (5 * bits + bits2) % MODEL_SHAPES);
}

static void test_merge_overflow(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct hist_snapshot a, b;
	uint64_t n;
	hist_snapshot_init(&a, 6);
	hist_snapshot_init(&b, 4);
	assert_int_equal(hist_snapshot_count(&a, 3000, UINT64_MAX - 5, &err), 0);
	assert_int_equal(hist_snapshot_count(&b, 7, 6, &err), 0);
	assert_int_equal(hist_snapshot_merge(&a, &b, &err), -EOVERFLOW);
	assert_true(strstr(err.text, "2^64") != NULL);
	assert_int_equal(hist_snapshot_count(&a, 1, 6, &err), -EOVERFLOW);
	assert_int_equal(a.bits, 6);
	assert_int_equal(a.total, UINT64_MAX - 5);
	uint32_t i = 0;
	assert_true(hist_snapshot_next(&a, &i, &n) && i == 3000 && n == UINT64_MAX - 5);
	assert_int_equal(hist_snapshot_count(&a, 1, 5, &err), 0);
	/* questions at the brim: 5 values of 1, the others high */
	assert_int_equal(hist_snapshot_at(&a, 4).value, 1);
	assert_int_equal(hist_snapshot_at(&a, 5).low, hist_bucket_low(6, 3000));
	assert_int_equal(hist_snapshot_at(&a, UINT64_MAX).low, hist_bucket_low(6, 3000));
	assert_int_equal(hist_snapshot_quantile(&a, 1).low, hist_bucket_low(6, 3000));
	hist_snapshot_fini(&a);
	hist_snapshot_fini(&b);
}

/* ---- memory ---- */

static size_t resident(const struct hist *h)
{
	unsigned char pages[4096];
	size_t n = (h->map_bytes + 4095) / 4096, bytes = 0;
	assert_true(n <= sizeof(pages));
	assert_int_equal(mincore((void *)(uintptr_t)h, h->map_bytes, pages), 0);
	for (size_t i = 0; i < n; i++)
		bytes += pages[i] & 1 ? 4096 : 0;
	return bytes;
}

/* 1% over the whole range in 16 KiB, less when values are alike; the kernel's word, not ours. */
static void test_memory(void **state)
{
	(void)state;
	struct hist *h;
	struct hist_snapshot s;
	assert_int_equal(hist_new(hist_bits(0.01), &h), 0);
	assert_true(resident(h) <= 4096);
	for (unsigned i = 0; i < 1000; i++)
		hist_record(h, 1000000 + model_random() % 7000000);
	assert_true(resident(h) <= 4096);
	assert_true(hist_bytes(h) <= 2048);
	for (unsigned i = 0; i < 100000; i++)
		hist_record(h, model_random() >> model_random() % 64);
	model_snapshot(&s, h);
	assert_true(resident(h) <= 16384);
	assert_true(hist_bytes(h) <= 16384);
	assert_true(hist_bytes(h) > 12288);
	hist_snapshot_fini(&s);
	hist_free(h);
}

/* Rows are taken in the order of the first values, whatever that is: no two share counters. */
static void test_row_order(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 200; round++) {
		struct hist_snapshot s;
		unsigned bits = round % (HIST_BITS_MAX + 1);
		m.n = 0;
		for (unsigned i = 0; i < 64; i++)
			m.v[m.n++] = 1ull << model_random() % 64;
		struct hist *h = model_hist(bits, &m);
		qsort(m.v, m.n, sizeof(m.v[0]), model_compare);
		model_snapshot(&s, h);
		model_check(&s, &m);
		hist_snapshot_fini(&s);
		hist_free(h);
	}
}

/* ---- counters that carry ---- */

static void check_counts(const struct hist *h, uint64_t v, uint64_t want, uint64_t others)
{
	struct hist_snapshot s;
	uint32_t i = hist_bucket_index(h->bits, v);
	uint64_t n;
	model_snapshot(&s, h);
	assert_true(hist_snapshot_next(&s, &i, &n));
	assert_int_equal(i, hist_bucket_index(h->bits, v));
	assert_int_equal(n, want);
	assert_int_equal(s.total, want + others);
	hist_snapshot_fini(&s);
}

static void test_carry(void **state)
{
	(void)state;
	static const uint64_t values[] = { 0, 1, 127, 128, 12345678, 1ull << 63, UINT64_MAX };
	static const uint64_t counts[] = { 1,
					   (1u << 16) - 1,
					   1u << 16,
					   (1u << 16) + 1,
					   (1u << 31) - 1,
					   1u << 31,
					   (1u << 31) + 1,
					   UINT32_MAX,
					   UINT32_MAX + 1ull,
					   5ull << 31,
					   1ull << 40,
					   (1ull << 61) + 12345,
					   (1ull << 31) - 3 };
	for (unsigned bits = 0; bits <= 6; bits += 3) {
		for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
			struct hist *h;
			uint64_t want = 0, other = values[k] < 1ull << 40 ? 1ull << 55 : 5;
			assert_int_equal(hist_new(bits, &h), 0);
			hist_record(h, other);
			for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
				hist_add(h, values[k], counts[i]);
				want += counts[i];
				check_counts(h, values[k], want, 1);
			}
			for (unsigned i = 0; i < 100; i++) {
				hist_record(h, values[k]);
				check_counts(h, values[k], ++want, 1);
			}
			hist_free(h);
		}
	}
}

/* The owner's plain increments carry too. */
static void test_carry_own(void **state)
{
	(void)state;
	struct hist *h;
	assert_int_equal(hist_new(6, &h), 0);
	hist_add(h, 77777, (1u << 31) - 5);
	for (uint64_t i = 1; i < 20; i++) {
		hist_record_own(h, 77777);
		check_counts(h, 77777, (1u << 31) - 5 + i, 0);
	}
	hist_free(h);
}

static void test_overflow(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct hist *h;
	struct hist_snapshot s;
	assert_int_equal(hist_new(6, &h), 0);
	hist_snapshot_init(&s, 6);
	for (unsigned i = 0; i < 3; i++) /* each fits, the sum does not */
		hist_add(h, 1000 * i, (1ull << 63) - 1);
	assert_int_equal(hist_snapshot_add(&s, h, &err), -EOVERFLOW);
	assert_int_equal(s.total, 0);
	hist_free(h);
	assert_int_equal(hist_new(6, &h), 0);
	hist_add(h, 5, UINT64_MAX);
	assert_int_equal(hist_snapshot_add(&s, h, &err), -EOVERFLOW);
	hist_free(h);
	hist_snapshot_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buckets),	 cmocka_unit_test(test_questions),
		cmocka_unit_test(test_empty),	 cmocka_unit_test(test_ways),
		cmocka_unit_test(test_merge),	 cmocka_unit_test(test_merge_overflow),
		cmocka_unit_test(test_memory),	 cmocka_unit_test(test_row_order),
		cmocka_unit_test(test_carry),	 cmocka_unit_test(test_carry_own),
		cmocka_unit_test(test_overflow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
