/* SPDX-License-Identifier: Apache-2.0 */
/* What a writer takes, refuses, removes and counts. */
#include "unit/copied.h"

#include "store/file/file.h"
#include "store/write/writer_int.h"
#include "store/writer.h"

static char dir[64];

static struct store_writer *open_writer(const struct store_options *o)
{
	struct store_writer *w;
	struct err err = { 0 };
	if (store_writer_open_with(&w, dir, &model_meta, o, &err))
		fail_msg("%s", err.text);
	return w;
}

static int begin(void **state)
{
	(void)state;
	temp_dir(dir);
	return 0;
}

static int end(void **state)
{
	(void)state;
	remove_tree(dir);
	return 0;
}

static void put_file(const char *name)
{
	char path[140];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static bool is_there(const char *name)
{
	char path[140];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !access(path, F_OK);
}

/* What a creation that was interrupted left is taken over. Any other file is somebody's. */
static void leftovers(void **state)
{
	static const char *const names[] = { "lock",	"HEADER.tmp",	   "HEADER.copy",
					     "reserve", "HEADER.copy.tmp", "MANIFEST.tmp",
					     "MANIFEST" };
	struct store_writer *w;
	struct err err = { 0 };
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char other[40];
		snprintf(other, sizeof(other), "%sx", names[i]);
		put_file(other);
		put_file(names[i]);
		assert_int_equal(store_writer_open(&w, dir, &model_meta, &err), -EEXIST);
		assert_non_null(strstr(err.text, other));
		assert_false(is_there("HEADER"));
		remove_tree(dir);
		assert_int_equal(mkdir(dir, 0700), 0);
		put_file(names[i]);
		w = open_writer(&model_options);
		assert_int_equal(model_commit_at(w, 0, &err), 0);
		store_writer_close(w);
		assert_sound(dir);
		remove_tree(dir);
		assert_int_equal(mkdir(dir, 0700), 0);
	}
}

/* Files that no manifest names, from a crash, go; those that it names stay. */
static void unnamed_files(void **state)
{
	static const char *const stay[] = { "seg/10s-00000001.seg", "seg/10s-00000002.seg",
					    "seg/10s-00000002.sym", "seg/.hidden" };
	static const char *const go[] = { "seg/10s-00000001.sym", "seg/10s-00000003.seg",
					  "seg/10s-00000003.sym", "seg/1m-00000001.seg",
					  "seg/10s-00000002.seg.tmp" };
	struct store_options o = model_options;
	struct model m = { .random = 3 };
	struct err err = { 0 };
	(void)state;
	o.windows_only = true;
	o.symbols_bytes = 1;
	for (int i = 0; i < 2; i++) {
		struct store_writer *w = open_writer(&o);
		assert_int_equal(model_commit(&m, w, 9, &err), 0);
		store_writer_close(w);
	}
	put_file("seg/.hidden");
	for (size_t i = 0; i < sizeof(go) / sizeof(go[0]); i++)
		put_file(go[i]);
	store_writer_close(open_writer(&o));
	for (size_t i = 0; i < sizeof(go) / sizeof(go[0]); i++)
		assert_false(is_there(go[i]));
	for (size_t i = 0; i < sizeof(stay) / sizeof(stay[0]); i++)
		assert_true(is_there(stay[i]));
	model_check(&m, dir);
	model_fini(&m);
}

/* ---- rows ---- */

static struct store_row row_of(struct store_writer *w, uint32_t stack)
{
	for (size_t i = 0; i < w->rows.n; i++)
		if (w->rows.v[i].stack == stack)
			return w->rows.v[i];
	return (struct store_row){ 0 };
}

static void check_row(struct store_writer *w, uint32_t stack, uint64_t samples, uint64_t value)
{
	assert_int_equal(row_of(w, stack).samples, samples);
	assert_int_equal(row_of(w, stack).value, value);
}

/* A part of a row goes to another stack; what cannot be is refused, and changes nothing. */
static void moved_rows(void **state)
{
	struct store_writer *w = open_writer(&model_options);
	struct store_frame f = { .offset = 1 };
	uint32_t event, frame, s[3];
	(void)state;
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	for (int i = 0; i < 3; i++, f.offset++) {
		assert_int_equal(store_add_frame(w, &f, &frame), 0);
		assert_int_equal(store_add_stack(w, 0, frame, &s[i]), 0);
	}
	assert_int_equal(store_add_row(w, 0, s[0], event, 0, 5), -EINVAL);
	assert_int_equal(store_add_row(w, 0, s[0], event, 10, 100), 0);
	assert_int_equal(store_add_row(w, 0, s[1], event, 1, 7), 0);
	assert_int_equal(store_move_row(w, 0, event, s[2], s[1], 1, 1), -ENOENT);
	assert_int_equal(store_move_row(w, 0, event + 1, s[0], s[1], 1, 1), -ENOENT);
	assert_int_equal(store_move_row(w, 0, event, s[0], s[1], 11, 100), -EINVAL);
	assert_int_equal(store_move_row(w, 0, event, s[0], s[1], 10, 101), -EINVAL);
	assert_int_equal(store_move_row(w, 0, event, s[0], s[1], 10, 99), -EINVAL);
	assert_int_equal(store_move_row(w, 0, event, s[0], s[2], 0, 1), -EINVAL);
	assert_int_equal(store_n_rows(w), 2);
	check_row(w, s[0], 10, 100);
	check_row(w, s[1], 1, 7);
	assert_int_equal(store_move_row(w, 0, event, s[0], s[1], 0, 1), 0);
	check_row(w, s[0], 10, 99);
	check_row(w, s[1], 1, 8);
	assert_int_equal(store_move_row(w, 0, event, s[0], s[1], 4, 99), 0);
	check_row(w, s[0], 6, 0);
	check_row(w, s[1], 5, 107);
	assert_int_equal(store_move_row(w, 0, event, s[0], s[2], 2, 0), 0);
	check_row(w, s[0], 4, 0);
	check_row(w, s[2], 2, 0);
	assert_int_equal(store_move_row(w, 0, event, s[0], s[2], 4, 0), 0);
	check_row(w, s[2], 6, 0);
	assert_int_equal(store_n_rows(w), 3);
	assert_int_equal(model_commit_at(w, 0, &(struct err){ 0 }), 0);
	store_writer_close(w);
	struct store *r = open_store(dir);
	assert_int_equal(store_window(r, 0, NULL)->n_rows, 2); /* one is empty */
	store_close(r);
}

static void label_limits(void **state)
{
	static char big[65536];
	const struct label ok[] = { { .key = big, .key_len = 65535, .str = "v", .str_len = 1 },
				    { .key = "k", .key_len = 1, .str = big, .str_len = 65535 },
				    { .key = "k",
				      .key_len = 1,
				      .type = LABEL_INT,
				      .str = big,
				      .str_len = 65536 } },
			   large[] = { { .key = big, .key_len = 65536, .str = "v", .str_len = 1 },
				       { .key = "k", .key_len = 1, .str = big, .str_len = 65536 } },
			   odd = { .key = "k", .key_len = 1, .type = LABEL_INT + 1, .str = "" };
	struct store_writer *w = open_writer(&model_options);
	uint32_t id;
	(void)state;
	memset(big, 'k', sizeof(big));
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(store_add_set(w, &ok[i], 1, &id), 0);
	for (size_t i = 0; i < 2; i++) {
		const struct label two[] = { ok[0], large[i] };
		assert_int_equal(store_add_set(w, two, 2, &id), -E2BIG);
	}
	assert_int_equal(store_add_set(w, &odd, 1, &id), -EINVAL);
	store_writer_close(w);
}

/* A window ends after it begins, and has at most 65,536 CPUs. */
static void window_limits(void **state)
{
	static struct store_cpu_totals cpu[65537];
	static uint64_t none[2];
	struct store_writer *w = open_writer(&model_options);
	struct store_totals t = { .cpu = cpu, .n_cpus = 65536 };
	struct err err = { 0 };
	(void)state;
	for (uint32_t i = 0; i < 65537; i++)
		cpu[i] = (struct store_cpu_totals){ i, 0, 0, none, none };
	assert_int_equal(store_commit_window(w, T0, T0, 1, &t, &err), -EINVAL);
	assert_int_equal(store_commit_window(w, T0 + 1, T0, 1, &t, &err), -EINVAL);
	assert_int_equal(store_commit_window(w, T0, T0 + 1, 1, &t, &err), 0);
	t.n_cpus = 65537;
	assert_int_equal(store_commit_window(w, T0 + 1, T0 + 2, 1, &t, &err), -EINVAL);
	store_writer_close(w);
	struct store *s = open_store(dir);
	assert_int_equal(store_n_windows(s), 1);
	store_close(s);
}

/* ---- clocks ---- */

static int commit_clocks(struct store_writer *w, int64_t boot_ns, int64_t difference)
{
	const struct store_totals none = { 0 };
	struct err err = { 0 };
	const int64_t t1 = T0 + difference + boot_ns;
	return store_commit_window(w, t1 - SECOND, t1, boot_ns, &none, &err);
}

/*
 * Realtime less the time since boot: where it moves by a second or more from one window to the next
 * it was set, and there is a new anchor. What it drifts adds up to none.
 */
static void anchors(void **state)
{
	static const int64_t moves[] = { 0,	 SECOND - 1,	SECOND - 1,	SECOND - 1,
					 SECOND, 1 - SECOND,	1 - SECOND,	-SECOND,
					 0,	 3600 * SECOND, -7200 * SECOND, 1 };
	struct store_options o = model_options;
	struct store_writer *w;
	int64_t difference = 0, want[20];
	uint32_t at[20], n = 0;
	char text[40] = "";
	(void)state;
	o.windows_only = true;
	w = open_writer(&o);
	const size_t windows = sizeof(moves) / sizeof(moves[0]);
	for (size_t i = 0; i < windows; i++) {
		difference += moves[i];
		if (!i || moves[i] >= SECOND || moves[i] <= -SECOND)
			want[n++] = T0 + difference;
		at[i] = n - 1;
		assert_int_equal(commit_clocks(w, (int64_t)(i + 1) * 10 * SECOND, difference), 0);
	}
	store_writer_close(w);
	struct store *s = open_store(dir);
	struct store_cover c;
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, NULL),
			 0);
	assert_int_equal(c.n, windows);
	for (size_t i = 0; i < c.n; i++)
		assert_int_equal(c.blocks[i]->anchor, at[c.blocks[i]->seq]);
	store_cover_free(&c);
	assert_null(store_anchor(s, n));
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	for (uint32_t i = 0; i < n; i++) {
		const struct store_anchor *a = store_anchor(s, i);
		char hex[40] = "";
		for (int k = 0; k < 16; k++)
			snprintf(hex + strlen(hex), sizeof(hex) - strlen(hex), "%s%02x",
				 k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", a->boot_id[k]);
		assert_int_equal(a->real_minus_boot_ns, want[i]);
		assert_memory_equal(hex, text, 36);
	}
	store_close(s);
}

/* A level is kept no shorter than the one below it. 0 is for ever. */
static void kept_levels(void **state)
{
	static const int64_t cases[][2][9] = {
		{ { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, { 1, 2, 3, 4, 5, 6, 7, 8, 9 } },
		{ { 5, 4, 5, 6, 3, 0, 9, 9, 8 }, { 5, 5, 5, 6, 6, 0, 0, 0, 0 } },
		{ { 0, 1, 2, 3, 4, 5, 6, 7, 8 }, { 0, 0, 0, 0, 0, 0, 0, 0, 0 } },
	};
	struct store_options o = model_options;
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(o.keep_ns, cases[i][0], sizeof(o.keep_ns));
		struct store_writer *w = open_writer(&o);
		assert_memory_equal(w->opt.keep_ns, cases[i][1], sizeof(o.keep_ns));
		store_writer_close(w);
	}
}

/* ---- counts ---- */

static uint64_t size_of(const char *name)
{
	char path[140];
	struct stat st;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(stat(path, &st), 0);
	return (uint64_t)st.st_size;
}

/*
 * All that was appended: what is in the files but for their headers; of a sealed segment the
 * dictionaries twice, for they were in the file beside it first.
 */
static void bytes_written(void **state)
{
	struct store_options o = model_options;
	struct model m = { .random = 12 };
	struct err err = { 0 };
	uint64_t want = 0;
	size_t sealed = 0;
	(void)state;
	o.symbols_bytes = 3000;
	struct store_writer *w = open_writer(&o);
	for (int i = 0; i < 60; i++) {
		store_renew(w);
		store_renew_end(w);
		assert_int_equal(model_commit(&m, w, 20, &err), 0);
	}
	assert_int_equal(store_compact(w, &err), 0);
	const struct store *s = &w->s;
	for (size_t i = 0; i < s->n_segments; i++) {
		const struct manifest_segment *g = &s->segments[i].m;
		char name[FILE_NAME_SIZE];
		file_name(name, (struct place){ KIND_BLOCKS, g->serial, g->level });
		want += size_of(name) - 32;
		if (g->state == SEGMENT_SEALED) {
			want += g->index_at - g->symbols_at;
			sealed++;
		} else {
			file_name(name, (struct place){ KIND_SYMBOLS, g->serial, g->level });
			want += size_of(name) - 32;
		}
	}
	assert_true(sealed > 3);
	assert_int_equal(store_writer_state(w)->bytes_written, want);
	assert_int_equal(store_writer_state(w)->windows, 60);
	assert_int_equal(store_writer_state(w)->parents_failed, 0);
	assert_int_equal(store_writer_state(w)->tracks_bytes, 0);
	store_writer_close(w);
	model_fini(&m);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(leftovers),     TEST(unnamed_files), TEST(moved_rows),  TEST(label_limits),
		TEST(window_limits), TEST(anchors),	  TEST(kept_levels), TEST(bytes_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
