/* SPDX-License-Identifier: Apache-2.0 */
/* A store keeps below its size, and gives up first what was written first. */
#include "part.h"
#include "unit/retain_life.h"

/* A cap on the size cuts what was written first, whatever its clock said. */
static void size_cap(void **state)
{
	static struct life l;
	(void)state;
	life_begin(&l, 40);
	for (size_t i = 0; i < 300; i++) {
		l.wrong_ns = i >= 290 ? -10 * YEAR : i < 10 ? 10 * YEAR : 0;
		if (i == 290) {
			store_writer_close(l.w);
			l.o.max_bytes = 100000;
			life_open(&l);
		}
		life_window(&l, 600 * SECOND);
	}
	struct store *s = life_look(&l);
	static bool held[N_MAX];
	size_t n = find_held(&l, s, 0, held);
	assert_true(n < 290 && store_cut(s, 0)->bytes_by_size > 0);
	for (size_t i = 0; i < 300; i++)
		assert_int_equal(held[i], i >= 300 - n);
	/* Ten years ahead: what it says of the rest would be wrong. */
	assert_true(store_cut(s, 0)->before_ns < T0 + YEAR);
	store_close(s);
	life_end(&l);
}

/* Which files of windows and of postings there are, by their number; not those still written to. */
static void list_files(struct life *l, bool *windows, bool *postings)
{
	struct store *s = life_look(l);
	memset(windows, 0, N_MAX);
	memset(postings, 0, N_MAX);
	for (size_t i = 0; i < s->n_segments; i++) {
		const struct manifest_segment *m = &s->segments[i].m;
		assert_true(m->serial < N_MAX);
		if (m->state != SEGMENT_OPEN && (!m->level || m->level == LEVEL_POSTINGS))
			(m->level ? postings : windows)[m->serial] = true;
	}
	store_close(s);
}

/* What was written first goes first, windows and postings alike. */
static void postings_go_with_windows(void **state)
{
	static struct life l;
	static bool windows[N_MAX], postings[N_MAX], ever[N_MAX];
	size_t cut = 0, n_postings = 0; /* of windows, the last that was cut */
	(void)state;
	life_begin(&l, 42);
	store_writer_close(l.w);
	l.o.wide_values = 2;
	l.o.max_bytes = 120000;
	memset(l.o.keep_ns, 0, sizeof(l.o.keep_ns));
	life_open(&l);
	for (size_t i = 0; i < 600; i++) {
		life_window(&l, 600 * SECOND);
		if (i % 12)
			continue;
		list_files(&l, windows, postings);
		for (size_t k = 0; k < N_MAX; k++) {
			cut = ever[k] && !windows[k] ? k : cut;
			ever[k] |= windows[k];
		}
		for (size_t k = 0; k < N_MAX; k++) {
			n_postings += postings[k];
			assert_true(!postings[k] || k > cut);
		}
	}
	assert_true(cut > 0 && n_postings > 0);
	life_end(&l);
}

static uint64_t tree_bytes;

static int add_bytes(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	/* 256 KiB that are given up first */
	if (type == FTW_F && strcmp(strrchr(path, '/') + 1, "reserve"))
		tree_bytes += (uint64_t)st->st_size;
	return 0;
}

/* At every moment, whatever is being written. */
static void cap_at_every_moment(void **state)
{
	static struct life l;
	uint64_t most = 0;
	(void)state;
	life_begin(&l, 41);
	store_writer_close(l.w);
	l.o.max_bytes = 300000;
	life_open(&l);
	const size_t n = N_MAX / part_of("windows under a cap", 4);
	for (size_t i = 0; i < n; i++) {
		life_window(&l, 0);
		store_renew(l.w);
		store_renew_end(l.w);
		tree_bytes = 0;
		nftw(l.dir, add_bytes, 8, FTW_PHYS);
		most = tree_bytes > most ? tree_bytes : most;
	}
	struct store *s = life_look(&l);
	print_message("at most %" PRIu64 " of %" PRIu64 " bytes; %" PRIu64
		      " blocks of 10s were cut\n",
		      most, l.o.max_bytes, store_cut(s, 0)->blocks);
	assert_true(most <= l.o.max_bytes / 100 * 105);
	assert_true(store_cut(s, 0)->blocks > 0);
	store_close(s);
	life_end(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(size_cap),
		cmocka_unit_test(postings_go_with_windows),
		cmocka_unit_test(cap_at_every_moment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
