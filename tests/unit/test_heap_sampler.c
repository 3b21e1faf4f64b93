/* SPDX-License-Identifier: Apache-2.0 */
/* Which allocations ascribe/heap.h samples, and what they stand for: by clocks that we set. */
#include "collect/heap.h"

#include <ascribe/heap.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND 1000000000ll

#define mine (&ascribe_heap_mine_)

static void begin(void)
{
	*mine = (struct ascribe_heap_mine_){ .random = 1 };
	ascribe_heap_begin_(0);
}

/* Samples of a thread that allocates blocks of `size`, so many bytes a second, within a time. */
struct run {
	uint64_t samples;
	double allocated, weighted, variance; /* bytes; the last one is that of `weighted` */
};

static struct run allocate(size_t size, double bytes, double from_s, double to_s)
{
	struct run r = { 0 };
	for (double at = from_s; at < to_s; at += (double)size / bytes) {
		const int64_t now = (int64_t)(at * 1e9);
		r.allocated += (double)size;
		if (size < mine->left) {
			mine->left -= size;
			continue;
		}
		const double weighted = (double)ascribe_heap_weighted_(size);
		r.samples++;
		r.weighted += weighted;
		r.variance += weighted * (weighted - (double)size);
		ascribe_heap_pace_(now);
		ascribe_heap_draw_(now);
	}
	return r;
}

static void assert_right(const struct run *r)
{
	assert_true(fabs(r->weighted - r->allocated) < 5 * sqrt(r->variance));
}

/* A thread that allocates slowly keeps the smallest mean, and one that is fast for a short time. */
static void slow_threads_keep_the_mean(void **state)
{
	(void)state;
	begin();
	struct run r = allocate(4096, 64e6, 1, 21);
	assert_int_equal(mine->mean, ASCRIBE_HEAP_MEAN);
	assert_in_range(r.samples, 2200, 2700); /* 2,441 */
	assert_right(&r);
	begin();
	r = allocate(4096, 4e9, 1, 1.5);
	assert_int_equal(mine->mean, ASCRIBE_HEAP_MEAN);
	assert_in_range(r.samples, 3500, 4096);
	assert_right(&r);
}

/* Of one that goes on the samples are no more than its credit and the rate; sums stay right. */
static void fast_threads_come_to_the_rate(void **state)
{
	(void)state;
	static const double speeds[] = { 2e9, 8e9, 40e9 };
	for (unsigned i = 0; i < 3; i++) {
		begin();
		struct run r = allocate(16384, speeds[i], 1, 31);
		assert_true(r.samples < ASCRIBE_HEAP_CREDIT + 32 * ASCRIBE_HEAP_RATE);
		assert_right(&r);
		r = allocate(16384, speeds[i], 31, 61);
		assert_in_range(r.samples, 25 * ASCRIBE_HEAP_RATE, 35 * ASCRIBE_HEAP_RATE);
		assert_true(mine->mean > ASCRIBE_HEAP_MEAN);
		assert_right(&r);
		/* It rests: with the first sample after that the mean is small again. */
		r = allocate(16384, 20e6, 200, 300);
		assert_int_equal(mine->mean, ASCRIBE_HEAP_MEAN);
	}
}

/* Beyond the largest mean samples are more than the rate, and the thread owes no more for it. */
static void the_mean_has_a_limit(void **state)
{
	(void)state;
	begin();
	struct run r = allocate(1 << 20, 100e9, 1, 5);
	assert_int_equal(mine->mean, (uint64_t)ASCRIBE_HEAP_MEAN << ASCRIBE_HEAP_DOUBLED_MAX);
	assert_in_range(r.samples, 8000, 11000);
	assert_right(&r);
	allocate(4096, 20e6, 200, 300);
	assert_int_equal(mine->mean, ASCRIBE_HEAP_MEAN);
}

/* Blocks larger than the mean are mostly sampled, and stand for little more than they are. */
static void large_blocks_are_nearly_exact(void **state)
{
	(void)state;
	begin();
	struct run r = allocate(4 << 20, 400e6, 1, 31);
	assert_true(r.samples * 1.002 > r.allocated / (4 << 20));
	assert_true(fabs(r.weighted / r.allocated - 1) < 0.002);
}

static void clocks_that_fail_cost_no_samples(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < ASCRIBE_HEAP_CREDIT; i++)
		ascribe_heap_pace_(0);
	assert_int_equal(mine->mean, ASCRIBE_HEAP_MEAN);
	for (int i = 0; i < 1000000; i++)
		ascribe_heap_pace_(0);
	assert_int_equal(mine->mean, (uint64_t)ASCRIBE_HEAP_MEAN << ASCRIBE_HEAP_DOUBLED_MAX);
	ascribe_heap_pace_(60 * SECOND);
	assert_int_equal(mine->mean, ASCRIBE_HEAP_MEAN);
}

/* The recorder tells the mean from what an allocation stands for; large ones are better than it. */
static void means_are_told(void **state)
{
	(void)state;
	for (unsigned k = 0; k <= ASCRIBE_HEAP_DOUBLED_MAX; k++) {
		mine->mean = (uint64_t)ASCRIBE_HEAP_MEAN << k;
		for (size_t n = 1; n <= mine->mean; n *= 2) {
			const unsigned told = heap_mean_of(n, ascribe_heap_weighted_(n));
			assert_true(told <= k && (told == k || n >= mine->mean / 2));
		}
		assert_int_equal(heap_mean_of(64 * mine->mean, 64 * mine->mean), 0);
	}
	assert_int_equal(heap_mean_of(1, HEAP_MEAN_MAX + 1), HEAP_MEANS - 1);
	assert_int_equal(heap_mean_of(10, 5), 0); /* which nobody sends */
	assert_int_equal(HEAP_MEAN, ASCRIBE_HEAP_MEAN);
	assert_int_equal(HEAP_MEAN << (HEAP_MEANS - 1), HEAP_MEAN_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_threads_keep_the_mean),
		cmocka_unit_test(fast_threads_come_to_the_rate),
		cmocka_unit_test(the_mean_has_a_limit),
		cmocka_unit_test(large_blocks_are_nearly_exact),
		cmocka_unit_test(clocks_that_fail_cost_no_samples),
		cmocka_unit_test(means_are_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
