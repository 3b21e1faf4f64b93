/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tracks that end early or are damaged: what verify says, and what repair leaves. */
#include "unit/segments.h"

#include "store/file/file.h"
#include "store/instants.h"
#include "store/ops/copy.h"

#define WINDOW (10 * SECOND)
#define WINDOWS 3

struct given {
	char dir[64], path[120];
	struct model m;
	off_t size;
};

/* Three windows, whose tracks are in one file. */
static int begin(void **state)
{
	struct given *g = calloc(1, sizeof(*g));
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	struct stat st;
	o.tracks_ns = INT64_MAX;
	g->m.random = 17;
	assert_int_equal(store_writer_open_with(&w, temp_dir(g->dir), &model_meta, &o, &err), 0);
	for (size_t i = 0; i < WINDOWS; i++) {
		struct model_row row = { strdup("tenant=t1\n"), strdup("f (/bin/demo) 0 0\n"), 0,
					 50, 50 * 10101010ull };
		struct store_row r = { .samples = 50 };
		struct store_instant v[50];
		assert_int_equal(model_put_row(w, &row), 0);
		assert_int_equal(model_put_set(w, row.labels, &r.set), 0);
		assert_int_equal(model_put_stack(w, row.stack, &r.stack), 0);
		for (int k = 0; k < 50; k++)
			v[k] = (struct store_instant){ T0 + (int64_t)i * WINDOW + k * WINDOW / 50,
						       0, 0, 0 };
		const struct store_instants given = { &r, 1, v, 50, 0 };
		store_set_instants(w, &given);
		assert_int_equal(model_commit_at(w, i, &err), 0);
		struct model_window *mw = &g->m.w[g->m.n++];
		*mw = (struct model_window){ .t0 = T0 + (int64_t)i * WINDOW };
		mw->t1 = mw->t0 + WINDOW;
		model_window_add(mw, row);
	}
	store_writer_close(w);
	snprintf(g->path, sizeof(g->path), "%s/%s", g->dir, TRACKS_DIR "/00000000.trk");
	assert_int_equal(stat(g->path, &st), 0);
	g->size = st.st_size;
	*state = g;
	return 0;
}

static int teardown(void **state)
{
	struct given *g = *state;
	remove_tree(g->dir);
	model_fini(&g->m);
	free(g);
	return 0;
}

/* How many windows have a track. */
static size_t tracked(const char *dir)
{
	struct store *s = open_store(dir);
	size_t n = 0;
	for (size_t i = 0; i < WINDOWS; i++) {
		struct store_cover c;
		struct err err = { 0 };
		int64_t at = T0 + (int64_t)i * WINDOW;
		assert_int_equal(store_cover_nearest(s, at, at + WINDOW / 2, STORE_FOLDED, NULL, 0,
						     &c, &err),
				 0);
		n += c.to_ns == at + WINDOW / 2;
		store_cover_free(&c);
	}
	store_close(s);
	return n;
}

static void flip(const char *path, off_t at)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte;
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void sound(void **state)
{
	const struct given *g = *state;
	assert_sound(g->dir);
	assert_int_equal(tracked(g->dir), WINDOWS);
}

/* What is after the last whole track means nothing, and repair leaves it. */
static void torn(void **state)
{
	const struct given *g = *state;
	for (off_t cut = 1; cut < FRAME_SIZE; cut += 7) {
		assert_int_equal(truncate(g->path, g->size - cut), 0);
		struct findings f = verify(g->dir);
		assert_int_equal(f.torn, 1);
		assert_int_equal(f.damaged, 0);
		assert_int_equal(tracked(g->dir), WINDOWS - 1);
	}
	struct findings f = { 0 };
	struct err err = { 0 };
	assert_int_equal(store_repair(g->dir, count, &f, &err), 0);
	assert_int_equal(f.cut, 0);
	assert_int_equal(access(g->path, F_OK), 0);
	model_check(&g->m, g->dir);
}

/* A damaged track with others behind it; the last one alone is as good as torn. */
static void damaged(void **state)
{
	const struct given *g = *state;
	struct err err = { 0 };
	struct findings f;
	flip(g->path, g->size - 1);
	f = verify(g->dir);
	assert_int_equal(f.damaged + f.torn, 1);
	flip(g->path, g->size - 1);
	assert_sound(g->dir);
	flip(g->path, FILE_HEADER_SIZE + FRAME_SIZE + 3);
	f = verify(g->dir);
	assert_int_equal(f.damaged, 1);
	assert_int_equal(f.torn, 0);
	assert_non_null(strstr(f.first, "trk/00000000.trk at 32: no whole track"));
	assert_int_equal(access(g->path, F_OK), 0);
	f = (struct findings){ 0 };
	assert_int_equal(store_repair(g->dir, count, &f, &err), 0);
	assert_int_equal(f.cut, 1);
	assert_int_not_equal(access(g->path, F_OK), 0);
	assert_sound(g->dir);
	assert_int_equal(tracked(g->dir), 0);
	model_check(&g->m, g->dir);
}

static void damaged_header(void **state)
{
	const struct given *g = *state;
	struct err err = { 0 };
	struct findings f;
	flip(g->path, 3);
	f = verify(g->dir);
	assert_int_equal(f.damaged, 1);
	assert_non_null(strstr(f.first, "trk/00000000.trk at 0"));
	assert_int_equal(truncate(g->path, FILE_HEADER_SIZE - 1), 0);
	f = verify(g->dir);
	assert_int_equal(f.damaged, 1);
	f = (struct findings){ 0 };
	assert_int_equal(store_repair(g->dir, count, &f, &err), 0);
	assert_int_equal(f.cut, 1);
	assert_sound(g->dir);
	model_check(&g->m, g->dir);
}

static void copy_without_tracks(const struct given *g)
{
	char copy[80], path[120];
	struct snapshot_result r;
	struct err err = { 0 };
	snprintf(copy, sizeof(copy), "%s.copy", g->dir);
	snprintf(path, sizeof(path), "%s/" TRACKS_DIR "/00000000.trk", copy);
	if (store_snapshot(g->dir, copy, NULL, &r, &err))
		fail_msg("%s", err.text);
	assert_int_equal(r.windows, WINDOWS);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_sound(copy);
	model_check(&g->m, copy);
	remove_tree(copy);
}

/* A copy goes on without a file of tracks that has no header, or a damaged one. */
static void copied(void **state)
{
	const struct given *g = *state;
	flip(g->path, 3);
	copy_without_tracks(g);
	assert_int_equal(truncate(g->path, FILE_HEADER_SIZE - 1), 0);
	copy_without_tracks(g);
	assert_int_equal(truncate(g->path, 0), 0);
	copy_without_tracks(g);
}

/* A file of another name is nobody's: it is not looked at, and stays. */
static void other_files(void **state)
{
	const struct given *g = *state;
	static const char *const names[] = { "notes", "1.trk", "00000001.trk.old", "00000007.seg" };
	char path[120];
	struct err err = { 0 };
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/" TRACKS_DIR "/%s", g->dir, names[i]);
		close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
	assert_sound(g->dir);
	assert_int_equal(store_repair(g->dir, fail_finding, NULL, &err), 0);
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/" TRACKS_DIR "/%s", g->dir, names[i]);
		assert_int_equal(access(path, F_OK), 0);
	}
}

/* A fifth of a window has a fifth of its account, and fired = stored + lost. */
static void account_of_a_part(void **state)
{
	const struct given *g = *state;
	struct store *s = open_store(g->dir);
	struct store_cover c;
	struct store_totals *t;
	struct err err = { 0 };
	int64_t from = T0 + 2 * WINDOW + SECOND;
	assert_int_equal(
		store_cover_nearest(s, from, from + 2 * SECOND, STORE_FOLDED, NULL, 0, &c, &err),
		0);
	assert_int_equal(c.n, 1);
	assert_int_equal(store_block_totals(s, c.blocks[0], &t, &err), 0);
	/* Of window 2 in full: 100 and 1000 stored, 2 and 301 lost, 4 and 7 flagged */
	assert_int_equal(t->n_cpus, 2);
	assert_int_equal(t->cpu[0].stored, 20);
	assert_int_equal(t->cpu[0].lost[0], 0);
	assert_int_equal(t->cpu[0].fired, 20);
	assert_int_equal(t->cpu[0].flagged[0], 0);
	assert_int_equal(t->cpu[1].stored, 200);
	assert_int_equal(t->cpu[1].lost[0], 60);
	assert_int_equal(t->cpu[1].lost[1], 0);
	assert_int_equal(t->cpu[1].fired, 260);
	assert_int_equal(t->cpu[1].flagged[0], 1);
	assert_int_equal(t->outside, 0);
	assert_int_equal(t->own_cpu_ns, 2);
	store_totals_free(t);
	store_cover_free(&c);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sound, begin, teardown),
		cmocka_unit_test_setup_teardown(torn, begin, teardown),
		cmocka_unit_test_setup_teardown(damaged, begin, teardown),
		cmocka_unit_test_setup_teardown(damaged_header, begin, teardown),
		cmocka_unit_test_setup_teardown(copied, begin, teardown),
		cmocka_unit_test_setup_teardown(other_files, begin, teardown),
		cmocka_unit_test_setup_teardown(account_of_a_part, begin, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
