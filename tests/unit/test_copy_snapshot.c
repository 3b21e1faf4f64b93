/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a store that another process writes. */
#include "unit/copied.h"

#include "store/instants.h"
#include "store/read/store_int.h"
#include "store/writer.h"

#include <signal.h>
#include <sys/file.h>
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

/* A store of some windows with tracks, some of its files closed, one open. */
static struct store_writer *tracked_store(struct model *m, const char *dir, size_t n)
{
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	o.symbols_bytes = 4096;
	o.tracks_ns = INT64_MAX;
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
	for (size_t i = 0; i < n; i++) {
		struct store_row row = { .samples = 1 };
		const struct store_instant v = { T0 + (int64_t)i * 10 * SECOND, 0, 0, 0 };
		const struct store_instants given = { &row, 1, &v, 1, 0 };
		store_renew(w);
		store_renew_end(w);
		store_set_instants(w, &given);
		assert_int_equal(model_commit(m, w, 200, &err), 0);
	}
	return w;
}

static bool same_file(const char *a, const char *b, const char *name)
{
	char path[2][200];
	struct stat st[2];
	for (int i = 0; i < 2; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/%s", i ? b : a, name);
		assert_int_equal(stat(path[i], &st[i]), 0);
	}
	assert_int_equal(st[0].st_size, st[1].st_size);
	return st[0].st_ino == st[1].st_ino && st[0].st_dev == st[1].st_dev;
}

/*
 * Files that change no more are linked within a file system, and copied to another one. All files
 * of tracks are copied.
 */
static void test_snapshot_across(void **state)
{
	char base[64], dir[80], copy[80], away[] = "/tmp/ascribe-test-XXXXXX", other[80];
	struct model m = { .random = 8 };
	struct snapshot_result near, far;
	struct err err = { 0 };
	struct stat st[2];
	(void)state;
	temp_dir(base);
	assert_non_null(mkdtemp(away));
	snprintf(dir, sizeof(dir), "%s/store", base);
	snprintf(copy, sizeof(copy), "%s/copy", base);
	snprintf(other, sizeof(other), "%s/copy///", away);
	struct store_writer *w = tracked_store(&m, dir, 20);
	const mode_t mask = umask(0);
	assert_int_equal(store_snapshot(dir, copy, NULL, &near, &err), 0);
	assert_int_equal(store_snapshot(dir, other, NULL, &far, &err), 0);
	umask(mask);
	other[strlen(other) - 3] = 0;
	assert_int_equal(near.windows, 20);
	assert_int_equal(far.windows, 20);
	assert_true(near.linked > 0);
	assert_true(same_file(dir, copy, "seg/10s-00000001.seg"));
	assert_false(same_file(dir, copy, TRACKS_DIR "/00000000.trk"));
	assert_false(same_file(dir, other, TRACKS_DIR "/00000000.trk"));
	assert_int_equal(stat(base, &st[0]), 0);
	assert_int_equal(stat(away, &st[1]), 0);
	if (st[0].st_dev != st[1].st_dev) {
		assert_false(same_file(dir, other, "seg/10s-00000001.seg"));
		assert_int_equal(far.linked, 0);
		assert_int_equal(far.copied, near.copied + near.linked);
		assert_true(far.bytes_copied > near.bytes_copied);
	}
	/* Nobody else may read a copy, whatever the umask */
	static const char *const made[] = { "", "seg", TRACKS_DIR };
	for (size_t i = 0; i < 3; i++) {
		char path[120];
		snprintf(path, sizeof(path), "%s/%s", copy, made[i]);
		assert_int_equal(stat(path, &st[0]), 0);
		assert_int_equal(st[0].st_mode & 0777, 0700);
	}
	check_whole(copy);
	check_whole(other);
	model_check(&m, copy);
	model_check(&m, other);
	store_writer_close(w);
	model_fini(&m);
	remove_tree(base);
	remove_tree(away);
}

/* The windows that ended after a point in time, whole segments of them, and no parents. */
static void test_freeze(void **state)
{
	char base[64], dir[80], copy[80];
	struct model m = { .random = 9 };
	struct snapshot_result r;
	struct err err = { 0 };
	(void)state;
	temp_dir(base);
	snprintf(dir, sizeof(dir), "%s/store", base);
	snprintf(copy, sizeof(copy), "%s/copy", base);
	struct store_writer *w = tracked_store(&m, dir, 40);
	const int64_t since = T0 + 300 * SECOND;
	assert_int_equal(store_freeze(dir, copy, since, &r, &err), 0);
	check_whole(copy);
	size_t n = check_windows(&m, copy);
	assert_int_equal(n, r.windows);
	assert_in_range(n, 10, 39);
	struct store *s = open_store(copy);
	for (size_t i = 0; i < s->n_segments; i++)
		assert_int_equal(s->segments[i].m.level, 0);
	assert_int_equal(store_window(s, n - 1, &err)->t1_ns, T0 + 400 * SECOND);
	store_close(s);
	store_writer_close(w);
	model_fini(&m);
	remove_tree(base);
}

static void mark(const char *dir, const char *text)
{
	char path[120];
	snprintf(path, sizeof(path), "%s/lock", dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* What a copy that was interrupted left goes; what another process makes, or is nobody's, stays. */
static void test_leftovers(void **state)
{
	static const char *const marks[] = { "in the making\n", "in the making", "",
					     "in the makinG\n", "in the making\n\n" };
	char base[64], dir[80], copy[80], tmp[90];
	struct model m = { .random = 10 };
	struct snapshot_result r;
	struct err err = { 0 };
	(void)state;
	temp_dir(base);
	snprintf(dir, sizeof(dir), "%s/store", base);
	snprintf(copy, sizeof(copy), "%s/copy", base);
	snprintf(tmp, sizeof(tmp), "%s.tmp", copy);
	struct store_writer *w = tracked_store(&m, dir, 3);
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		assert_int_equal(mkdir(tmp, 0700), 0);
		mark(tmp, marks[i]);
		assert_int_equal(store_snapshot(dir, copy, NULL, &r, &err), i ? -EEXIST : 0);
		if (i)
			assert_non_null(strstr(err.text, "remove it then"));
		else
			check_whole(copy);
		remove_tree(copy);
		remove_tree(tmp);
	}
	/* Another process is at it */
	assert_int_equal(mkdir(tmp, 0700), 0);
	mark(tmp, marks[0]);
	int fd = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(store_snapshot(dir, copy, NULL, &r, &err), -EEXIST);
	assert_int_equal(access(tmp, F_OK), 0);
	close(fd);
	/* Of another user */
	if (!geteuid()) {
		assert_int_equal(chown(tmp, 1, 1), 0);
		assert_int_equal(store_snapshot(dir, copy, NULL, &r, &err), -EEXIST);
		assert_int_equal(chown(tmp, 0, 0), 0);
	}
	assert_int_equal(store_snapshot(dir, copy, NULL, &r, &err), 0);
	assert_absent(copy, ".tmp");
	assert_int_equal(store_snapshot(dir, copy, NULL, &r, &err), -EEXIST);
	assert_non_null(strstr(err.text, "name a new directory"));
	store_writer_close(w);
	model_fini(&m);
	remove_tree(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_snapshot_live),	 cmocka_unit_test(test_snapshot_retention),
		cmocka_unit_test(test_snapshot_stopped), cmocka_unit_test(test_snapshot_across),
		cmocka_unit_test(test_freeze),		 cmocka_unit_test(test_leftovers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
