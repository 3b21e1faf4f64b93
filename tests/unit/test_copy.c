/* SPDX-License-Identifier: Apache-2.0 */
/* Stores made of others, beside the plain rows of the model: two stores in one. */
#include "unit/copy_model.h"

static void test_merge(void **state)
{
	struct dirs d;
	struct model a = { .random = 11 }, b = { .random = 12 };
	struct store_options o = model_options;
	struct copy_result r;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	o.symbols_bytes = 8192;
	make_store(&a, d.a, &model_meta, &o, 120, MINUTE);
	make_store(&b, d.b, &other_meta, &o, 80, MINUTE);
	const char *const from[] = { d.a, d.b };
	if (store_merge(from, 2, d.out, NULL, &r, &err))
		fail_msg("%s", err.text);
	assert_int_equal(r.windows, 200);
	assert_int_equal(r.coarse, 0);
	check_whole(d.out);
	struct store *s = open_store(d.out);
	assert_int_equal(store_n_windows(s), 200);
	for (size_t i = 0, x = 0, y = 0; i < 200; i++) {
		bool first = y == b.n || (x < a.n && a.w[x].t0 <= b.w[y].t0);
		check_window(s, i, first ? &a.w[x++] : &b.w[y++], first ? "host" : "second");
	}
	assert_string_equal(store_meta(s)->host, "host, second");
	assert_string_equal(store_meta(s)->what,
			    "merged: all processes, cpu-clock at 99 Hz, pprof");
	/* A question that names no event is about the same one. */
	for (uint32_t i = 0; i < sizeof(model_events) / sizeof(model_events[0]); i++)
		assert_string_equal(store_event(s, i)->name, model_events[i].name);
	assert_int_equal(store_meta(s)->n_lost, 3);
	assert_int_equal(lost_of(s, "not_run"), 120 * 2 * 3);
	assert_int_equal(lost_of(s, "rows_full"), 120 * 2 * 5 + 80 * 2 * 3);
	assert_int_equal(lost_of(s, "other"), 80 * 2 * 5);
	store_close(s);
	assert_int_equal(store_merge(from, 2, d.out, NULL, &r, &err), -EEXIST);
	assert_absent(d.out, ".tmp");
	model_fini(&a);
	model_fini(&b);
	remove_tree(d.base);
}

/* Two stores of two days, some windows of which end when a file of six hours does. */
static void test_merge_days(void **state)
{
	const int64_t file = 6 * 60 * MINUTE, begin = (T0 / file + 1) * file;
	struct dirs d;
	struct model m[2] = { { .random = 21 }, { .random = 22 } };
	const struct store_meta *const meta[] = { &model_meta, &other_meta };
	struct copy_result r;
	struct store_writer *w;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	const char *const from[] = { d.a, d.b };
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(store_writer_open_with(&w, from[i], meta[i], &model_options, &err),
				 0);
		for (int64_t t = begin; t < begin + 8 * file; t += file) {
			commit_row_window(&m[i], w, t - 10 * SECOND, 40);
			commit_row_window(&m[i], w, t + 60 * MINUTE, 40);
		}
		store_writer_close(w);
	}
	if (store_merge(from, 2, d.out, NULL, &r, &err))
		fail_msg("%s", err.text);
	assert_int_equal(r.windows, 32);
	check_whole(d.out);
	struct store *s = open_store(d.out);
	for (size_t i = 0; i < 32; i++)
		check_window(s, i, &m[i % 2].w[i / 2], i % 2 ? "second" : "host");
	store_close(s);
	model_fini(&m[0]);
	model_fini(&m[1]);
	remove_tree(d.base);
}

/* Ids are given anew behind store_forget, and mean the same. */
static void test_forget(void **state)
{
	struct model m = { .random = 15 };
	struct dirs d;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	make_store(&m, d.a, &model_meta, &model_options, 40, MINUTE);
	struct store *s = open_store(d.a);
	for (size_t i = 0; i < 40; i++) {
		check_window(s, i, &m.w[i], NULL);
		assert_true(store_n_stacks(s) > 1);
		if (i % 3 == 0)
			assert_int_equal(store_forget(s, &err), 0);
		assert_int_equal(store_n_stacks(s) > 1, i % 3 != 0);
	}
	store_close(s);
	model_fini(&m);
	remove_tree(d.base);
}

static void test_merge_coarse(void **state)
{
	struct dirs d;
	struct model a = { .random = 21 }, b = { .random = 22 };
	struct store_options o = coarse_options();
	struct copy_result r;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	o.symbols_memory = 1; /* each block has a file: of some parents only a part is cut */
	o.keep_ns[0] = o.keep_ns[1] = 90 * MINUTE;
	make_store(&a, d.a, &model_meta, &o, 300, 50 * SECOND);
	make_store(&b, d.b, &model_meta, &model_options, 40, 10 * MINUTE);
	const char *const from[] = { d.a, d.b };
	if (store_merge(from, 2, d.out, NULL, &r, &err))
		fail_msg("%s", err.text);
	assert_true(r.coarse > 10);
	check_whole(d.out);
	struct store *s = open_store(d.out);
	struct sums want = { .n = 0 }, got;
	sum_model(&a, "host", NULL, &want);
	sum_model(&b, "host", NULL, &want);
	assert_int_equal(want.n, 1);
	snprintf(want.value[0], 40, "host");
	sum_store(s, "host", &got);
	assert_true(same_sums(&want, &got));
	size_t n_same = 0;
	for (size_t i = 0; i < 3; i++) {
		want.n = 0;
		sum_model(&a, model_keys[i], NULL, &want);
		sum_model(&b, model_keys[i], NULL, &want);
		sum_store(s, model_keys[i], &got);
		assert_int_equal(total(&want), total(&got));
		/* What is not told is without the label, never with another value. */
		for (size_t k = 0; k < got.n; k++)
			for (int e = 0; *got.value[k] && e < 3; e++)
				assert_true(got.samples[k][e] <= sum_of(&want, got.value[k])[e]);
		n_same += same_sums(&want, &got);
	}
	assert_true(n_same > 0);
	store_close(s);
	model_fini(&a);
	model_fini(&b);
	remove_tree(d.base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_merge_days),
		cmocka_unit_test(test_forget),
		cmocka_unit_test(test_merge_coarse),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
