/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers in other processes beside a writer that makes parents, ends generations and cuts: they
 * see what they opened, or are told.
 */
#include "fault/run.h"
#include "fault/scenario.h"
#include "store/writer.h"

#define N_WINDOWS 120

static struct scenario scenario;

/* Everything that a reader can see, without the oracle: 0, or the first error. */
static int read_all(struct store *s, uint64_t *ret_coarse, struct err *err)
{
	struct store_cover c;
	struct store_totals *t;
	int rc = store_cover(s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < c.n; i++) {
		rc = store_block_totals(s, c.blocks[i], &t, err);
		if (!rc)
			store_totals_free(t);
	}
	*ret_coarse = c.coarse;
	store_cover_free(&c);
	return rc;
}

static void write_on(struct store_writer **w, const char *dir, size_t from, size_t to)
{
	struct err err = { 0 };
	for (size_t i = from; i < to; i++) {
		int rc = scenario_before(w, dir, i, &err);
		if (!rc)
			rc = scenario_commit(&scenario, *w, i, &err);
		if (rc)
			fail_msg("window %zu: %s", i, err.text);
	}
}

static uint64_t tree_bytes;

static int add_bytes(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path, (void)ftw;
	tree_bytes += type == FTW_F ? (uint64_t)st->st_size : 0;
	return 0;
}

static uint64_t bytes_of(const char *dir)
{
	tree_bytes = 0;
	nftw(dir, add_bytes, 8, FTW_PHYS);
	return tree_bytes;
}

static void every(bool *v, size_t n)
{
	for (size_t i = 0; i < SCENARIO_MAX; i++)
		v[i] = i < n;
}

/*
 * A reader that stays open while what it has is cut is told, and opening again works. It changes
 * nothing for the writer.
 */
static void stuck_reader(void **state)
{
	(void)state;
	char base[64], dir[80], alone[80];
	bool all[SCENARIO_MAX];
	struct store_writer *w = NULL, *w2 = NULL;
	struct store *early, *idle, *now;
	struct err err = { 0 };
	uint64_t coarse;
	snprintf(dir, sizeof(dir), "%s/store", temp_dir(base));
	snprintf(alone, sizeof(alone), "%s/alone", base);
	write_on(&w, dir, 0, 30);
	assert_int_equal(store_open(&early, dir, &err), 0);
	assert_int_equal(read_all(early, &coarse, &err), 0); /* has files open that will go */
	assert_int_equal(coarse, 0);
	assert_int_equal(store_open(&idle, dir, &err), 0);
	write_on(&w, dir, 30, N_WINDOWS);
	const uint64_t written = store_writer_state(w)->bytes_written;
	/* It is told: the file is gone, or parents stand in. */
	int rc = read_all(idle, &coarse, &err);
	assert_true(rc == -ESTALE || (rc == 0 && coarse > 0));
	/* What it has open is all there still. */
	rc = read_all(early, &coarse, &err);
	assert_true(rc == -ESTALE || (rc == 0 && coarse == 0));
	assert_int_equal(store_open(&now, dir, &err), 0);
	assert_int_equal(read_all(now, &coarse, &err), 0);
	assert_true(store_cut(now, 0)->blocks > 0);
	store_close(now);
	/* The same life without readers. */
	write_on(&w2, alone, 0, N_WINDOWS);
	assert_int_equal(store_writer_state(w2)->bytes_written, written);
	assert_int_equal(bytes_of(dir), bytes_of(alone));
	store_close(early);
	store_close(idle);
	store_writer_close(w);
	store_writer_close(w2);
	every(all, N_WINDOWS);
	const char *bad = scenario_judge(&scenario, dir, all, all, NULL);
	if (bad)
		fail_msg("%s", bad);
	remove_tree(base);
}

/* Opens and reads without pause; *said: an error that is none of a store that goes on. */
static void read_on(const char *dir, const bool *stop, size_t *opened, size_t *stale, char *said)
{
	while (!__atomic_load_n(stop, __ATOMIC_ACQUIRE) && !*said) {
		struct store *s;
		struct err err = { 0 };
		uint64_t coarse;
		int rc = store_open(&s, dir, &err);
		if (rc == -ENOENT || rc == -EINVAL)
			continue; /* not made yet */
		if (!rc) {
			rc = read_all(s, &coarse, &err);
			store_close(s);
		}
		++*(rc == -ESTALE ? stale : opened);
		if (rc && rc != -ESTALE)
			snprintf(said, 500, "%s", err.text);
	}
}

struct beside {
	bool stop;
	size_t opened, stale;
	char said[500];
};

static void readers_beside(void **state)
{
	(void)state;
	char base[64], dir[80];
	struct beside *b = run_shared(sizeof(*b));
	int status;
	snprintf(dir, sizeof(dir), "%s/store", temp_dir(base));
	const size_t lives = run_size(8 / part_of("lives of a writer beside readers", 2), 30);
	pid_t child = fork();
	if (!child) {
		read_on(dir, &b->stop, &b->opened, &b->stale, b->said);
		_exit(0);
	}
	struct store_writer *w = NULL;
	for (size_t life = 0; life < lives; life++) {
		/* the same windows again are others: they are not looked at here */
		write_on(&w, dir, 0, N_WINDOWS);
		store_writer_close(w);
		w = NULL;
	}
	__atomic_store_n(&b->stop, true, __ATOMIC_RELEASE);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	print_message("%zu times read beside the writer, %zu times told that files were cut\n",
		      b->opened, b->stale);
	if (b->said[0])
		fail_msg("a reader: %s", b->said);
	assert_true(b->opened > 0);
	munmap(b, sizeof(*b));
	remove_tree(base);
}

/* ---- files that go ---- */

/* A file for each window or two, and only the last minutes are kept. */
static struct store_writer *open_recent(const char *dir)
{
	struct store_options o = scenario_options;
	struct store_writer *w;
	struct err err = { 0 };
	o.windows_only = true;
	o.recent_ns = 100 * 1000000000ll;
	o.symbols_bytes = 1;
	if (store_writer_open_with(&w, dir, &model_meta, &o, &err))
		fail_msg("%s", err.text);
	return w;
}

static void commit_recent(struct store_writer *w, size_t i)
{
	struct model m = { .random = i };
	struct model_window win = { 0 };
	struct err err = { 0 };
	store_renew(w);
	store_renew_end(w);
	model_fill(&m, w, &win, 3);
	model_window_fini(&win);
	if (model_commit_at(w, i, &err))
		fail_msg("window %zu: %s", i, err.text);
}

static int no_row(void *ctx, const struct store_row *r)
{
	(void)ctx, (void)r;
	return 0;
}

/* Stacks, rows and labels, hence all dictionaries. */
static int read_stacks(struct store *s, struct err *err)
{
	struct store_cover c;
	int rc = store_cover(s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < c.n; i++)
		rc = store_block_rows(s, c.blocks[i], NULL, NULL, no_row, NULL, err);
	store_cover_free(&c);
	return rc;
}

static void read_stacks_on(const char *dir, struct beside *b)
{
	while (!__atomic_load_n(&b->stop, __ATOMIC_ACQUIRE) && !b->said[0]) {
		struct store *s;
		struct err err = { 0 };
		int rc = store_open(&s, dir, &err);
		if (!rc) {
			rc = read_stacks(s, &err);
			if (store_damage(s) && store_lost_windows(s))
				snprintf(b->said, sizeof(b->said), "%s", store_damage(s));
			store_close(s);
		}
		++*(rc == -ESTALE ? &b->stale : &b->opened);
		if (rc && rc != -ESTALE)
			snprintf(b->said, sizeof(b->said), "%s", err.text);
	}
}

/*
 * What was sealed when files went is stale, not damaged. What was open can still be read. A fresh
 * look has all that is there.
 */
static void stale_files(void **state)
{
	(void)state;
	char dir[64];
	struct store_writer *w = open_recent(temp_dir(dir));
	struct store *s;
	struct store_cover c;
	struct err err = { 0 };
	for (size_t i = 0; i < 20; i++)
		commit_recent(w, i);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	for (size_t i = 20; i < 60; i++)
		commit_recent(w, i);
	/* A file that was opened can still be read; others are gone. */
	int rc = store_block_folded(s, c.blocks[0], no_row, NULL, &err);
	if (rc && rc != -ESTALE)
		fail_msg("%d: %s", rc, err.text);
	rc = store_block_folded(s, c.blocks[c.n - 1], no_row, NULL, &err);
	if (rc) /* its dictionaries were beside it, and it has been sealed since */
		fail_msg("%d: %s", rc, err.text);
	store_cover_free(&c);
	store_close(s);
	assert_int_equal(store_open(&s, dir, &err), 0);
	if (read_stacks(s, &err))
		fail_msg("%s", err.text);
	store_close(s);
	store_writer_close(w);
	remove_tree(dir);
}

static void readers_beside_generations(void **state)
{
	(void)state;
	char dir[64];
	struct beside *b = run_shared(sizeof(*b));
	int status;
	struct store_writer *w = open_recent(temp_dir(dir));
	commit_recent(w, 0);
	const size_t generations = run_size(600 / part_of("generations beside readers", 2), 20000);
	pid_t child = fork();
	if (!child) {
		read_stacks_on(dir, b);
		_exit(0);
	}
	for (size_t i = 1; i < generations; i++)
		commit_recent(w, i);
	store_writer_close(w);
	__atomic_store_n(&b->stop, true, __ATOMIC_RELEASE);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	print_message("%zu times read beside generations that go, %zu times told\n", b->opened,
		      b->stale);
	if (b->said[0])
		fail_msg("a reader: %s", b->said);
	assert_true(b->opened > 0);
	munmap(b, sizeof(*b));
	remove_tree(dir);
}

static int setup(void **state)
{
	(void)state;
	scenario_make(&scenario, N_WINDOWS, 6);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	scenario_fini(&scenario);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stuck_reader),
		cmocka_unit_test(readers_beside),
		cmocka_unit_test(stale_files),
		cmocka_unit_test(readers_beside_generations),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
