/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks that step, and hosts that boot, cost no window its place. */
#include "part.h"
#include "unit/retain_life.h"

static void check_windows(const struct life *l, struct store *s)
{
	struct err err = { 0 };
	assert_int_equal(store_n_windows(s), l->n);
	uint64_t real = 0, want = 0;
	for (size_t i = 0; i < l->n; i++) {
		const struct store_window *w = store_window(s, i, &err);
		assert_non_null(w);
		real += (uint64_t)w->t0_ns * w->totals.cpu[0].fired;
		want += (uint64_t)l->v[i].real_ns * l->v[i].samples;
	}
	assert_true(real == want);
}

/*
 * A day of windows, a clock that steps some 250 times, 5 boots; and as much as a week is kept:
 * nothing is lost.
 */
static void day_of_steps(void **state)
{
	static struct life l;
	(void)state;
	life_begin(&l, 20);
	const size_t part = part_of("windows of a day of steps", 8);
	while (l.n < N_MAX / part) {
		uint32_t what = model_random(&l.m, (uint32_t)(8640 / part));
		if (what < 250)
			life_step(&l);
		else if (what < 255)
			life_reboot(&l);
		life_window(&l, 0);
	}
	struct store *s = life_look(&l);
	for (uint8_t level = 0; level < N_SEGMENT_LEVELS; level++)
		assert_int_equal(store_cut(s, level)->blocks, 0);
	check_windows(&l, s);
	check_sum(&l, s);
	store_close(s);
	life_end(&l);
}

/* One window with a wrong clock, after days of right ones, and another one. Then as before. */
static void one_glitch(void **state)
{
	static const int64_t wrong[] = { 10 * YEAR, 8 * DAY, -HOUR, -10 * YEAR };
	static struct life l;
	(void)state;
	for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
		life_begin(&l, k);
		for (size_t i = 0; i < 300; i++) {
			l.wrong_ns = i == 290 ? wrong[k] : 0;
			life_window(&l, 600 * SECOND);
		}
		struct store *s = life_look(&l);
		for (uint8_t level = 0; level < N_SEGMENT_LEVELS; level++)
			if (store_cut(s, level)->blocks)
				fail_msg("a clock wrong by %lld s: %" PRIu64
					 " blocks of level %u are cut",
					 (long long)(wrong[k] / SECOND),
					 store_cut(s, level)->blocks, level);
		check_windows(&l, s);
		check_sum(&l, s);
		store_close(s);
		life_end(&l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_glitch),
		cmocka_unit_test(day_of_steps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
