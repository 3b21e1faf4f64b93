/* SPDX-License-Identifier: Apache-2.0 */
/* Stores made of others, beside the plain rows of the model: without some of its rows. */
#include "unit/copy_model.h"

static model_filter *deleted;

static int match_labels(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx;
	char *text = model_labels_text(labels, n);
	*ret = deleted(text);
	free(text);
	return 0;
}

static bool is_t1(const char *labels)
{
	return strstr(labels, "tenant=t1\n");
}

static bool is_t1_sh(const char *labels)
{
	return strstr(labels, "tenant=t1\n") && strstr(labels, "comm=sh\n");
}

static bool is_none(const char *labels)
{
	return strstr(labels, "tenant=absent\n");
}

static void check_delete(struct model *m, const char *dir, model_filter *filter, size_t n_keys,
			 bool coarse, struct copy_result *ret)
{
	static const char *const keys[] = { "tenant", "comm" };
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = match_labels,
					    .keys = keys,
					    .n_keys = n_keys };
	struct copy_result r;
	struct err err = { 0 };
	struct sums all = { .n = 0 }, want, got;
	uint64_t before, removed;
	deleted = filter;
	sum_model(m, "tenant", NULL, &all);
	struct store *s = open_store(dir);
	before = stored_of(s);
	store_close(s);
	if (store_delete(dir, &del, NULL, &r, &err))
		fail_msg("%s", err.text);
	assert_absent(dir, ".tmp");
	check_whole(dir);
	s = open_store(dir);
	assert_int_equal(r.coarse > 0, coarse);
	for (size_t i = 0; i < 3; i++) {
		want.n = 0;
		sum_model(m, model_keys[i], filter, &want);
		sum_store(s, model_keys[i], &got);
		assert_int_equal(total(&got), total(&want));
		if (!coarse)
			assert_true(same_sums(&want, &got));
	}
	removed = total(&all) - total(&want);
	assert_true(removed > 0);
	*ret = r;
	assert_int_equal(r.removed_samples, removed);
	assert_int_equal(lost_of(s, "deleted"), removed);
	if (!coarse)
		assert_int_equal(stored_of(s), before - removed);
	/* Nothing matches any more. */
	store_close(s);
	struct stat old, new;
	assert_int_equal(stat(dir, &old), 0);
	assert_int_equal(store_delete(dir, &del, NULL, &r, &err), 0);
	assert_int_equal(r.touched, 0);
	assert_int_equal(stat(dir, &new), 0);
	assert_int_equal(old.st_ino, new.st_ino);
}

static void test_delete(void **state)
{
	struct dirs d;
	struct model m = { .random = 31 };
	struct store_writer *w;
	struct copy_result r;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	make_store(&m, d.a, &model_meta, &model_options, 200, MINUTE);
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = match_labels };
	deleted = is_none;
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), 0);
	assert_int_equal(r.touched, 0);
	model_fini(&m);
	remove_tree(d.a);
	m = (struct model){ .random = 32 };
	make_store(&m, d.a, &model_meta, &model_options, 200, MINUTE);
	check_delete(&m, d.a, is_t1, 1, false, &r);
	/* A writer goes on with it, and nobody deletes meanwhile. */
	assert_int_equal(store_writer_open_with(&w, d.a, &model_meta, &model_options, &err), 0);
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), -EBUSY);
	assert_int_equal(model_commit_at(w, 100000, &err), 0);
	store_writer_close(w);
	check_whole(d.a);
	model_fini(&m);
	remove_tree(d.base);
}

/* Where a parent cannot tell the rows of a selector apart, they stay, and it is said. */
static void test_delete_blind(void **state)
{
	static const char *const keys[] = { "tenant", "comm" };
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = match_labels,
					    .keys = keys,
					    .n_keys = 2 };
	struct store_options o = coarse_options();
	struct dirs d;
	struct model m = { .random = 37 };
	struct copy_result r;
	struct sums all = { .n = 0 }, got;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	make_store(&m, d.a, &model_meta, &o, 200, 10 * MINUTE);
	deleted = is_t1_sh;
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), 0);
	assert_true(r.blind > 0 && r.blind <= r.coarse);
	assert_true(r.touched > 0);
	struct store *s = open_store(d.a);
	sum_model(&m, "comm", NULL, &all);
	sum_store(s, "comm", &got);
	assert_int_equal(total(&got) + r.removed_samples, total(&all));
	store_close(s);
	model_fini(&m);
	remove_tree(d.base);
}

/* Only a part of the time. */
static void test_delete_range(void **state)
{
	struct dirs d;
	struct model m = { .random = 35 };
	struct copy_result r;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	make_store(&m, d.a, &model_meta, &model_options, 60, MINUTE);
	const struct store_deletion del = { .from_ns = T0 + 20 * MINUTE,
					    .to_ns = T0 + 40 * MINUTE,
					    .matches = match_labels };
	deleted = is_t1;
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), 0);
	struct store *s = open_store(d.a);
	for (size_t i = 0; i < 60; i++) {
		if (i >= 20 && i < 40) {
			struct model_window *w = &m.w[i];
			size_t n = 0;
			for (size_t k = 0; k < w->n; k++) {
				if (!is_t1(w->rows[k].labels)) {
					w->rows[n++] = w->rows[k];
					continue;
				}
				free(w->rows[k].labels);
				free(w->rows[k].stack);
			}
			w->n = n;
		}
		check_window(s, i, &m.w[i], NULL);
	}
	store_close(s);
	model_fini(&m);
	remove_tree(d.base);
}

static void test_delete_coarse(void **state)
{
	static model_filter *const filters[] = { is_t1, is_t1_sh };
	struct store_options o = coarse_options();
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct dirs d;
		struct model m = { .random = 33 + i };
		struct copy_result r;
		make_dirs(&d);
		/* Wide keys are in no sums: of two keys in a selector, both must be narrow. */
		o.wide_values = i ? STORE_WIDE_VALUES : model_options.wide_values;
		make_store(&m, d.a, &model_meta, &o, 200, 10 * MINUTE);
		check_delete(&m, d.a, filters[i], i + 1, true, &r);
		assert_int_equal(r.blind, 0);
		model_fini(&m);
		remove_tree(d.base);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_delete),
		cmocka_unit_test(test_delete_range),
		cmocka_unit_test(test_delete_coarse),
		cmocka_unit_test(test_delete_blind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
