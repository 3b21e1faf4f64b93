/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer whose windows have thousands of fresh values each: the parents in the making, whose
 * projections would have a list for each value, keep within what a writer may take.
 */
#include "count_bytes.h"
#include "store/store.h"
#include "store/writer.h"

#include "store_model.h"

#define WINDOWS 64
#define VALUES 4000 /* of a window */
#define KEYS 4	    /* with so many values */
#define STACKS 64
#define SECOND 1000000000ll
#define BYTES_MAX (24ll << 20)

static char root[64], dir[72];

static void add_rows(struct store_writer *w, unsigned window, const uint32_t *stack, uint32_t event)
{
	for (unsigned i = 0; i < VALUES; i++) {
		char value[KEYS][24];
		struct label l[KEYS];
		uint32_t set;
		for (unsigned k = 0; k < KEYS; k++) {
			static const char *const keys[KEYS] = { "a", "b", "c", "d" };
			/* A key that comes later has more values that come again. */
			snprintf(value[k], sizeof(value[k]), "%u", (window * VALUES + i) >> 2 * k);
			l[k] = (struct label){ .key = keys[k],
					       .key_len = 1,
					       .str = value[k],
					       .str_len = (uint32_t)strlen(value[k]),
					       .type = LABEL_STRING };
		}
		assert_int_equal(store_add_set(w, l, KEYS, &set), 0);
		assert_int_equal(store_add_row(w, set, stack[i % STACKS], event, 1, 1), 0);
		assert_int_equal(store_add_row(w, set, stack[i / 7 % STACKS], event, 1, 1), 0);
	}
}

static void parents_in_the_making(void **state)
{
	const struct store_meta meta = { .host = "h", .os = "o", .what = "w", .created_ns = 1 };
	const struct store_event e = { "event", "count", 0, 1 };
	uint32_t stack[STACKS], event;
	struct store_writer *w;
	struct err err = { 0 };
	(void)state;
	snprintf(dir, sizeof(dir), "%s/s", temp_dir(root));
	assert_int_equal(store_writer_open(&w, dir, &meta, &err), 0);
	assert_int_equal(store_add_event(w, &e, &event), 0);
	for (unsigned i = 0; i < STACKS; i++) {
		struct store_frame f = { .kind = FRAME_USER, .offset = i };
		uint32_t frame;
		assert_int_equal(store_add_frame(w, &f, &frame), 0);
		assert_int_equal(store_add_stack(w, 0, frame, &stack[i]), 0);
	}
	most = 0;
	int64_t before = used;
	for (unsigned i = 0; i < WINDOWS; i++) {
		const int64_t t0 = 1800000000 * SECOND + i * 10 * SECOND;
		const struct store_totals none = { 0 };
		add_rows(w, i, stack, event);
		assert_int_equal(store_commit_window(w, t0, t0 + 10 * SECOND, t0, &none, &err), 0);
	}
	store_writer_close(w);
	printf("at most %lld KiB\n", (long long)(most - before) / 1024);
	assert_true(most - before < BYTES_MAX);
}

static int tear_down(void **state)
{
	(void)state;
	remove_tree(root);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(parents_in_the_making) };
	return cmocka_run_group_tests(tests, NULL, tear_down);
}
