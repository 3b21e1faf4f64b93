/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Projections take a share of what the windows take. Windows that are longer than a slot have
 * parents of every level, too.
 */
#include "unit/parent_model.h"

/* ---- projections ---- */

#define KEYS 8
#define VALUES 200
#define MORE_VALUES 900 /* whose projections together are larger than the windows */
#define ROWS 1500

static void put_labelled(struct store_writer *w, struct model *m, uint32_t n_values)
{
	uint32_t event, set;
	assert_int_equal(store_add_event(w, &model_events[1], &event), 0);
	for (unsigned i = 0; i < ROWS; i++) {
		char keys[KEYS][16], values[KEYS][16];
		struct label l[KEYS];
		for (unsigned k = 0; k < KEYS; k++) {
			snprintf(keys[k], sizeof(keys[k]), "key_%u", k);
			snprintf(values[k], sizeof(values[k]), "v%u", model_random(m, n_values));
			l[k] = (struct label){ .key = keys[k],
					       .key_len = (uint32_t)strlen(keys[k]),
					       .str = values[k],
					       .str_len = (uint32_t)strlen(values[k]) };
		}
		assert_int_equal(store_add_set(w, l, KEYS, &set), 0);
		assert_int_equal(store_add_row(w, set, stack_of(w, model_random(m, 2000)), event, 1,
					       model_events[1].period),
				 0);
	}
}

static void share_of_projections(void **state)
{
	char dir[64];
	struct err err = { 0 };
	struct model m = { .random = 8 };
	struct store_writer *w = open_writer(dir);
	(void)state;
	for (unsigned i = 0; i < 30; i++) {
		put_labelled(w, &m, MORE_VALUES);
		commit(w, T0 + i * 10 * SECOND);
	}
	assert_int_equal(store_compact(w, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	struct level_sum windows = sum_level(s, 0), parents = sum_level(s, 2);
	assert_int_equal(parents.blocks, 1);
	print_message("%" PRIu64 " bytes of windows, %" PRIu64 " of projections\n", windows.payload,
		      parents.projected);
	assert_true(windows.payload > 4u << 16); /* a part of it is more than the least */
	assert_true(parents.projected > 0 && parents.projected <= windows.payload / 3 * 2);
	store_close(s);
	remove_tree(dir);
}

/* ---- long windows ---- */

/* Each is alone in its slots of one and of five minutes: three levels read all of its rows. */
static void long_windows(void **state)
{
	char dir[64];
	struct model m = { .random = 9 };
	struct store_writer *w = open_writer(dir);
	(void)state;
	for (unsigned i = 0; i < 36; i++) {
		put_labelled(w, &m, VALUES);
		commit_long(w, T0 + i * 10 * MINUTE, 10 * MINUTE);
	}
	store_writer_close(w);
	struct store *s = open_store(dir);
	print_message("blocks of 20 minutes, 1 and 4 hours: %zu, %zu, %zu\n",
		      sum_level(s, 3).blocks, sum_level(s, 4).blocks, sum_level(s, 5).blocks);
	assert_true(sum_level(s, 3).blocks >= 15);
	assert_true(sum_level(s, 4).blocks >= 4);
	assert_true(sum_level(s, 5).blocks >= 1);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share_of_projections),
		cmocka_unit_test(long_windows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
