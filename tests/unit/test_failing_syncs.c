/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that cannot write, at each sync of a writer and behind it: what the page cache holds is
 * not believed. Windows that were acknowledged are there, and no other; the next ones succeed.
 */
#include "fault/recorder.c"
#include "unit/store_model.h"

#include "store/ops/copy.h"
#include "store/write/writer_int.h"
#include "store/writer.h"

#define WINDOWS 5
#define SYNCS (FAULT_FSYNC | FAULT_FDATASYNC)

static char dir[64], store[80];

static struct store_writer *open_writer(bool windows_only)
{
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	o.windows_only = windows_only;
	o.symbols_bytes = 2000;
	if (store_writer_open_with(&w, store, &model_meta, &o, &err))
		fail_msg("%s", err.text);
	return w;
}

/* The windows that were kept are m; returns how many were not. */
static size_t write_windows(struct model *m, struct store_writer *w, size_t n)
{
	size_t lost = 0;
	for (size_t i = 0; i < n; i++) {
		struct err err = { 0 };
		store_renew(w);
		store_renew_end(w);
		int rc = model_commit(m, w, 12, &err);
		if (rc && (rc != -EIO || !strstr(err.text, "Input/output error")))
			fail_msg("%d: %s", rc, err.text);
		lost += rc != 0;
	}
	return lost;
}

/* The manifest describes a file by the blocks that it has, not by one that failed. */
static void check_files(void)
{
	struct store *s = open_store(store);
	struct err err = { 0 };
	for (size_t i = 0; i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		if (g->m.state == SEGMENT_OPEN)
			continue;
		assert_int_equal(segment_load(s, g, &err), 0);
		assert_int_equal(g->m.n_blocks, g->n_refs);
		if (!g->n_refs)
			continue;
		assert_int_equal(g->m.seq_lo, g->refs[0].b.seq);
		assert_int_equal(g->m.seq_hi, g->refs[g->n_refs - 1].b.seq + 1);
		assert_int_equal(g->m.t1_ns, g->refs[g->n_refs - 1].b.t1_ns);
	}
	store_close(s);
}

/* *ret_n: how many syncs there were; returns how many windows were lost. */
static size_t run(bool windows_only, long at, long times, long *ret_n)
{
	struct model m = { .random = 13 };
	struct err err = { 0 };
	const size_t before = count_descriptors();
	snprintf(store, sizeof(store), "%s/store", dir);
	struct store_writer *w = open_writer(windows_only);
	faults = (struct faults){ .calls = SYNCS, .at = at, .times = times, .error = EIO };
	size_t lost = write_windows(&m, w, WINDOWS);
	*ret_n = faults.n;
	faults.calls = 0;
	/* Until the next window comes a lost one may be seen, as after a crash. */
	assert_int_equal(write_windows(&m, w, 2), 0);
	if (!windows_only)
		assert_int_equal(store_compact(w, &err), 0);
	model_check(&m, store);
	store_writer_close(w);
	model_check(&m, store);
	assert_sound(store);
	w = open_writer(windows_only);
	assert_int_equal(write_windows(&m, w, 1), 0);
	store_writer_close(w);
	model_check(&m, store);
	assert_sound(store);
	check_files();
	assert_int_equal(count_descriptors(), before);
	model_fini(&m);
	remove_tree(store);
	return lost;
}

static void each_sync(bool windows_only)
{
	long n, ignored;
	size_t lost = 0;
	assert_int_equal(run(windows_only, 0, 0, &n), 0);
	assert_true(n > 2 * WINDOWS);
	for (long at = 1; at <= n; at++)
		for (long times = 1; times <= 4; times += 3)
			lost += run(windows_only, at, times, &ignored);
	assert_true(lost > WINDOWS);
}

static void windows(void **state)
{
	(void)state;
	each_sync(true);
}

static void parents(void **state)
{
	(void)state;
	each_sync(false);
}

/* Save the manifest, where its first write fails with this; is the reserve there then? */
static int save(struct store_writer *w, int error, bool *ret_reserve)
{
	char path[100];
	struct err err = { 0 };
	faults = (struct faults){
		.calls = FAULT_WRITE, .at = error != 0, .times = 1, .error = error
	};
	int rc = writer_save_manifest(w, &err);
	faults.calls = 0;
	assert_int_equal(err.text[0] != 0, error != 0);
	snprintf(path, sizeof(path), "%s/reserve", store);
	*ret_reserve = !access(path, F_OK);
	return rc;
}

/* It is for a disk that is full, or a limit or a quota, and for nothing else. */
static void use_reserve(int error)
{
	bool there;
	snprintf(store, sizeof(store), "%s/store", dir);
	struct store_writer *w = open_writer(true);
	assert_int_equal(save(w, 0, &there), 0);
	assert_true(there);
	assert_int_equal(save(w, EIO, &there), -EIO);
	assert_true(there);
	assert_int_equal(save(w, error, &there), 0);
	assert_false(there);
	assert_int_equal(save(w, error, &there), -ENOSPC);
	assert_int_equal(save(w, 0, &there), 0);
	assert_false(there);
	store_writer_close(w);
	assert_sound(store);
	remove_tree(store);
}

static void the_reserve(void **state)
{
	(void)state;
	use_reserve(ENOSPC);
	use_reserve(EFBIG);
	use_reserve(EDQUOT);
}

static int any_set(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx, (void)labels, (void)n;
	*ret = true;
	return 0;
}

/* Sync number `at` of a deletion fails, 0: none; returns how many there were. */
static long delete_all(long at, int want, const char *text)
{
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = any_set };
	struct model m = { .random = 14 };
	struct copy_result r;
	struct err err = { 0 };
	char tmp[100];
	snprintf(store, sizeof(store), "%s/store", dir);
	struct store_writer *w = open_writer(true);
	assert_int_equal(write_windows(&m, w, 2), 0);
	store_writer_close(w);
	faults = (struct faults){ .calls = SYNCS, .at = at, .times = 1, .error = EIO };
	assert_int_equal(store_delete(store, &del, NULL, &r, &err), want);
	const long n = faults.n;
	faults.calls = 0;
	if (!strstr(err.text, text))
		fail_msg("%s", err.text);
	snprintf(tmp, sizeof(tmp), "%s.tmp", store);
	assert_int_not_equal(access(tmp, F_OK), 0);
	assert_sound(store);
	model_fini(&m);
	remove_tree(store);
	return n;
}

/* The last one is that of the new store's name. */
static void a_deletion(void **state)
{
	(void)state;
	long n = delete_all(0, 0, "");
	assert_true(n > 2);
	delete_all(n, -EIO, "cannot sync the directory above");
}

static int setup(void **state)
{
	(void)state;
	faults_below(temp_dir(dir));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	remove_tree(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows),
		cmocka_unit_test(parents),
		cmocka_unit_test(the_reserve),
		cmocka_unit_test(a_deletion),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
