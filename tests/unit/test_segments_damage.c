/* SPDX-License-Identifier: Apache-2.0 */
/* Segments whose bytes changed, and segments that retention cut. */
#include "part.h"
#include "store/writer.h"
#include "unit/segments.h"

#include "store/read/store_int.h"

#include <sys/statvfs.h>

/* Counters of everything, when they can be had. */
static int ask_all(const char *dir, uint64_t *ret_samples, uint64_t *ret_fired,
		   uint64_t *ret_windows)
{
	struct query_spec spec = {
		.from_ns = INT64_MIN, .to_ns = INT64_MAX, .idle = true, .labels = QUERY_NO_LABELS
	};
	struct store *s;
	struct query *q;
	struct err err = { 0 };
	int rc = store_open(&s, dir, &err);
	if (rc)
		return rc;
	rc = query_open(&q, s, &spec, &err);
	if (!rc) {
		*ret_samples = query_info(q)->samples;
		*ret_fired = query_info(q)->fired;
		*ret_windows = query_info(q)->windows;
		query_close(q);
	}
	store_close(s);
	return rc;
}

static char walked[200][200];
static size_t n_walked;

static int walk_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	if (type == FTW_F && st->st_size && !strstr(path, "/reserve") && n_walked < 200)
		snprintf(walked[n_walked++], 200, "%s", path);
	return 0;
}

static void copy_tree(const char *from, const char *to)
{
	char command[300];
	snprintf(command, sizeof(command), "rm -rf %s && cp -a %s %s", to, from, to);
	assert_int_equal(system(command), 0);
}

/* A store of several levels and segments that ended cleanly. */
static void small_levels(struct model *m, const char *dir)
{
	struct store_writer *w;
	struct err err = { 0 };
	int64_t t = T0;
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	for (int i = 0; i < 30; i++, t += 10 * SECOND) {
		if (i % 10 == 9)
			t += 3600 * SECOND * 5;
		commit_at(m, w, t, 6);
	}
	store_writer_close(w);
}

/*
 * The names of the newest windows are cut off: those windows are left out, which a store says. Who
 * copies it, or writes to it, must know.
 */
static void windows_are_lost(void **state)
{
	struct model m = { .random = 43 };
	struct store *s;
	struct err err = { 0 };
	char dir[64], path[600] = "";
	struct stat st;
	(void)state;
	small_levels(&m, temp_dir(dir));
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_false(store_lost_windows(s));
	const size_t n = store_n_windows(s);
	for (size_t i = 0; i < s->n_segments; i++)
		if (s->segments[i].m.state == SEGMENT_OPEN && !s->segments[i].m.level)
			snprintf(path, sizeof(path), "%s", s->segments[i].names.path);
	store_close(s);
	assert_true(path[0]);
	if (path[0] != '/') {
		char below[700];
		snprintf(below, sizeof(below), "%s/%s", dir, path);
		snprintf(path, sizeof(path), "%.599s", below);
	}
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - 1), 0);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_true(store_lost_windows(s));
	assert_true(store_n_windows(s) < n);
	store_close(s);
	model_fini(&m);
	remove_tree(dir);
}

/* What stands behind the last whole name was never acknowledged: it is torn, and repair cuts it. */
static void torn_names(void **state)
{
	struct model m = { .random = 45 };
	struct findings f = { 0 };
	struct err err = { 0 };
	char dir[64], path[700] = "";
	uint64_t samples, fired, windows, s2, f2, w2;
	(void)state;
	small_levels(&m, temp_dir(dir));
	assert_int_equal(ask_all(dir, &samples, &fired, &windows), 0);
	struct store *s = open_store(dir);
	for (size_t i = 0; i < s->n_segments; i++)
		if (s->segments[i].m.state == SEGMENT_OPEN && !s->segments[i].m.level)
			snprintf(path, sizeof(path), "%s/seg/10s-%08u.sym", dir,
				 s->segments[i].m.serial);
	store_close(s);
	FILE *file = fopen(path, "a");
	assert_non_null(file);
	fputs("ASFR: a name that was being written", file);
	fclose(file);
	f = verify(dir);
	assert_int_equal(f.torn, 1);
	assert_int_equal(f.damaged, 0);
	assert_int_equal(ask_all(dir, &s2, &f2, &w2), 0);
	f = (struct findings){ 0 };
	assert_int_equal(store_repair(dir, count, &f, &err), 0);
	assert_int_equal(f.torn, 1);
	assert_int_equal(f.cut, 0);
	f = verify(dir);
	assert_int_equal(f.torn + f.damaged, 0);
	assert_int_equal(ask_all(dir, &s2, &f2, &w2), 0);
	assert_int_equal(s2, samples);
	assert_int_equal(f2, fired);
	assert_int_equal(w2, windows);
	model_fini(&m);
	remove_tree(dir);
}

/*
 * One bit of some byte in 40, or in a part of these; all of them with ASCRIBE_FAULT_FULL. Never a
 * wrong count, always found, always mended.
 */
static void every_flip(void **state)
{
	(void)state;
	char dir[64], copy[80];
	struct model m = { .random = 41 };
	uint64_t samples, fired, windows, s2, f2, w2;
	size_t bits = 0, harmless = 0, repaired = 0;
	const bool full = getenv("ASCRIBE_FAULT_FULL") != NULL;
	const off_t step = full ? 1 : 313 * (off_t)part_of("bits of a store", 4);
	small_levels(&m, temp_dir(dir));
	snprintf(copy, sizeof(copy), "%s.copy", dir);
	struct findings clean = verify(dir);
	if (clean.damaged || clean.torn)
		fail_msg("%s", clean.first);
	assert_int_equal(ask_all(dir, &samples, &fired, &windows), 0);
	assert_int_equal(windows, m.n);
	n_walked = 0;
	nftw(dir, walk_one, 8, FTW_PHYS);
	for (size_t i = 0; i < n_walked; i++) {
		int fd = open(walked[i], O_RDWR);
		struct stat st;
		unsigned char c;
		fstat(fd, &st);
		for (off_t bit = model_random(&m, 8); bit < 8 * st.st_size;
		     bit += step + (full ? 0 : (off_t)model_random(&m, 16))) {
			assert_int_equal(pread(fd, &c, 1, bit / 8), 1);
			c ^= (unsigned char)(1u << bit % 8);
			assert_int_equal(pwrite(fd, &c, 1, bit / 8), 1);
			if (!verify(dir).damaged)
				fail_msg("%s: bit %lld is not found", walked[i], (long long)bit);
			if (!ask_all(dir, &s2, &f2, &w2)) {
				assert_int_equal(s2, samples);
				assert_int_equal(f2, fired);
				assert_int_equal(w2, windows);
				harmless++;
			}
			if (bits++ % 20 == 0) {
				struct findings n = { 0 };
				struct err err = { 0 };
				copy_tree(dir, copy);
				if (store_repair(copy, count, &n, &err))
					fail_msg("%s: bit %lld: %s", walked[i], (long long)bit,
						 err.text);
				struct findings after = verify(copy);
				if (after.damaged || after.torn)
					fail_msg("%s: bit %lld: after repair: %s", walked[i],
						 (long long)bit, after.first);
				assert_int_equal(ask_all(copy, &s2, &f2, &w2), 0);
				assert_true(s2 <= samples && w2 <= windows);
				/*
				 * A block of one file is gone; the rest, and the parents over it,
				 * are not.
				 */
				if (strstr(walked[i], "/seg/"))
					assert_true(w2 + 1 >= windows);
				repaired++;
				struct store_writer *w;
				if (store_writer_open_with(&w, copy, &model_meta, &model_options,
							   &err))
					fail_msg("%s: bit %lld: %s", walked[i], (long long)bit,
						 err.text);
				store_writer_close(w);
			}
			c ^= (unsigned char)(1u << bit % 8);
			assert_int_equal(pwrite(fd, &c, 1, bit / 8), 1);
		}
		close(fd);
	}
	print_message(
		"%zu bits of %zu files: all found; %zu questions did not meet them; %zu repaired\n",
		bits, n_walked, harmless, repaired);
	remove_tree(dir);
	remove_tree(copy);
	model_fini(&m);
}

/*
 * Retention: old windows go, their parents stay; a small cap cuts the finest first; what was cut is
 * told.
 */
static void retention(void **state)
{
	(void)state;
	char dir[64];
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	struct model m = { .random = 51 };
	struct store *s;
	struct store_cover c;
	int64_t t = T0;
	o.keep_ns[0] = 24 * 3600 * SECOND;
	o.symbols_bytes = 1500;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	for (int i = 0; i < 300; i++, t += (i % 10 ? 10 : 3600) * SECOND) {
		if (i % 50 == 49) { /* generations end when a writer opens */
			store_writer_close(w);
			assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
		}
		commit_at(&m, w, t, 6);
	}
	assert_int_equal(store_writer_state(w)->parents_failed, 0);
	store_writer_close(w);
	if (store_open(&s, dir, &err))
		fail_msg("%s", err.text);
	assert_true(store_cut(s, 0)->blocks > 0 && store_cut(s, 0)->before_ns > T0);
	assert_int_equal(store_cut(s, 1)->blocks, 0);
	assert_int_equal(store_n_windows(s) + store_cut(s, 0)->blocks, 300);
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	uint64_t windows = 0;
	for (size_t i = 0; i < c.n; i++)
		windows += c.blocks[i]->n_windows;
	assert_int_equal(windows, 300);
	store_cover_free(&c);
	/* From within a parent without children: all of it, and its range is said. */
	int64_t from = T0 + 15 * SECOND;
	assert_int_equal(store_cover(s, from, from + SECOND, STORE_FOLDED, NULL, 0, &c, &err), 0);
	assert_int_equal(c.n, 1);
	assert_true(c.from_ns <= T0 + 10 * SECOND && c.to_ns >= T0 + 20 * SECOND &&
		    c.blocks[0]->level > 0);
	store_cover_free(&c);
	assert_int_equal(store_cover(s, from, from + SECOND, STORE_ALL_LABELS, NULL, 0, &c, &err),
			 0);
	assert_true(c.coarse > 0);
	store_cover_free(&c);
	store_close(s);
	assert_int_equal(verify(dir).damaged, 0);
	/* Now with hardly any room. */
	o.max_bytes = 20000;
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
	commit_at(&m, w, t, 6);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_true(store_cut(s, 0)->bytes_by_size > 0);
	assert_int_equal(store_cut(s, 8)->blocks, 0);
	store_close(s);
	assert_int_equal(verify(dir).damaged, 0);
	remove_tree(dir);
	model_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retention),
		cmocka_unit_test(every_flip),
		cmocka_unit_test(windows_are_lost),
		cmocka_unit_test(torn_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
