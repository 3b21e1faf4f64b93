/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks that go on into a new file of windows, and waits without a stack in tracks. */
#include "unit/store_model.h"

#include "store/instants.h"

#define T0 1700000000000000000ll

static struct store_options options(void)
{
	struct store_options o = model_options;
	o.symbols_bytes = 1; /* each window has a file of its own */
	o.tracks_ns = INT64_MAX;
	return o;
}

static void commit(struct store_writer *w, size_t i)
{
	struct err err = { 0 };
	assert_int_equal(model_commit_at(w, i, &err), 0);
}

/* Frames and stacks of the file before are the same in the next one, by their text. */
static void stacks(void **state)
{
	const struct store_options o = options();
	struct model m = { .random = 13 };
	struct store_writer *w;
	struct err err = { 0 };
	char dir[64], *text[20];
	uint32_t id[20], set, event, frame;
	(void)state;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	for (size_t i = 0; i < 20; i++) {
		text[i] = model_draw_stack(&m);
		assert_int_equal(model_put_stack(w, text[i], &id[i]), 0);
	}
	/* There is no file before */
	assert_int_equal(store_carry_stack(w, id[0], &id[0]), -EINVAL);
	assert_int_equal(store_carry_frame(w, 1, &frame), -EINVAL);
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	assert_int_equal(model_put_set(w, "comm=sh\n", &set), 0);
	assert_int_equal(store_add_row(w, set, id[0], event, 1, 1), 0);
	commit(w, 0);
	assert_true(store_renew(w));
	/* Ids of the new file differ from those before */
	assert_int_equal(model_put_stack(w, "first (/bin/other) 0 9\n", &frame), 0);
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	assert_int_equal(model_put_set(w, "comm=sh\n", &set), 0);
	for (size_t i = 0; i < 20; i++) {
		assert_int_equal(store_carry_stack(w, id[i], &id[i]), 0);
		assert_int_equal(store_add_row(w, set, id[i], event, 1 + i, 1), 0);
	}
	assert_int_equal(store_carry_stack(w, 1u << 20, &frame), -EINVAL);
	assert_int_equal(store_carry_frame(w, 1u << 20, &frame), -EINVAL);
	store_renew_end(w);
	assert_int_equal(store_carry_stack(w, 1, &frame), -EINVAL);
	commit(w, 1);
	store_writer_close(w);
	struct store *s = open_store(dir);
	struct read_back b = { .s = s };
	assert_int_equal(store_rows(s, 1, read_back_row, &b, &err), 0);
	struct model_window want = { 0 };
	for (size_t i = 0; i < 20; i++)
		model_window_add(&want,
				 (struct model_row){ strdup("comm=sh\n"), text[i], 0, 1 + i, 1 });
	model_sort(want.rows, want.n);
	model_sort(b.rows, b.n);
	assert_int_equal(b.n, want.n);
	for (size_t i = 0; i < b.n; i++) {
		assert_int_equal(model_row_cmp(&b.rows[i], &want.rows[i]), 0);
		assert_int_equal(b.rows[i].samples, want.rows[i].samples);
	}
	struct model_window got = { b.rows, b.n, 0, 0 };
	model_window_fini(&got);
	model_window_fini(&want);
	store_close(s);
	remove_tree(dir);
}

/* ---- tracks ---- */

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
	const struct store_options o = options();
	struct store_row given_rows[5];
	struct store_instant v[5];
	struct store_writer *w;
	struct err err = { 0 };
	struct store_cover c;
	uint32_t set, stack, event, waits, other;
	char dir[64];
	struct texts out = { 0 };
	(void)state;
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
	commit(w, 0);
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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks),
		cmocka_unit_test(rows_of_instants),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
