/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call by which the store changes files fails, once: a disk that is full, or cannot write.
 * What was asked for is then an error with a text, or is done in full. Windows that were kept are
 * there, stores that were there are as they were or as they should become, and a second try
 * succeeds.
 */
#include "fault/recorder.c"
#include "part.h"
#include "unit/store_ops.h"

static long at;
static int error;
static unsigned int calls = FAULT_ALL & ~FAULT_OPEN;

static void begin_faults(void)
{
	faults = (struct faults){ .calls = calls, .at = at, .times = 1, .error = error };
}

static void end_faults(void)
{
	faults.calls = 0;
}

static void fail_each(const char *name, int (*run)(struct digest *ret, struct err *err))
{
	struct digest want = { 0 };
	struct err err = { 0 };
	const size_t descriptors = count_descriptors();
	size_t failed = 0;
	at = 0;
	if (run(&want, &err))
		fail_msg("%s, without a failure: %s", name, err.text);
	const long n = faults.n, step = (long)part_of(name, 3);
	remove_tree(target);
	assert_true(n > 5);
	for (at = 1; at <= n; at += step) {
		struct digest got = { 0 };
		error = at / step % 2 ? EIO : ENOSPC;
		err = (struct err){ 0 };
		int rc = run(&got, &err);
		if (rc && !err.text[0])
			fail_msg("%s, call %ld: %d without a word", name, at, rc);
		if (!rc && !same_digest(&got, &want))
			fail_msg("%s, call %ld: another result", name, at);
		failed += rc != 0;
		assert_int_equal(count_descriptors(), descriptors);
		remove_tree(target);
		remove_tree(target_tmp);
	}
	print_message("%s: %ld calls, %zu failures\n", name, n, failed);
	assert_true(failed);
}

/*
 * What could not be made durable is not done, whatever can be read. But for the two syncs of the
 * manifest by which a writer ends: either manifest is good.
 */
static void sync_each(const char *name, int (*run)(struct digest *ret, struct err *err),
		      size_t silent)
{
	size_t n_silent = 0;
	struct digest got = { 0 };
	struct err err = { 0 };
	calls = FAULT_FSYNC | FAULT_FDATASYNC;
	at = 0;
	assert_int_equal(run(&got, &err), 0);
	const long n = faults.n;
	remove_tree(target);
	assert_true(n > 2);
	error = EIO; /* for a full disk there is a reserve */
	for (at = 1; at <= n; at++) {
		err = (struct err){ 0 };
		int rc = run(&got, &err);
		n_silent += !rc;
		if (n_silent > silent || (rc && !err.text[0]))
			fail_msg("%s: sync %ld of %ld fails, and nobody says so", name, at, n);
		remove_tree(target);
		remove_tree(target_tmp);
	}
	assert_int_equal(n_silent, silent);
	calls = FAULT_ALL & ~FAULT_OPEN;
}

static void writing(void **state)
{
	(void)state;
	fail_each("write", run_write);
}

static void other_stores(void **state)
{
	(void)state;
	fail_each("repair", run_repair);
	fail_each("rebuild", run_rebuild);
	fail_each("snapshot", run_snapshot);
	fail_each("merge", run_merge);
	fail_each("delete", run_delete);
	if (has_old)
		fail_each("rewrite", run_rewrite);
}

static void syncs(void **state)
{
	(void)state;
	sync_each("repair", run_repair, 0);
	sync_each("rebuild", run_rebuild, 0);
	sync_each("snapshot", run_snapshot, 0);
	sync_each("merge", run_merge, 2);
	sync_each("delete", run_delete, 2);
	if (has_old)
		sync_each("rewrite", run_rewrite, 2);
}

static int setup(void **state)
{
	int rc = make_stores(state);
	faults_below(base);
	return rc;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writing),
		cmocka_unit_test(other_stores),
		cmocka_unit_test(syncs),
	};
	return cmocka_run_group_tests(tests, setup, remove_stores);
}
