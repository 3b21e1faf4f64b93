/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of a difference, against enumeration and published values. */
#include "query/query.h"
#include "query/stats.h"
#include "unit/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

/* Exact for small numbers: Pascal's triangle in long double. */
static long double choose(unsigned n, unsigned k)
{
	static long double c[61][61];
	if (!c[0][0])
		for (unsigned i = 0; i <= 60; i++)
			for (unsigned j = 0; j <= i; j++)
				c[i][j] = j && j < i ? c[i - 1][j - 1] + c[i - 1][j] : 1;
	return k > n ? 0 : c[n][k];
}

static double brute_share(unsigned k1, unsigned n1, unsigned k2, unsigned n2)
{
	unsigned k = k1 + k2;
	long double p = 0, seen = choose(n1, k1) * choose(n2, k2);
	for (unsigned x = 0; x <= k && x <= n1; x++) {
		long double w = k - x > n2 ? 0 : choose(n1, x) * choose(n2, k - x);
		p += w <= seen * (1 + 1e-7L) ? w : 0;
	}
	return (double)(p / choose(n1 + n2, k));
}

static double brute_rate(unsigned k1, double e1, unsigned k2, double e2)
{
	unsigned k = k1 + k2;
	long double q = (long double)e1 / ((long double)e1 + e2), p = 0;
	long double seen = choose(k, k1) * powl(q, k1) * powl(1 - q, k2);
	for (unsigned x = 0; x <= k; x++) {
		long double w = choose(k, x) * powl(q, x) * powl(1 - q, k - x);
		p += w <= seen * (1 + 1e-7L) ? w : 0;
	}
	return (double)p;
}

static void share_by_enumeration(void **state)
{
	(void)state;
	size_t n = 0;
	for (unsigned n1 = 1; n1 <= 12; n1++)
		for (unsigned n2 = 1; n2 <= 17; n2++)
			for (unsigned k1 = 0; k1 <= n1; k1++)
				for (unsigned k2 = 0; k2 <= n2; k2++, n++)
					if (!near(stats_share_p(k1, n1, k2, n2),
						  brute_share(k1, n1, k2, n2), 1e-11))
						fail_msg("%u/%u %u/%u: %.17g, %.17g", k1, n1, k2,
							 n2, stats_share_p(k1, n1, k2, n2),
							 brute_share(k1, n1, k2, n2));
	assert_true(n > 10000);
}

static void rate_by_enumeration(void **state)
{
	(void)state;
	static const double exposures[] = { 0.01, 0.5, 1, 3, 250 };
	for (size_t i = 0; i < 25; i++)
		for (unsigned k1 = 0; k1 <= 30; k1++)
			for (unsigned k2 = 0; k2 <= 30; k2++) {
				double e1 = exposures[i / 5], e2 = exposures[i % 5],
				       want = brute_rate(k1, e1, k2, e2);
				want = want < STATS_P_MIN ? STATS_P_MIN : want;
				if (!near(stats_rate_p(k1, e1, k2, e2), want, 1e-9))
					fail_msg("%u/%g %u/%g: %.17g, %.17g", k1, e1, k2, e2,
						 stats_rate_p(k1, e1, k2, e2), want);
			}
}

/*
 * Fisher's tea: 3 of 4 beside 1 of 4 is 34/70. 1 of 10 beside 11 of 14 is the example in many
 * manuals.
 */
static void known_values(void **state)
{
	(void)state;
	assert_true(near(stats_share_p(3, 4, 1, 4), 34.0 / 70, 1e-12));
	assert_true(near(stats_share_p(4, 4, 0, 4), 2.0 / 70, 1e-12));
	assert_true(near(stats_share_p(1, 10, 11, 14), 0.002759456185220088, 1e-12));
	assert_true(near(stats_rate_p(10, 1, 0, 1), 2.0 / 1024, 1e-12));
	assert_true(stats_share_p(0, 0, 5, 10) == 1 && stats_share_p(0, 5, 0, 10) == 1 &&
		    stats_share_p(5, 5, 10, 10) == 1);
	assert_true(stats_rate_p(0, 1, 0, 1) == 1 && stats_rate_p(5, 0, 0, 1) == 1);
	assert_true(stats_share_p(1000000, 1000000, 0, 1000000) == STATS_P_MIN);
	assert_true(stats_rate_p(UINT32_MAX, 1, 0, 1) == STATS_P_MIN);
}

/* Where the normal distribution takes over, both say the same. */
static void large_counts(void **state)
{
	(void)state;
	for (unsigned d = 0; d < 600; d += 50) {
		/*
		 * Expected counts over 10,000: z. Below, half of that: exact until d goes beyond.
		 */
		double large = stats_share_p(19000 + d, 1000000, 19000, 1000000);
		double z = (double)d / 1e6 /
			   sqrt(2e-6 * ((38000.0 + d) / 2e6) * (1 - (38000.0 + d) / 2e6));
		assert_true(near(large, erfc(z / M_SQRT2), 1e-9));
		double small = stats_share_p(9900 + d, 500000, 9900, 500000);
		double zs = (double)d / 5e5 /
			    sqrt(4e-6 * ((19800.0 + d) / 1e6) * (1 - (19800.0 + d) / 1e6));
		if (9900 + d / 2 < 10000)
			assert_true(fabs(small - erfc(zs / M_SQRT2)) < 0.006);
	}
	/* From 10,000 on, and not before. */
	assert_true(near(stats_share_p(10100, 40000, 9900, 40000),
			 erfc(200 / 4e4 / sqrt(0.25 * 0.75 * 2 / 4e4) / M_SQRT2), 1e-9));
	assert_false(near(stats_share_p(10099, 40000, 9900, 40000),
			  erfc(199 / 4e4 / sqrt(19999.0 / 8e4 * 60001 / 8e4 * 2 / 4e4) / M_SQRT2),
			  1e-6));
	assert_true(near(stats_rate_p(10100, 1, 9900, 1), erfc(100 / sqrt(5000) / M_SQRT2), 1e-9));
	assert_false(near(stats_rate_p(10099, 1, 9900, 1), erfc(99.5 / sqrt(19999 / 4.0) / M_SQRT2),
			  1e-6));
	double e = stats_rate_p(9990, 1, 9700, 1), z = 290 / sqrt(19690.0);
	assert_true(fabs(e - erfc(z / M_SQRT2)) < 0.002 && e > 0.01 && e < 0.1);
}

static void least_p(void **state)
{
	(void)state;
	for (unsigned n1 = 1; n1 <= 9; n1++)
		for (unsigned n2 = 1; n2 <= 9; n2++)
			for (unsigned k = 0; k <= n1 + n2; k++) {
				double want = 1;
				for (unsigned x = 0; x <= k && x <= n1; x++)
					if (k - x <= n2)
						want = fmin(want, brute_share(x, n1, k - x, n2));
				assert_true(near(stats_share_least_p(k, n1, n2), want, 1e-10));
			}
}

/* The example of Benjamini and Hochberg's paper (1995): four of 15 are below 0.05. */
static void adjust(void **state)
{
	(void)state;
	static const double p[] = { 0.0278, 0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0298, 0.0344,
				    0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000 };
	double q[15];
	unsigned below = 0;
	assert_int_equal(stats_adjust(p, 15, q), 0);
	for (size_t i = 0; i < 15; i++)
		below += q[i] < 0.05;
	assert_int_equal(below, 4);
	assert_true(near(q[1], 0.0015, 1e-12) && near(q[4], 0.035625, 1e-12) && q[14] == 1);
	/* The 6th by size is held down by the 7th: 0.0298 * 15 / 7 < 0.0278 * 15 / 6. */
	assert_true(near(q[5], 0.0201 * 15 / 5, 1e-12) && near(q[0], 0.0298 * 15 / 7, 1e-12));
	assert_int_equal(stats_adjust(p, 0, q), 0);
}

/* Newcombe 1998, table II, method 10. */
static void change_interval(void **state)
{
	(void)state;
	double low, high;
	stats_change_interval(56, 70, 48, 80, STATS_Z95, &low, &high);
	assert_true(fabs(low - 0.0524) < 5e-5 && fabs(high - 0.3339) < 5e-5);
	stats_change_interval(9, 10, 3, 10, STATS_Z95, &low, &high);
	assert_true(fabs(low - 0.1705) < 5e-5 && fabs(high - 0.8090) < 5e-5);
	stats_change_interval(10, 10, 0, 20, STATS_Z95, &low, &high);
	assert_true(fabs(low - 0.6791) < 5e-5 && fabs(high - 1) < 5e-5);
}

/* Of a rate, the most unequal shares of a count are the least likely. */
static void least_rate_p(void **state)
{
	static const double exposures[] = { 0.1, 1, 7 };
	(void)state;
	for (size_t i = 0; i < 9; i++)
		for (unsigned k = 1; k <= 20; k++) {
			double e1 = exposures[i / 3], e2 = exposures[i % 3], want = 1;
			for (unsigned x = 0; x <= k; x++)
				want = fmin(want, brute_rate(x, e1, k - x, e2));
			assert_true(
				near(stats_rate_least_p(k, e1, e2), fmax(want, STATS_P_MIN), 1e-9));
		}
}

/* Nothing on a side, and counts so large that rounding would leave the bounds. */
static void edges(void **state)
{
	double low = 7, high = 7;
	(void)state;
	stats_change_interval(0, 0, 5, 10, STATS_Z95, &low, &high);
	assert_true(low == -1 && high == 1);
	low = high = 7;
	stats_change_interval(5, 10, 0, 0, STATS_Z95, &low, &high);
	assert_true(low == -1 && high == 1);
	for (unsigned bits = 1; bits < 64; bits++)
		for (uint64_t less = 0; less < 3; less++) {
			uint64_t n = ((uint64_t)1 << bits) + 17 * bits;
			query_interval(n - less, n, &low, &high);
			assert_true(low >= 0 && low <= high && high <= 1);
			assert_true(bits > 48 || (high == 1) == (less == 0));
			query_interval(less, n, &low, &high);
			assert_true(low >= 0 && low <= high && high <= 1);
			assert_int_equal(low == 0, less == 0);
		}
	assert_true(stats_rate_ratio_low(5, 1, 5, 0, 2) == 0);
	assert_true(stats_rate_ratio_low(5, NAN, 5, 1, 2) == 0);
	assert_true(stats_rate_ratio_low(5, 1, 5, NAN, 2) == 0);
	assert_true(stats_rate_ratio_low(1, 2, 1, 1, 0.5) < 0.5);
	assert_true(isinf(stats_rate_ratio_low(UINT64_MAX / 2, 1, 0, 1, 2)));
	assert_true(stats_rate_p(5, NAN, 5, 1) == 1 && stats_rate_p(5, 1, 5, NAN) == 1);
	assert_true(near(stats_normal_p(STATS_Z95), 0.05, 1e-9));
	assert_true(near(stats_normal_p(-STATS_Z95), 0.05, 1e-9));
	assert_true(stats_normal_p(0) == 1 && stats_normal_p(1000) == STATS_P_MIN);
	assert_true(near(stats_normal_z(1e-9), 5.9978070150, 1e-9));
	assert_true(near(stats_normal_z(1e-30), 10, 1e-9)); /* and no more */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share_by_enumeration),
		cmocka_unit_test(rate_by_enumeration),
		cmocka_unit_test(known_values),
		cmocka_unit_test(large_counts),
		cmocka_unit_test(least_p),
		cmocka_unit_test(adjust),
		cmocka_unit_test(change_interval),
		cmocka_unit_test(least_rate_p),
		cmocka_unit_test(edges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
