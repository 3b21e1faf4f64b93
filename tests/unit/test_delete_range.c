/* SPDX-License-Identifier: Apache-2.0 */
/* Rows are deleted in windows of the range alone, whatever the others hold. */
#include "unit/store_model.h"

#include "store/ops/copy.h"

#define WINDOWS 4
#define T0 1700000000000000000ll
#define SECOND 1000000000ll

static int all_match(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx, (void)labels, (void)n;
	*ret = true;
	return 0;
}

static int add_samples(void *ctx, const struct store_row *r)
{
	*(uint64_t *)ctx += r->samples;
	return 0;
}

/* Window i has i + 1 samples; those of [from, to) go. */
static void check(size_t from, size_t to)
{
	char dir[64];
	struct store_writer *w;
	struct err err = { 0 };
	struct copy_result r;
	uint64_t removed = 0;
	if (store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < WINDOWS; i++) {
		struct model_row row = { .labels = (char *)"tenant=t1\n",
					 .stack = (char *)"f (/bin/x) 0 0\n",
					 .samples = i + 1 };
		assert_int_equal(model_put_row(w, &row), 0);
		assert_int_equal(model_commit_at(w, i, &err), 0);
		removed += i >= from && i < to ? i + 1 : 0;
	}
	store_writer_close(w);
	const struct store_deletion d = { .from_ns = T0 + (int64_t)from * 10 * SECOND,
					  .to_ns = T0 + (int64_t)to * 10 * SECOND,
					  .matches = all_match };
	if (store_delete(dir, &d, NULL, &r, &err))
		fail_msg("%s", err.text);
	assert_int_equal(r.removed_samples, removed);
	assert_int_equal(r.touched, to - from);
	struct store *s = open_store(dir);
	assert_int_equal(store_n_windows(s), WINDOWS);
	for (size_t i = 0; i < WINDOWS; i++) {
		uint64_t samples = 0;
		assert_int_equal(store_rows(s, i, add_samples, &samples, &err), 0);
		assert_int_equal(samples, i >= from && i < to ? 0 : i + 1);
	}
	store_close(s);
	remove_tree(dir);
}

static void windows_of_the_range(void **state)
{
	(void)state;
	for (size_t from = 0; from < WINDOWS; from++)
		for (size_t to = from + 1; to <= WINDOWS; to++)
			check(from, to);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(windows_of_the_range) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
