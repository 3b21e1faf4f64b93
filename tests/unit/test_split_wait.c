/* SPDX-License-Identifier: Apache-2.0 */
/* split_wait against a timeline: the state of a thread at every nanosecond of its wait. */
#include "wait_split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define SPAN 9 /* ns: all waits of up to that length */

enum state { BLOCKED, ELSEWHERE, HERE };

/* Blocked first, then in other queues, then in this one. */
static enum state state_at(unsigned ns, unsigned blocked, unsigned elsewhere)
{
	return ns < blocked ? BLOCKED : ns < blocked + elsewhere ? ELSEWHERE : HERE;
}

static void check(unsigned blocked, unsigned elsewhere, unsigned here, unsigned reported,
		  bool preempted)
{
	const uint64_t began = 1000;
	unsigned all = blocked + elsewhere + here, n[3] = { 0 };
	for (unsigned ns = reported; ns < all; ns++)
		n[state_at(ns, blocked, elsewhere)]++;
	const struct wait_times t = { began, began + reported, began + all,
				      here,  elsewhere,	       !preempted };
	struct wait_parts p = split_wait(&t);
	assert_int_equal(p.off, n[BLOCKED]);
	assert_int_equal(p.runq, n[ELSEWHERE] + n[HERE]);
	/* Of a preempted thread whose queue is not known all is here. */
	assert_int_equal(p.here, n[HERE] + (preempted && !here ? n[ELSEWHERE] : 0));
	assert_int_equal(p.elsewhere, preempted && !here ? 0 : n[ELSEWHERE]);
	assert_int_equal(p.off_full, blocked);
	assert_int_equal(p.runq_full, elsewhere + here);
}

static void test_timeline(void **state)
{
	(void)state;
	for (unsigned blocked = 0; blocked <= SPAN; blocked++)
		for (unsigned elsewhere = 0; elsewhere <= SPAN; elsewhere++)
			for (unsigned here = 0; here <= SPAN; here++)
				for (unsigned reported = 0; reported <= blocked + elsewhere + here;
				     reported++) {
					check(blocked, elsewhere, here, reported, false);
					if (!blocked)
						check(0, elsewhere, here, reported, true);
				}
}

/*
 * A wait that began before the recording has parts, but no length unless the kernel counted all of
 * its queue time.
 */
static void test_began_before(void **state)
{
	(void)state;
	struct wait_parts p = split_wait(&(struct wait_times){ 0, 500, 530, 10, 5, 1 });
	assert_int_equal(p.off, 15);
	assert_int_equal(p.runq, 15);
	assert_int_equal(p.off_full, 0);
	assert_int_equal(p.runq_full, 15);
	p = split_wait(&(struct wait_times){ 0, 500, 530, 0, 0, 0 });
	assert_int_equal(p.runq, 30);
	assert_int_equal(p.runq_full, 0);
}

/*
 * Times that cannot be: whatever the kernel counted, the parts add up to the wait and none is
 * negative.
 */
static void test_sums_hold(void **state)
{
	static const uint64_t odd[] = { 0, 1, 7, 99, 1000, 1ull << 40, 1ull << 63, ~0ull >> 1 };
	(void)state;
	for (unsigned h = 0; h < sizeof(odd) / sizeof(*odd); h++)
		for (unsigned e = 0; e < sizeof(odd) / sizeof(*odd); e++)
			for (unsigned blocked = 0; blocked < 2; blocked++)
				for (unsigned all = 0; all < 200; all += 33) {
					const struct wait_times t = { 400,	  1000,
								      1000 + all, odd[h],
								      odd[e] / 2, blocked };
					struct wait_parts p = split_wait(&t);
					assert_int_equal(p.off + p.runq, all);
					assert_int_equal(p.here + p.elsewhere, p.runq);
					assert_true(p.off <= all && p.here <= p.runq);
					assert_true(p.off_full <= 600 + all);
				}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timeline),
		cmocka_unit_test(test_began_before),
		cmocka_unit_test(test_sums_hold),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
