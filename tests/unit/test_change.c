/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a rate that are there, and of noise in which there is none. */
#include "query/change.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define STEPS 120
#define FROM 60
#define PER_STEP 990 /* samples: 10 s at 99 Hz */

static const struct change_spec spec = {
	.from = FROM, .least = 0.05, .least_burst = 0.25, .per_step = PER_STEP
};

/* Noise of a rate: as counts of samples have, and the load's own, a tenth of it. */
static double noisy(double rate)
{
	double sum = 0;
	for (int i = 0; i < 12; i++)
		sum += drand48();
	return fmax(0, rate + (sum - 6) * (0.1 * rate + sqrt(rate / PER_STEP)));
}

static struct change find(const double *rate)
{
	struct change c;
	assert_int_equal(change_find(&c, rate, STEPS, &spec), 0);
	return c;
}

static void fill(double *rate, double value)
{
	for (size_t i = 0; i < STEPS; i++)
		rate[i] = noisy(value);
}

static void noise_is_no_change(void **state)
{
	double rate[STEPS];
	size_t small = 0, told = 0, n = 2000;
	(void)state;
	srand48(1);
	for (size_t k = 0; k < n; k++) {
		fill(rate, k % 2 ? 0.8 : 0.02);
		struct change c = find(rate);
		small += c.p <= 0.05;
		told += c.kind != CHANGE_NONE && c.p <= 0.001;
	}
	assert_true(small <= n / 20);
	assert_int_equal(told, 0);
}

static void steps_are_found(void **state)
{
	double rate[STEPS];
	(void)state;
	srand48(2);
	for (size_t at = FROM; at <= STEPS - 8; at++) {
		fill(rate, 0.2);
		for (size_t i = at; i < STEPS; i++)
			rate[i] = noisy(0.5);
		struct change c = find(rate);
		assert_int_equal(c.kind, CHANGE_MORE);
		assert_true(c.p < 0.001);
		assert_true(labs((long)c.begin - (long)at) <= 2);
		assert_int_equal(c.end, STEPS);
		assert_true(fabs(c.inside - 0.5) < 0.1 && fabs(c.outside - 0.2) < 0.05);
		for (size_t i = 0; i < STEPS; i++)
			rate[i] = 0.8 - rate[i];
		c = find(rate);
		assert_int_equal(c.kind, CHANGE_LESS);
	}
}

static void bursts_are_found(void **state)
{
	double rate[STEPS];
	(void)state;
	srand48(3);
	for (size_t at = FROM; at + 2 <= STEPS; at++) {
		fill(rate, 0.01);
		rate[at] = 0.9;
		rate[at + 1] = 0.7;
		struct change c = find(rate); /* whatever goes on to the end is no burst */
		assert_int_equal(c.kind, at + 2 < STEPS ? CHANGE_BURST : CHANGE_MORE);
		assert_int_equal(c.begin, at);
		assert_int_equal(c.end, at + 2);
		assert_true(c.p < 1e-6);
		rate[10] = 0.8; /* as high before: nothing new */
		c = find(rate);
		assert_true(c.kind == CHANGE_NONE || c.p > 0.001);
	}
}

/*
 * 18 samples in 2 of 20 steps, 18 in the others: the reference value is 20 times the exact binomial
 * test of 18 in 36 for a tenth.
 */
static void chance_of_a_burst(void **state)
{
	const struct change_spec few = {
		.from = 10, .least = 0.05, .least_burst = 0.25, .per_step = 10
	};
	double rate[20];
	struct change c;
	(void)state;
	for (size_t i = 0; i < 20; i++)
		rate[i] = i == 14 || i == 15 ? 0.9 : 0.1;
	assert_int_equal(change_find(&c, rate, 20, &few), 0);
	assert_int_equal(c.kind, CHANGE_BURST);
	assert_int_equal(c.begin, 14);
	assert_int_equal(c.end, 16);
	assert_true(fabs(c.inside - 0.9) < 1e-9 && fabs(c.outside - 0.1) < 1e-9);
	assert_true(fabs(c.p / 3.04058449e-8 - 1) < 1e-6);
}

/* Half of the range, and on top of what is usual: after it, there is more than before. */
static void long_bursts_are_found(void **state)
{
	double rate[STEPS];
	(void)state;
	srand48(6);
	for (size_t length = 1; length <= (STEPS - FROM) / 2; length++) {
		size_t at = FROM + 10;
		for (size_t i = 0; i < STEPS; i++)
			rate[i] = i < at ? 0.1 : i < at + length ? 0.9 : 0.13;
		struct change c = find(rate);
		assert_int_equal(c.kind, CHANGE_BURST);
		assert_true(c.begin == at && c.end == at + length && c.p < 1e-6);
	}
}

/* On in every other step: the highest steps are what is usual. */
static void on_and_off_is_no_burst(void **state)
{
	double rate[STEPS + 1];
	struct change c;
	(void)state;
	for (size_t i = 0; i <= STEPS; i++)
		rate[i] = i % 2 ? 0 : 1;
	assert_int_equal(change_find(&c, rate, STEPS + 1, &spec), 0);
	assert_int_equal(c.kind, CHANGE_NONE);
}

static void what_was_not_recorded(void **state)
{
	double rate[STEPS], none[STEPS];
	(void)state;
	srand48(4);
	fill(rate, 0.2);
	for (size_t i = 0; i < STEPS; i++) {
		none[i] = NAN;
		if (i < FROM || i % 3 == 0)
			rate[i] = NAN;
		else if (i >= 90)
			rate[i] = noisy(0.6);
	}
	struct change c = find(rate); /* within the range alone */
	assert_int_equal(c.kind, CHANGE_MORE);
	assert_true(c.begin >= 88 && c.begin <= 92);
	c = find(none);
	assert_int_equal(c.kind, CHANGE_NONE);
	assert_true(c.p == 1);
	assert_int_equal(change_find(&c, rate, 0, &spec), 0);
	assert_int_equal(c.kind, CHANGE_NONE);
}

static void old_and_small_changes_do_not_count(void **state)
{
	double rate[STEPS];
	(void)state;
	srand48(5);
	for (size_t i = 0; i < STEPS; i++)
		rate[i] = noisy(i < FROM - 20 ? 0.2 : 0.5);
	assert_int_equal(find(rate).kind, CHANGE_NONE);
	for (size_t i = 0; i < STEPS; i++)
		rate[i] = i < FROM ? 0.01 : 0.04;
	assert_int_equal(find(rate).kind, CHANGE_NONE);
	for (size_t i = 0; i < STEPS; i++)
		rate[i] = i < FROM ? 1.0 : 1.1;
	assert_int_equal(find(rate).kind, CHANGE_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(noise_is_no_change),
		cmocka_unit_test(steps_are_found),
		cmocka_unit_test(bursts_are_found),
		cmocka_unit_test(chance_of_a_burst),
		cmocka_unit_test(long_bursts_are_found),
		cmocka_unit_test(on_and_off_is_no_burst),
		cmocka_unit_test(what_was_not_recorded),
		cmocka_unit_test(old_and_small_changes_do_not_count),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
