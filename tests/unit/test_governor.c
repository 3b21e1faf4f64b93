/* SPDX-License-Identifier: Apache-2.0 */
/* What a daemon gives up that uses more than it may: hours of readings, five seconds apart. */
#include "daemon/governor.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define LOOK_S 5
#define N_CPUS 4

static struct governor g;
static struct governor_reading now;
static struct governor_limits limits;
static unsigned ups, downs;
static double sampling; /* part of the use that sampling has */

static void begin(void)
{
	g = (struct governor){ 0 };
	now = (struct governor_reading){ 1000 * NS, 5 * NS, NS, N_CPUS, 40 << 20 };
	limits = (struct governor_limits){ 0.01, 64 << 20, true, false, 4 };
	sampling = 0.5;
}

/* One look at this share of all CPUs. */
static enum governor_move look(double share)
{
	now.now_ns += LOOK_S * NS;
	now.cpu_ns += (uint64_t)(share * N_CPUS * LOOK_S * (double)NS);
	now.sampling_ns += (uint64_t)(sampling * share * N_CPUS * LOOK_S * (double)NS);
	enum governor_move move = governor_look_at_cpu(&g, &limits, &now);
	ups += move == GOVERNOR_GIVE_UP;
	downs += move == GOVERNOR_TAKE_BACK;
	return move;
}

static void run(unsigned seconds, double share)
{
	ups = downs = 0;
	for (unsigned s = 0; s < seconds; s += LOOK_S)
		look(share);
}

static void look_at_memory(unsigned looks, uint64_t mib)
{
	ups = downs = 0;
	now.memory = mib << 20;
	while (looks--) {
		enum governor_move move = governor_look_at_memory(&g, &limits, &now);
		ups += move == GOVERNOR_GIVE_UP;
		downs += move == GOVERNOR_TAKE_BACK;
	}
}

static void below_the_limit(void **state)
{
	(void)state;
	begin();
	run(3600, 0.009);
	assert_int_equal(ups + downs, 0);
}

/* A share is one of all CPUs: 3% of one of four is below 1%. */
static void the_share_is_of_all_cpus(void **state)
{
	(void)state;
	begin();
	run(130, 0.03 / N_CPUS);
	assert_int_equal(ups, 0);
	run(130, 0.05 / N_CPUS);
	assert_true(ups > 0);
	assert_true(g.cpu_share > 0.0124 && g.cpu_share < 0.0126);
}

static void one_step_a_minute(void **state)
{
	unsigned expected = 0;
	(void)state;
	begin();
	for (unsigned s = 0; s < 1200; s += LOOK_S) {
		if (look(0.019) != GOVERNOR_GIVE_UP)
			continue;
		assert_int_equal(g.cpu.step, ++expected);
		assert_int_equal(g.cpu.moved, BIT(expected));
		assert_true(s / 60 <= expected && s / 60 + 1 >= expected);
		assert_int_equal(governor_weight(&g), expected < CPU_HALF_RATE	    ? 1
						      : expected < CPU_QUARTER_RATE ? 2
										    : 4);
	}
	assert_int_equal(expected, CPU_NO_WAITS);
	assert_int_equal(governor_weight(&g), 4);
	assert_false(governor_waits(&g));
}

/*
 * A storm that costs twelve times the limit: the step that keeps the limit is reached in three
 * decisions, and left when the storm is over. Each step is said once on either way.
 */
static void two_steps_far_above(void **state)
{
	static const double storm[CPU_STEPS] = { 0.12, 0.08, 0.05, 0.03, 0.025, 0.021, 0.008 };
	unsigned said = 0, decisions = 0;
	(void)state;
	begin();
	for (unsigned s = 0; s < 600; s += LOOK_S) {
		if (look(storm[g.cpu.step]) == GOVERNOR_STAY) {
			assert_int_equal(g.cpu.moved, 0);
			continue;
		}
		assert_false(said & g.cpu.moved);
		said |= g.cpu.moved;
		decisions++;
		assert_true(s <= 60 * decisions + LOOK_S);
	}
	assert_int_equal(decisions, 3);
	assert_int_equal(g.cpu.step, CPU_NO_WAITS);
	assert_int_equal(g.cpu.n_given_up, CPU_NO_WAITS);
	for (unsigned s = 0; s < 2400; s += LOOK_S) {
		if (look(0.001) == GOVERNOR_STAY)
			continue;
		assert_true((said & g.cpu.moved) == g.cpu.moved);
		said &= ~g.cpu.moved;
	}
	assert_int_equal(said, 0);
	assert_int_equal(g.cpu.step, CPU_FULL);
	/* No further than it must: less than twice the limit is one step. */
	begin();
	static const double short_storm[CPU_STEPS] = { 0.05, 0.03, 0.015, 0.008, 0, 0, 0 };
	for (unsigned s = 0; s < 250; s += LOOK_S)
		look(short_storm[g.cpu.step]);
	assert_int_equal(g.cpu.step, CPU_NO_WAIT_STACKS);
	/* Memory: far above is two steps as well, and caches are among them. */
	look_at_memory(1, 130);
	assert_int_equal(g.memory.step, MEMORY_NO_WAIT_STACKS);
	assert_int_equal(g.memory.moved, BIT(MEMORY_NO_CACHES) | BIT(MEMORY_NO_WAIT_STACKS));
}

/*
 * Where sampling is a small part of the use the rate stays, on the way back, too: it is then nearly
 * all of it.
 */
static void a_rate_that_saves_nothing_stays(void **state)
{
	(void)state;
	begin();
	sampling = 0.1;
	for (unsigned s = 0; s < 600; s += LOOK_S) {
		look(0.5);
		assert_true(governor_weight(&g) == 1 && g.cpu.step != CPU_HALF_RATE &&
			    g.cpu.step != CPU_QUARTER_RATE);
	}
	assert_int_equal(g.cpu.step, CPU_NO_WAITS);
	assert_int_equal(g.cpu.n_given_up, 4);
	assert_true(governor_cpu_is_last(&g, &limits));
	sampling = 0.9;
	for (unsigned s = 0; s < 7200; s += LOOK_S) {
		look(0.001);
		assert_int_equal(governor_weight(&g), 1);
	}
	assert_int_equal(g.cpu.step, CPU_FULL);
	run(600, 0.5); /* and now it saves something */
	assert_int_equal(governor_weight(&g), 4);
	/* Without waits the rate goes, whatever its part: fewer samples have fewer names. */
	begin();
	limits.waits = false;
	sampling = 0.1;
	run(600, 0.5);
	assert_int_equal(governor_weight(&g), 4);
	/* A recorder of waits alone keeps them. */
	begin();
	limits.only_waits = true;
	sampling = 0;
	run(600, 0.5);
	assert_int_equal(g.cpu.step, CPU_NO_WAIT_STACKS);
	assert_true(governor_waits(&g) && governor_cpu_is_last(&g, &limits));
}

/* Without waits there are none to give up, and a rate of 1 Hz is not cut. */
static void what_is_not_there_is_skipped(void **state)
{
	(void)state;
	begin();
	limits.waits = false;
	run(600, 0.5);
	assert_int_equal(ups, 2);
	assert_int_equal(g.cpu.n_given_up, 4);
	assert_int_equal(g.cpu.step, CPU_QUARTER_RATE);
	run(7200, 0);
	assert_int_equal(downs, 4);
	begin();
	limits.weight_max = 1;
	run(600, 0.5);
	assert_int_equal(g.cpu.step, CPU_NO_WAITS);
	assert_int_equal(governor_weight(&g), 1);
	begin();
	limits.weight_max = 1;
	limits.waits = false;
	run(600, 0.5);
	assert_int_equal(g.cpu.step, CPU_NO_COLD_NAMES);
}

static void a_burst_is_no_reason(void **state)
{
	(void)state;
	begin();
	run(60, 0);
	run(5, 0.1);
	run(120, 0);
	assert_int_equal(g.cpu.step, CPU_FULL);
}

static void it_recovers(void **state)
{
	(void)state;
	begin();
	run(600, 0.5);
	assert_int_equal(g.cpu.step, CPU_NO_WAITS);
	run(7200, 0.005); /* twice the rate may cost twice as much: not at half of the limit */
	assert_int_equal(g.cpu.step, CPU_NO_WAITS);
	run(290, 0.001);
	assert_int_equal(downs, 0);
	run(1900, 0.001);
	assert_int_equal(downs, CPU_NO_WAITS);
	assert_int_equal(g.cpu.step, CPU_FULL);
}

/*
 * A step that is needed, although use is low with it: taken back at most five times in a day, not
 * each few minutes.
 */
static void it_does_not_swing(void **state)
{
	unsigned given_up = 0;
	(void)state;
	begin();
	for (unsigned s = 0; s < 86400; s += LOOK_S)
		given_up +=
			look(g.cpu.step >= CPU_NO_COLD_NAMES ? 0.005 : 0.02) == GOVERNOR_GIVE_UP;
	assert_true(given_up >= 2 && given_up < 26);
	begin();
	sampling = 1;
	for (unsigned s = 0; s < 6 * 3600; s += LOOK_S) /* a load whose cost is the rate's */
		look(0.015 / governor_weight(&g));
	assert_int_equal(g.cpu.step, CPU_HALF_RATE);
	assert_int_equal(g.cpu.n_given_up, CPU_HALF_RATE);
}

static void limits_change(void **state)
{
	(void)state;
	begin();
	run(600, 0.5);
	limits.cpu = 0; /* no limit */
	governor_new_limits(&g);
	run(2200, 0.5);
	assert_int_equal(g.cpu.step, CPU_FULL);
	/* A rate that may not be cut any more comes back at once. */
	begin();
	run(600, 0.5);
	limits.weight_max = 1;
	run(130, 0.5);
	assert_int_equal(governor_weight(&g), 1);
}

static void memory_step_by_step(void **state)
{
	(void)state;
	begin();
	look_at_memory(100, 60); /* 94% */
	assert_int_equal(ups, 0);
	look_at_memory(1, 62);
	assert_int_equal(g.memory.step, MEMORY_NO_CACHES);
	look_at_memory(1, 62);
	assert_int_equal(g.memory.step, MEMORY_NO_WAIT_STACKS);
	look_at_memory(100, 62);
	assert_int_equal(g.memory.step, MEMORY_FEWER_ROWS);
	look_at_memory(100, 50); /* neither much nor little */
	assert_int_equal(g.memory.step, MEMORY_FEWER_ROWS);
	look_at_memory(MEMORY_PATIENCE * 3, 40);
	assert_int_equal(downs, 3);
	assert_int_equal(g.memory.step, MEMORY_FULL);
}

static void no_limits(void **state)
{
	(void)state;
	begin();
	limits = (struct governor_limits){ .waits = true, .weight_max = 4 };
	run(3600, 1);
	assert_int_equal(ups, 0);
	look_at_memory(1000, 1 << 20);
	assert_int_equal(ups, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(below_the_limit),
		cmocka_unit_test(the_share_is_of_all_cpus),
		cmocka_unit_test(one_step_a_minute),
		cmocka_unit_test(two_steps_far_above),
		cmocka_unit_test(a_rate_that_saves_nothing_stays),
		cmocka_unit_test(what_is_not_there_is_skipped),
		cmocka_unit_test(a_burst_is_no_reason),
		cmocka_unit_test(it_recovers),
		cmocka_unit_test(it_does_not_swing),
		cmocka_unit_test(limits_change),
		cmocka_unit_test(memory_step_by_step),
		cmocka_unit_test(no_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
