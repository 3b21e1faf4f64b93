/* SPDX-License-Identifier: Apache-2.0 */
/* Each level keeps blocks to its age, whatever the clock does. */
#include "part.h"
#include "unit/retain_life.h"

/*
 * Younger than what its level keeps: there, or in a lower level and not summed up yet. Older by
 * more than its file: gone. there: in any level up to this one.
 */
static void check_level(const struct life *l, struct store *s, uint8_t level, bool *there)
{
	static bool held[N_MAX];
	int64_t keep = l->o.keep_ns[level];
	size_t n = find_held(l, s, level, held), n_gone = 0;
	for (size_t i = 0; i < l->n; i++) {
		int64_t age = l->up_ns - l->v[i].up_ns;
		there[i] |= held[i];
		if (!there[i] && (!keep || age < keep))
			fail_msg("level %u: window %zu of age %.1f h is gone", level, i,
				 (double)age / HOUR);
		if (held[i] && keep && age > keep + 2 * levels[level].file_ns)
			fail_msg("level %u: window %zu of age %.1f h is there", level, i,
				 (double)age / HOUR);
		n_gone += !there[i];
	}
	assert_true(n > 0);
	assert_true(n_gone > 0 || !keep || keep + 2 * levels[level].file_ns > l->up_ns);
}

/*
 * 500 days in which each level reaches its age, but the last, which is kept: with and without steps
 * and boots.
 */
static void each_level(uint64_t seed, uint32_t steps, uint32_t boots)
{
	static const int64_t keep_days[STORE_N_LEVELS] = { 2, 5, 10, 20, 40, 80, 120, 200, 0 };
	static struct life l;
	const uint32_t part = (uint32_t)part_of("windows of 500 days", 2);
	life_begin(&l, seed);
	store_writer_close(l.w);
	for (int k = 0; k < STORE_N_LEVELS; k++)
		l.o.keep_ns[k] = keep_days[k] * DAY;
	life_open(&l);
	while (l.n < 1000 / part) {
		uint32_t what = model_random(&l.m, 1000 / part);
		if (what < steps)
			life_step(&l);
		else if (what < steps + boots)
			life_reboot(&l);
		life_window(&l, part * 12 * HOUR - 10 * SECOND);
	}
	struct store *s = life_look(&l);
	static bool there[N_MAX];
	memset(there, 0, sizeof(there));
	for (uint8_t level = 0; level < STORE_N_LEVELS; level++)
		check_level(&l, s, level, there);
	check_sum(&l, s);
	store_close(s);
	life_end(&l);
}

static void levels_of_a_right_clock(void **state)
{
	(void)state;
	each_level(31, 0, 0);
}

static void levels_of_a_wrong_clock(void **state)
{
	(void)state;
	each_level(32, 60, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_of_a_right_clock),
		cmocka_unit_test(levels_of_a_wrong_clock),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
