/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks that go on into a new file of windows. */
#include "unit/store_model.h"

#include "store/writer.h"

static void commit(struct store_writer *w, size_t i)
{
	struct err err = { 0 };
	assert_int_equal(model_commit_at(w, i, &err), 0);
}

/* Frames and stacks of the file before are the same in the next one, by their text. */
static void stacks(void **state)
{
	struct store_options o = model_options;
	struct model m = { .random = 13 };
	struct store_writer *w;
	struct err err = { 0 };
	char dir[64], *text[20];
	uint32_t id[20], set, event, frame;
	(void)state;
	o.symbols_bytes = 1; /* each window has a file of its own */
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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(stacks) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
