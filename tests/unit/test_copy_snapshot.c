/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a store that another process writes. */
#include "unit/copied.h"

#include "store/read/store_int.h"
#include "store/writer.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct shared {
	volatile size_t committed;
	volatile bool stop;
};

#define LIVE_WINDOWS 300

static void write_windows(const char *dir, uint64_t seed, const struct store_options *o,
			  struct shared *shared)
{
	struct model m = { .random = seed };
	struct store_writer *w;
	struct err err = { 0 };
	int rc = store_writer_open_with(&w, dir, &model_meta, o, &err);
	while (!rc && m.n < LIVE_WINDOWS && !shared->stop) {
		store_renew(w);
		store_renew_end(w);
		rc = model_commit(&m, w, 20, &err);
		shared->committed = m.n;
	}
	store_writer_close(w);
	_exit(rc ? 1 : 0);
}

/* Which windows of the model are there, all equal to it; returns how many. */
static size_t check_windows(const struct model *m, const char *dir)
{
	struct store *s = open_store(dir);
	size_t n = store_n_windows(s);
	for (size_t i = 0; i < n; i++) {
		struct err err = { 0 };
		const struct store_window *w = store_window(s, i, &err);
		assert_non_null(w);
		size_t at = (size_t)((w->t0_ns - T0) / (10 * SECOND));
		struct read_back b = { .s = s };
		assert_true(at < m->n);
		assert_int_equal(store_rows(s, i, read_back_row, &b, &err), 0);
		model_sort(b.rows, b.n);
		assert_int_equal(b.n, m->w[at].n);
		for (size_t k = 0; k < b.n; k++) {
			assert_int_equal(model_row_cmp(&b.rows[k], &m->w[at].rows[k]), 0);
			assert_int_equal(b.rows[k].samples, m->w[at].rows[k].samples);
		}
		struct model_window back = { b.rows, b.n, 0, 0 };
		model_window_fini(&back);
	}
	store_close(s);
	return n;
}

static void snapshot_live(const struct store_options *o, bool all)
{
	char base[64], dir[80], copy[80];
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct model m = { .random = 5 };
	struct snapshot_result r;
	struct err err = { 0 };
	size_t n_copies = 0;
	temp_dir(base);
	snprintf(dir, sizeof(dir), "%s/store", base);
	snprintf(copy, sizeof(copy), "%s/copy", base);
	for (; m.n < LIVE_WINDOWS; m.n++)
		model_fill(&m, NULL, &m.w[m.n], 20);
	pid_t child = fork();
	if (!child)
		write_windows(dir, 5, o, shared);
	while (shared->committed < LIVE_WINDOWS) {
		int status;
		size_t before = shared->committed;
		if (!before) {
			assert_int_equal(waitpid(child, &status, WNOHANG), 0);
			continue;
		}
		if (store_snapshot(dir, copy, NULL, &r, &err))
			fail_msg("%s", err.text);
		check_whole(copy);
		assert_absent(copy, ".tmp");
		size_t n = check_windows(&m, copy);
		assert_int_equal(n, r.windows);
		if (all)
			assert_true(n >= before);
		n_copies++;
		assert_int_equal(store_snapshot(dir, copy, NULL, &r, &err), -EEXIST);
		remove_tree(copy);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(n_copies > 0);
	/* At rest, and a store that can be gone on with. */
	assert_int_equal(store_snapshot(dir, copy, NULL, &r, &err), 0);
	struct store_writer *w;
	assert_int_equal(store_writer_open_with(&w, copy, &model_meta, o, &err), 0);
	assert_int_equal(model_commit_at(w, LIVE_WINDOWS, &err), 0);
	store_writer_close(w);
	check_whole(copy);
	check_whole(dir);
	model_fini(&m);
	remove_tree(base);
	munmap(shared, sizeof(*shared));
}

static void test_snapshot_live(void **state)
{
	struct store_options o = model_options;
	(void)state;
	o.symbols_bytes = 4096; /* files end often */
	snapshot_live(&o, true);
}

static void test_snapshot_retention(void **state)
{
	struct store_options o = model_options;
	(void)state;
	o.symbols_bytes = 4096;
	o.max_bytes = 60000;
	snapshot_live(&o, false);
}

static void test_snapshot_stopped(void **state)
{
	char base[64], dir[80], copy[80];
	struct model m = { .random = 6 };
	struct store_writer *w;
	struct snapshot_result r;
	struct err err = { 0 };
	bool stop = true;
	(void)state;
	temp_dir(base);
	snprintf(dir, sizeof(dir), "%s/store", base);
	snprintf(copy, sizeof(copy), "%s/copy", base);
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	assert_int_equal(model_commit(&m, w, 9, &err), 0);
	assert_int_equal(store_snapshot(dir, copy, &stop, &r, &err), -EINTR);
	assert_absent(copy, "");
	assert_absent(copy, ".tmp");
	store_writer_close(w);
	model_fini(&m);
	remove_tree(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_snapshot_live),
		cmocka_unit_test(test_snapshot_retention),
		cmocka_unit_test(test_snapshot_stopped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
