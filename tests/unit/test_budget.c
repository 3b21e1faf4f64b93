/* SPDX-License-Identifier: Apache-2.0 */
/* What a daemon does that uses more than it may: hours of readings, ten seconds apart. */
#include "cli/budget.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define NS 1000000000ull
#define LOOK_S 10

static struct budget b;
static struct budget_reading now;
static struct budget_limits limits;

static void begin(void)
{
	b = (struct budget){ 0 };
	now = (struct budget_reading){ 1000 * NS, 5 * NS, 40 << 20 };
	limits = (struct budget_limits){ 0.01, 64 << 20 };
}

/* Looks for so many seconds at that share of a CPU; how many verdicts of each kind there were, and after how long the first. */
static unsigned count[BUDGET_RESTART + 1], first_s[BUDGET_RESTART + 1];

static void run(unsigned seconds, double share, unsigned weight)
{
	for (unsigned v = 0; v <= BUDGET_RESTART; v++)
		count[v] = first_s[v] = 0;
	for (unsigned s = LOOK_S; s <= seconds; s += LOOK_S) {
		now.now_ns += LOOK_S * NS;
		now.cpu_ns += (uint64_t)(share * LOOK_S * (double)NS);
		enum budget_verdict v = budget_look(&b, &limits, &now, weight);
		first_s[v] = count[v]++ ? first_s[v] : s;
	}
}

static void below_it(void **state)
{
	(void)state;
	begin();
	run(3600, 0.009, 1);
	assert_int_equal(count[BUDGET_FINE], 360);
}

static void slower_within_two_minutes(void **state)
{
	(void)state;
	begin();
	run(120, 0.011, 1);
	assert_int_equal(count[BUDGET_SLOWER], 1);
	assert_true(first_s[BUDGET_SLOWER] <= 70);
	assert_true(b.cpu > 0.0109 && b.cpu < 0.0111);
}

static void a_burst_is_no_reason(void **state)
{
	(void)state;
	begin();
	run(60, 0, 1);
	run(10, 0.05, 1);
	assert_int_equal(count[BUDGET_SLOWER], 0);
	run(110, 0, 1);
	assert_int_equal(count[BUDGET_SLOWER], 0);
}

/* Twice the rate must fit: not at 40% of the limit, at 25% after five minutes, and never above the rate that was asked for. */
static void faster_again(void **state)
{
	(void)state;
	begin();
	run(3600, 0.004, 4);
	assert_int_equal(count[BUDGET_FASTER], 0);
	begin();
	run(600, 0.0025, 4);
	assert_int_equal(count[BUDGET_FASTER], 1);
	assert_true(first_s[BUDGET_FASTER] >= 300);
	budget_restarted(&b);
	run(290, 0.0025, 2);
	assert_int_equal(count[BUDGET_FASTER], 0);
	begin();
	run(3600, 0, 1);
	assert_int_equal(count[BUDGET_FASTER], 0);
}

/* It does not swing: a load that costs 1.5% at the full rate and half of it at half the rate stays there. */
static void it_settles(void **state)
{
	unsigned weight = 1, changes = 0;
	(void)state;
	begin();
	for (unsigned s = 0; s < 6 * 3600; s += LOOK_S) {
		now.now_ns += LOOK_S * NS;
		now.cpu_ns += (uint64_t)(0.015 / weight * LOOK_S * (double)NS);
		enum budget_verdict v = budget_look(&b, &limits, &now, weight);
		if (v == BUDGET_FINE)
			continue;
		weight = v == BUDGET_SLOWER ? 2 * weight : weight / 2;
		changes++;
		budget_restarted(&b);
	}
	assert_int_equal(weight, 2);
	assert_int_equal(changes, 1);
}

static void memory_first_caches(void **state)
{
	(void)state;
	begin();
	now.memory = 65 << 20;
	run(20, 0, 1);
	assert_int_equal(count[BUDGET_TRIM], 0); /* a moment */
	run(1000, 0, 1);
	assert_int_equal(count[BUDGET_TRIM], 1);
	assert_true(count[BUDGET_RESTART] >= 1 && first_s[BUDGET_RESTART] > first_s[BUDGET_TRIM]);
	assert_true(count[BUDGET_RESTART] <= 4);
	now.memory = 63 << 20;
	run(1000, 0, 1);
	assert_int_equal(count[BUDGET_TRIM] + count[BUDGET_RESTART], 0);
}

static void no_limits(void **state)
{
	(void)state;
	begin();
	limits = (struct budget_limits){ 0 };
	now.memory = 1ull << 40;
	run(3600, 1, 1);
	assert_int_equal(count[BUDGET_FINE], 360);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(below_it),	cmocka_unit_test(slower_within_two_minutes), cmocka_unit_test(a_burst_is_no_reason),
		cmocka_unit_test(faster_again), cmocka_unit_test(it_settles),		     cmocka_unit_test(memory_first_caches),
		cmocka_unit_test(no_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
