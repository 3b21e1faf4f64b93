/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a slot with more groups than a block may have the largest stacks are kept. One group too many
 * is enough, and those without a stack count.
 */
#include "unit/parent_model.h"

#define EVENTS 1024
#define STACKS 2048 /* of a window: two have 4,194,304 groups, which is the limit */

static void put_large(struct store_writer *w, unsigned first_stack)
{
	uint32_t events[EVENTS];
	for (unsigned e = 0; e < EVENTS; e++) {
		char name[32];
		snprintf(name, sizeof(name), "event_%u", e);
		const struct store_event of = { name, "count", 0, 1 };
		assert_int_equal(store_add_event(w, &of, &events[e]), 0);
	}
	for (unsigned i = 0; i < STACKS; i++) {
		uint32_t stack = first_stack + i ? stack_of(w, first_stack + i) : 0;
		for (unsigned e = 0; e < EVENTS; e++)
			assert_int_equal(store_add_row(w, 0, stack, events[e], 1, 1), 0);
	}
}

static void put_small(struct store_writer *w)
{
	uint32_t event;
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	assert_int_equal(store_add_row(w, 0, stack_of(w, 1), event, 1, model_events[0].period), 0);
}

static int add_samples(void *ctx, const struct store_row *row)
{
	*(uint64_t *)ctx += row->samples;
	return 0;
}

static void too_many_groups(void **state)
{
	char dir[64];
	struct err err = { 0 };
	struct store_writer *w = open_writer(dir);
	(void)state;
	/* The first minute of ten has too many. */
	for (unsigned i = 0; i < 60; i++) {
		if (i < 2)
			put_large(w, i * STACKS);
		else
			put_small(w);
		commit(w, T0 + i * 10 * SECOND);
	}
	assert_int_equal(store_compact(w, &err), 0);
	assert_int_equal(store_writer_state(w)->parents_failed, 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	struct store_cover c;
	uint64_t samples = 0;
	assert_int_equal(sum_level(s, 1).blocks, 10);
	assert_int_equal(sum_level(s, 2).blocks, 2);
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	assert_int_equal(c.n, 1); /* twenty minutes */
	assert_true(c.blocks[0]->flags & STORE_PRUNED);
	assert_int_equal(store_block_folded(s, c.blocks[0], add_samples, &samples, &err), 0);
	assert_int_equal(samples, 2ull * STACKS * EVENTS + 58);
	store_cover_free(&c);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(too_many_groups),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
