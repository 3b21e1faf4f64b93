/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of a parent. Of a slot with more groups than a block may have the largest stacks are kept.
 * Projections take a share of what the windows take. Windows that are longer than a slot have
 * parents of every level, too.
 */
#include "store/read/block_data.h"
#include "store/read/store_int.h"
#include "store/writer.h"
#include "unit/store_model.h"

#define SECOND 1000000000ll
#define MINUTE (60 * SECOND)
#define T0 (1700000000ll / 300 * 300 * SECOND) /* a slot of five minutes begins */

static struct store_writer *open_writer(char *dir)
{
	struct store_writer *w;
	struct err err = { 0 };
	if (store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err))
		fail_msg("%s", err.text);
	return w;
}

static void commit_long(struct store_writer *w, int64_t t0, int64_t length)
{
	struct store_cpu_totals cpu = { 0, 0, 0, (uint64_t[2]){ 0 }, (uint64_t[1]){ 0 } };
	const struct store_totals t = { .cpu = &cpu, .n_cpus = 1 };
	struct err err = { 0 };
	if (store_commit_window(w, t0, t0 + length, t0 - T0 + 1, &t, &err))
		fail_msg("%s", err.text);
}

static void commit(struct store_writer *w, int64_t t0)
{
	commit_long(w, t0, 10 * SECOND);
}

static uint32_t stack_of(struct store_writer *w, unsigned n)
{
	char name[32];
	struct store_frame f = { 0 };
	uint32_t frame, stack;
	snprintf(name, sizeof(name), "function_%u", n);
	f.function = model_text(w, name);
	assert_int_equal(store_add_frame(w, &f, &frame), 0);
	assert_int_equal(store_add_stack(w, 0, frame, &stack), 0);
	return stack;
}

struct level_sum {
	size_t blocks;
	uint64_t payload, projected;
};

static struct level_sum sum_level(struct store *s, uint8_t level)
{
	struct level_sum sum = { 0 };
	struct err err = { 0 };
	for (size_t i = 0; i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		assert_int_equal(segment_load(s, g, &err), 0);
		for (size_t k = 0; g->m.level == level && k < g->n_refs; k++) {
			struct block_data d = { 0 };
			assert_int_equal(block_read(s, &g->refs[k], 0, &d, &err), 0);
			sum.blocks++;
			sum.payload += g->refs[k].stored_len;
			sum.projected += d.head.column[COLUMN_VALUES].stored_len +
					 d.head.column[COLUMN_PROJECTIONS].stored_len;
			block_data_fini(&d);
		}
	}
	return sum;
}

/* ---- groups ---- */

#define EVENTS 1024
#define STACKS 2100 /* of a window: two have more than 4,194,304 groups, one has not */

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
		uint32_t stack = stack_of(w, first_stack + i);
		for (unsigned e = 0; e < EVENTS; e++)
			assert_int_equal(store_add_row(w, 0, stack, events[e], 1, 1), 0);
	}
}

static void put_small(struct store_writer *w)
{
	uint32_t event;
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	assert_int_equal(store_add_row(w, 0, stack_of(w, 0), event, 1, model_events[0].period), 0);
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

/* ---- projections ---- */

#define KEYS 8
#define VALUES 200
#define ROWS 1500

static void put_labelled(struct store_writer *w, struct model *m)
{
	uint32_t event, set;
	assert_int_equal(store_add_event(w, &model_events[1], &event), 0);
	for (unsigned i = 0; i < ROWS; i++) {
		char keys[KEYS][16], values[KEYS][16];
		struct label l[KEYS];
		for (unsigned k = 0; k < KEYS; k++) {
			snprintf(keys[k], sizeof(keys[k]), "key_%u", k);
			snprintf(values[k], sizeof(values[k]), "v%u", model_random(m, VALUES));
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
		put_labelled(w, &m);
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
		put_labelled(w, &m);
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
		cmocka_unit_test(too_many_groups),
		cmocka_unit_test(share_of_projections),
		cmocka_unit_test(long_windows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
