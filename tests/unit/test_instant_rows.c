/* SPDX-License-Identifier: Apache-2.0 */
/* Which row of a window an instant counts in, where its own was folded or has no stack. */
#include "unit/store_model.h"

#include "store/instants.h"

#define T0 1700000000000000000ll

struct texts {
	struct store *s;
	char of[5][200]; /* by second */
};

static int text_of_row(void *ctx, const struct store_instant *v,
		       const struct store_instant_row *row)
{
	struct texts *out = ctx;
	char *labels = store_labels_text(out->s, row->row.set),
	     *stack = store_stack_text(out->s, row->row.stack);
	size_t i = (size_t)((v->at_ns - T0) / 1000000000);
	assert_true(v->at_ns >= T0 && i < 5);
	snprintf(out->of[i], sizeof(out->of[i]), "%s%s", labels, stack);
	free(labels);
	free(stack);
	return 0;
}

/*
 * The row of an instant: that of its stack; else of (other), into which small rows are folded; else
 * the largest of its label set and event. An instant of a set or event that has no row has none.
 */
static void rows_of_instants(void **state)
{
	static const struct {
		const char *labels, *stack;
		uint64_t ns;
	} rows[] = {
		{ "tenant=t1\n", "f1 (/bin/demo) 0 0\n", 5 },
		{ "tenant=t1\n", "f2 (/bin/demo) 0 0\n", 70 },
		{ "tenant=t1\n", "f3 (/bin/demo) 0 0\n", 30 },
		{ "tenant=t2\n", "(other) () 0 0\n", 4 },
		{ "tenant=t2\n", "f1 (/bin/demo) 0 0\n", 9 },
	};
	static const struct {
		const char *labels, *stack;
		int row; /* -1: none */
	} instants[] = {
		{ "tenant=t1\n", "f3 (/bin/demo) 0 0\n", 2 },
		{ "tenant=t1\n", "[no stack] () 1 0\n", 1 },
		{ "tenant=t2\n", "f7 (/bin/demo) 0 0\n", 3 },
		{ "tenant=t2\n", "f1 (/bin/demo) 0 0\n", 4 },
		{ "tenant=t3\n", "f1 (/bin/demo) 0 0\n", -1 },
	};
	struct store_options o = model_options;
	struct store_row given_rows[5];
	struct store_instant v[5];
	struct store_writer *w;
	struct err err = { 0 };
	struct store_cover c;
	uint32_t set, stack, event, waits, other;
	char dir[64];
	struct texts out = { 0 };
	(void)state;
	o.tracks_ns = INT64_MAX;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	assert_int_equal(store_add_event(w, &model_events[1], &waits), 0);
	assert_int_equal(model_put_stack(w, "(other) () 0 0\n", &other), 0);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(model_put_set(w, rows[i].labels, &set), 0);
		assert_int_equal(model_put_stack(w, rows[i].stack, &stack), 0);
		assert_int_equal(store_add_row(w, set, stack, waits, 1, rows[i].ns), 0);
		/* Of another event it is larger: that one does not count */
		assert_int_equal(store_add_row(w, set, stack, event, 1, 1000 - rows[i].ns), 0);
	}
	for (size_t i = 0; i < 5; i++) {
		given_rows[i] = (struct store_row){ .event = waits, .samples = 1 };
		assert_int_equal(model_put_set(w, instants[i].labels, &given_rows[i].set), 0);
		assert_int_equal(model_put_stack(w, instants[i].stack, &given_rows[i].stack), 0);
		v[i] = (struct store_instant){ T0 + (int64_t)i * 1000000000, (uint32_t)i, 0, 0 };
	}
	/* Before the window: its first moment */
	v[0].at_ns -= 5;
	const struct store_instants given = { given_rows, 5, v, 5, other };
	store_set_instants(w, &given);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = out.s = open_store(dir);
	const struct store_reading how = { .ctx = &out };
	assert_int_equal(store_cover(s, T0, T0 + 1, STORE_ALL_LABELS, NULL, 0, &c, &err), 0);
	assert_int_equal(store_block_instants(s, c.blocks[0], &how, true, text_of_row, &err), 0);
	store_cover_free(&c);
	for (size_t i = 0; i < 5; i++) {
		char want[200] = "";
		if (instants[i].row >= 0)
			snprintf(want, sizeof(want), "%s%s", rows[instants[i].row].labels,
				 rows[instants[i].row].stack);
		assert_string_equal(out.of[i], want);
	}
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(rows_of_instants) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
