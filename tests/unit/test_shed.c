/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk with less room than what is to stay free: whole files go, the oldest of the finest level
 * first. When none is left nothing is written, and the writer says so.
 */
#include "unit/store_model.h"

#include "store/read/store_int.h"

#define FILES 5
#define HOURS_6 (6 * 3600 * 1000000000ll)
#define T0 (1700000000000000000ll / HOURS_6 * HOURS_6)

static struct store_writer *open_writer(const char *dir, uint64_t reserve)
{
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	o.reserve_bytes = reserve;
	o.windows_only = true;
	if (store_writer_open_with(&w, dir, &model_meta, &o, &err))
		fail_msg("%s", err.text);
	return w;
}

/* Window i, of which each has a file of its own. */
static int commit(struct store_writer *w, unsigned i, struct err *err)
{
	struct model_row row = { .labels = (char *)"tenant=t1\n",
				 .stack = (char *)"f (/bin/x) 0 0\n",
				 .samples = 1 + i };
	const struct store_totals none = { 0 };
	int64_t t0 = T0 + i * HOURS_6;
	assert_int_equal(model_put_row(w, &row), 0);
	return store_commit_window(w, t0, t0 + 1000000000, t0 - T0 + 1000000000, &none, err);
}

static int add_samples(void *ctx, const struct store_row *r)
{
	*(uint64_t *)ctx += r->samples;
	return 0;
}

static void nothing_fits(void **state)
{
	char dir[64], want[200];
	struct err err = { 0 };
	uint64_t samples = 0;
	struct store_writer *w = open_writer(temp_dir(dir), 1);
	(void)state;
	for (unsigned i = 0; i < FILES; i++)
		assert_int_equal(commit(w, i, &err), 0);
	assert_int_equal(store_writer_state(w)->shed, 0);
	store_writer_close(w);
	w = open_writer(dir, UINT64_MAX);
	assert_int_equal(commit(w, FILES, &err), -ENOSPC);
	snprintf(want, sizeof(want), "cannot write %s: the file system has no room but the reserve",
		 dir);
	assert_string_equal(err.text, want);
	/* The file that is written to stays. */
	assert_int_equal(store_writer_state(w)->shed, FILES - 1);
	struct store *s = open_store(dir);
	assert_int_equal(store_n_windows(s), 1);
	assert_int_equal(store_rows(s, 0, add_samples, &samples, &err), 0);
	assert_int_equal(samples, FILES);
	const struct store_cut *cut = store_cut(s, 0);
	assert_int_equal(cut->blocks, FILES - 1);
	assert_int_equal(cut->bytes_by_age, 0);
	assert_true(cut->bytes_by_size > 0);
	assert_int_equal(cut->before_ns, T0 + (FILES - 2) * HOURS_6 + 1000000000);
	store_close(s);
	store_writer_close(w);
	assert_sound(dir);
	remove_tree(dir);
}

/* With room again it goes on; the windows that were refused are not there. */
static void goes_on(void **state)
{
	char dir[64];
	struct err err = { 0 };
	struct store_writer *w = open_writer(temp_dir(dir), UINT64_MAX);
	(void)state;
	assert_int_equal(commit(w, 0, &err), -ENOSPC);
	assert_int_equal(store_writer_state(w)->shed, 0);
	store_writer_close(w);
	w = open_writer(dir, 1);
	assert_int_equal(commit(w, 1, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	assert_int_equal(store_n_windows(s), 1);
	assert_int_equal(store_window(s, 0, &err)->t0_ns, T0 + HOURS_6);
	assert_null(store_window(s, 1, &err));
	assert_string_equal(err.text, "there is no window 1");
	assert_int_equal(store_rows(s, 1, add_samples, NULL, &err), -EINVAL);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_fits),
		cmocka_unit_test(goes_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
