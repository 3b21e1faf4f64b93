/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks of a group against brute force: random schedules, in which each microsecond is divided
 * among the threads of the lowest tier that has any. Then samples, and threads that are noticed
 * late.
 */
#include "latency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 6
#define STEPS 20000 /* microseconds of a schedule */
#define STEP_NS 1000
#define ABSENT LATENCY_STATES

struct thread {
	uint32_t state;
	uint64_t mark;
	double clocks[LATENCY_STATES]; /* ns by the clocks, */
	double brute[LATENCY_STATES];  /* and by dividing each step */
	unsigned changes;
};

struct group {
	struct latency_clock clock;
	uint64_t counts;
	struct thread thread[THREADS];
};

static void move(struct group *g, struct thread *t, uint32_t state, uint64_t now)
{
	latency_advance(&g->clock, g->counts, now);
	if (t->state != ABSENT) {
		t->clocks[t->state] +=
			(double)latency_ns(t->mark, g->clock.tier[latency_tier(t->state)]);
		g->counts -= latency_lane(t->state);
	}
	t->state = state;
	t->changes++;
	if (state == ABSENT)
		return;
	t->mark = g->clock.tier[latency_tier(state)];
	g->counts += latency_lane(state);
}

static uint32_t tier_of(const struct thread *t)
{
	static const uint32_t tiers[] = { 0, 0, 1, 2, LATENCY_TIERS };
	return tiers[t->state];
}

static uint32_t lowest(const struct group *g, unsigned *ret_n)
{
	uint32_t tier = LATENCY_TIERS;
	for (int i = 0; i < THREADS; i++)
		tier = tier_of(&g->thread[i]) < tier ? tier_of(&g->thread[i]) : tier;
	*ret_n = 0;
	for (int i = 0; i < THREADS; i++)
		*ret_n += tier != LATENCY_TIERS && tier_of(&g->thread[i]) == tier;
	return tier;
}

/* Return the ns in which the group had any thread. */
static double run(struct group *g, unsigned seed)
{
	double active = 0;
	*g = (struct group){ .clock.last = 1 };
	for (int i = 0; i < THREADS; i++)
		g->thread[i].state = ABSENT;
	srand(seed);
	for (unsigned step = 0; step < STEPS; step++) {
		uint64_t now = 1 + (uint64_t)step * STEP_NS;
		for (int i = 0; i < THREADS; i++)
			if (rand() % 50 == 0)
				move(g, &g->thread[i], (uint32_t)rand() % (ABSENT + 1), now);
		unsigned n;
		uint32_t tier = lowest(g, &n);
		assert_int_equal(tier, latency_active(g->counts));
		for (int i = 0; i < THREADS; i++)
			if (tier != LATENCY_TIERS && tier_of(&g->thread[i]) == tier)
				g->thread[i].brute[g->thread[i].state] += (double)STEP_NS / n;
		active += tier != LATENCY_TIERS ? STEP_NS : 0;
	}
	for (int i = 0; i < THREADS; i++)
		move(g, &g->thread[i], ABSENT, 1 + (uint64_t)STEPS * STEP_NS);
	return active;
}

static void test_schedules(void **state)
{
	(void)state;
	static struct group g;
	for (unsigned seed = 0; seed < 50; seed++) {
		double active = run(&g, seed), sum = 0;
		unsigned changes = 0;
		for (int i = 0; i < THREADS; i++) {
			const struct thread *t = &g.thread[i];
			changes += t->changes;
			for (int s = 0; s < LATENCY_STATES; s++) {
				/* Each interval is rounded down to ns */
				assert_true(fabs(t->clocks[s] - t->brute[s]) <= t->changes + 0.1);
				sum += t->clocks[s];
			}
		}
		assert_true(fabs(sum - active) <= changes);
		assert_int_equal(g.counts, 0);
	}
}

static void test_counts(void **state)
{
	(void)state;
	uint64_t counts = 0;
	assert_int_equal(latency_active(counts), LATENCY_TIERS);
	for (int i = 0; i < LATENCY_THREADS_MAX; i++)
		counts += latency_lane(LATENCY_INSIDE);
	counts += latency_lane(LATENCY_OUTSIDE);
	assert_int_equal(latency_threads(counts, LATENCY_INSIDE), LATENCY_THREADS_MAX);
	assert_int_equal(latency_members(counts), LATENCY_THREADS_MAX + 1);
	assert_int_equal(latency_active(counts), 1);
	/* Parts whose lanes borrow from each other add up all the same. */
	uint64_t part = -latency_lane(LATENCY_OUTSIDE);
	assert_int_equal(latency_active(counts + part), 2);
	assert_int_equal(latency_threads(counts + part, LATENCY_INSIDE), LATENCY_THREADS_MAX);
}

static void test_clock(void **state)
{
	(void)state;
	struct latency_clock c = { .last = 5000 };
	uint64_t two = latency_lane(LATENCY_RUN) + latency_lane(LATENCY_QUEUED);
	latency_advance(&c, two, 4000); /* another CPU's clock is behind */
	assert_int_equal(c.last, 5000);
	assert_int_equal(c.tier[0], 0);
	latency_advance(&c, two, 7000);
	assert_int_equal(latency_ns(0, c.tier[0]), 1000);
	latency_advance(&c, 0, 9000); /* no thread: nobody's time */
	assert_int_equal(latency_ns(0, c.tier[0]), 1000);
	assert_int_equal(c.last, 9000);
	assert_int_equal(latency_ns(c.tier[0], 0), 0);
	c.tier[0] = (uint64_t)-512; /* it wraps */
	latency_advance(&c, latency_lane(LATENCY_RUN), 10000);
	assert_int_equal(latency_ns((uint64_t)-512, c.tier[0]), 1000);
}

/*
 * Two CPUs run threads of one group: the first all the time, the second from `begin` to `end`. Both
 * are sampled each millisecond, at phases of their own. The second thread is noticed by its first
 * sample, or, without one, when it ends. Return the sum of all weights.
 */
#define PERIOD 1000000u
#define TICK 100u /* ns; all times are multiples */
static double sampled(uint64_t whole, uint64_t begin, uint64_t end, bool pays)
{
	uint64_t phase[2] = { (uint64_t)rand() % PERIOD / TICK * TICK,
			      (uint64_t)rand() % PERIOD / TICK * TICK };
	uint64_t counts = latency_lane(LATENCY_RUN);
	int32_t debt = 0, paid;
	bool noticed = false;
	double sum = 0;
	for (uint64_t at = 0; at < whole; at += TICK) {
		bool runs = at >= begin && at < end;
		bool hit = runs && at % PERIOD == phase[1], over = at == end;
		if (!noticed && (hit || over)) {
			debt += pays ? latency_debt(at - begin, counts) : 0;
			counts += latency_lane(LATENCY_RUN);
			noticed = true;
		}
		if (over)
			counts -= latency_lane(LATENCY_RUN);
		for (int cpu = 0; cpu < 2; cpu++) {
			if (at % PERIOD != phase[cpu] || (cpu && !runs))
				continue;
			sum += (double)latency_weigh(PERIOD, counts, debt, &paid);
			debt -= paid;
		}
	}
	return sum - debt; /* what is left is paid by later samples */
}

static void test_late(void **state)
{
	(void)state;
	const uint64_t whole = 4 * PERIOD;
	double with = 0, without = 0, wall = 0;
	srand(7);
	for (int i = 0; i < 2000; i++) {
		uint64_t begin = (uint64_t)rand() % (2 * PERIOD) / TICK * TICK,
			 end = begin + (200000 + (uint64_t)rand() % PERIOD) / TICK * TICK;
		unsigned seed = (unsigned)rand();
		srand(seed);
		with += sampled(whole, begin, end, true);
		srand(seed);
		without += sampled(whole, begin, end, false);
		wall += (double)whole;
	}
	assert_true(fabs(with / wall - 1) < 0.01);
	assert_true(without / wall > 1.03); /* else this test shows nothing */
}

static void test_debt(void **state)
{
	(void)state;
	int32_t paid;
	uint64_t one = latency_lane(LATENCY_RUN), two = 2 * one;
	assert_int_equal(latency_debt(900, 0), 0);
	assert_int_equal(latency_debt(900, two), 300);
	assert_int_equal(latency_debt(900, two + latency_lane(LATENCY_OUTSIDE)), 300);
	/* Of two one waits for a CPU, whose clock was not advanced yet */
	assert_int_equal(latency_debt(900, one + latency_lane(LATENCY_QUEUED)), 150);
	assert_int_equal(latency_debt(UINT64_MAX, one), LATENCY_DEBT_MAX / 2);
	assert_int_equal(latency_weigh(1000, two, 300, &paid), 200);
	assert_int_equal(paid, 300);
	assert_int_equal(latency_weigh(1000, two, 800, &paid), 0);
	assert_int_equal(paid, 500);
	assert_int_equal(latency_weigh(1000, two, -5000, &paid), 1500);
	assert_int_equal(paid, -1000);
	assert_int_equal(latency_weigh(1000, 0, 0, &paid), 1000); /* the sampled thread is one */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schedules), cmocka_unit_test(test_counts),
		cmocka_unit_test(test_clock),	  cmocka_unit_test(test_late),
		cmocka_unit_test(test_debt),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
