/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a store: which are begun again, refused, open at once; when those of tracks end. */
#include "unit/copied.h"

#include "store/instants.h"
#include "store/read/store_int.h"
#include "store/read/symbols.h"
#include "store/write/writer_int.h"
#include "store/writer.h"

#include <dirent.h>

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

static uint64_t size_of(const char *name)
{
	char path[140];
	struct stat st;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

/* A segment without a block takes other dictionaries: what the file had of others goes. */
static void begun_again(void **state)
{
	static const char name[] = "seg/10s-00000001.sym";
	struct store_options o = model_options;
	struct model m = { .random = 4 };
	struct segment *g, *again;
	struct dicts fresh;
	struct err err = { 0 };
	uint32_t id;
	(void)state;
	o.windows_only = true;
	struct store_writer *w = open_writer(&o);
	assert_int_equal(writer_need_segment(w, 0, T0, &g, &err), 0);
	assert_int_equal(size_of(name), 32);
	assert_int_equal(writer_need_segment(w, 0, T0, &again, &err), 0);
	assert_ptr_equal(g, again);
	struct store *s = open_store(dir);
	assert_int_equal(segment_load(s, &s->segments[0], &err), 0);
	assert_int_equal(s->segments[0].n_refs, 0);
	store_close(s);
	/* As a block leaves it that failed behind its dictionaries. */
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int file = openat(fd, name, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(file, "dictionaries", 12), 12);
	close(file);
	close(fd);
	w->out[0].saved[KIND_STRINGS].next = 7;
	assert_int_equal(dicts_init(&fresh, true), 0);
	assert_int_equal(strings_add(&fresh.strings, "other", 5, &id), 0);
	writer_replace_parent(w, 0, &fresh);
	assert_true(w->out[0].fresh);
	assert_null(g->live);
	assert_int_equal(writer_need_segment(w, 0, T0, &again, &err), 0);
	assert_ptr_equal(g, again);
	assert_ptr_equal(g->live, &w->out[0].d);
	assert_false(w->out[0].fresh);
	assert_int_equal(size_of(name), 32);
	assert_int_equal(w->out[0].saved[KIND_STRINGS].next, 1);
	assert_int_equal(w->out[0].saved[KIND_EVENTS].next, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(model_commit(&m, w, 9, &err), 0);
	store_writer_close(w);
	model_check(&m, dir);
	assert_sound(dir);
	model_fini(&m);
}

/* A bit of the frame at an offset. */
static void flip(const char *name, uint64_t at)
{
	char path[140];
	uint8_t byte;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 4;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
}

/* Where frames begin: their length is at byte 28 of a head of 40 (docs/format.md). */
static size_t list_frames(const char *name, uint64_t *at, size_t most)
{
	char path[140];
	uint8_t h[40];
	size_t n = 0;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	for (uint64_t next = 32; n < most && pread(fd, h, 40, (off_t)next) == 40; n++) {
		at[n] = next;
		next += 40 + h[28] + 256 * h[29] + 65536 * h[30];
	}
	close(fd);
	return n;
}

/* No crash explains damage within what was ended cleanly: nothing is appended, or cut. */
static void damage_is_refused(void **state)
{
	static const char *const names[] = { "seg/10s-00000001.seg", "seg/10s-00000001.sym" };
	struct store_options o = model_options;
	struct model m = { .random = 6 };
	struct store_writer *w;
	struct err err = { 0 };
	(void)state;
	o.windows_only = true;
	w = open_writer(&o);
	for (int i = 0; i < 4; i++)
		assert_int_equal(model_commit(&m, w, 9, &err), 0);
	store_writer_close(w);
	const uint64_t sizes[] = { size_of(names[0]), size_of(names[1]) };
	for (size_t i = 0; i < 2; i++) {
		uint64_t at[40];
		size_t n = list_frames(names[i], at, 40);
		assert_in_range(n, 4, 39);
		for (size_t k = 0; k < n; k++) {
			char says[100];
			snprintf(says, sizeof(says), "%s is damaged at offset %" PRIu64, names[i],
				 at[k]);
			flip(names[i], at[k] + 20);
			assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err),
					 -EBADMSG);
			if (!strstr(err.text, says))
				fail_msg("%s, not %s", err.text, says);
			flip(names[i], at[k] + 20);
		}
	}
	assert_int_equal(size_of(names[0]), sizes[0]);
	assert_int_equal(size_of(names[1]), sizes[1]);
	model_check(&m, dir);
	model_fini(&m);
}

/* A file that ended cleanly is shorter, or a sealed one has an index that is not one. */
static void other_damage(void **state)
{
	static const char open_one[] = "seg/10s-00000002.seg", sealed[] = "seg/10s-00000001.seg";
	struct store_options o = model_options;
	struct model m = { .random = 7 };
	struct store_writer *w;
	struct store *s;
	struct err err = { 0 };
	char path[140], says[100];
	(void)state;
	o.windows_only = true;
	o.symbols_bytes = 1;
	for (int i = 0; i < 2; i++) {
		w = open_writer(&o);
		assert_int_equal(model_commit(&m, w, 9, &err), 0);
		store_writer_close(w);
	}
	uint64_t at[40];
	const size_t n = list_frames(sealed, at, 40);
	flip(sealed, at[n - 1] + 20);
	s = open_store(dir);
	assert_int_equal(s->segments[0].m.serial, 1);
	assert_int_equal(segment_load(s, &s->segments[0], &err), -EBADMSG);
	snprintf(says, sizeof(says), "%s is damaged at offset %" PRIu64, sealed, at[n - 1]);
	if (!strstr(err.text, says))
		fail_msg("%s, not %s", err.text, says);
	store_close(s);
	flip(sealed, at[n - 1] + 20);
	const uint64_t size = size_of(open_one);
	snprintf(path, sizeof(path), "%s/%s", dir, open_one);
	assert_int_equal(truncate(path, 32), 0);
	assert_int_equal(store_open(&s, dir, &err), -EBADMSG);
	snprintf(says, sizeof(says), "%s is cut short at offset 32", open_one);
	if (!strstr(err.text, says))
		fail_msg("%s, not %s", err.text, says);
	assert_int_equal(truncate(path, 31), 0);
	assert_int_equal(store_open(&s, dir, &err), -EBADMSG);
	assert_true(size > 32);
	model_fini(&m);
}

/* ---- descriptors ---- */

static size_t dictionaries_of(const struct store *s)
{
	size_t sum = 0;
	for (size_t i = 0; i < s->n_segments; i++) {
		assert_non_null(s->segments[i].symbols); /* there is room for all */
		sum += dicts_bytes(&s->segments[i].symbols->d);
	}
	return sum;
}

/* What a reader says of its memory has the dictionaries of all files, of each store. */
static void check_dictionaries(const struct store *s)
{
	size_t least = dicts_bytes(&s->sym) + dictionaries_of(s);
	for (size_t i = 0; i < s->n_parts; i++)
		least += dictionaries_of(s->parts[i]);
	assert_in_range(store_dictionaries(s), least, 4 * least);
}

/* However many files a store has, 128 of them are open at once; of several stores together, too. */
static void descriptors(void **state)
{
	struct store_options o = model_options;
	struct model m = { .random = 8 };
	struct store *s;
	struct err err = { 0 };
	(void)state;
	o.windows_only = true;
	o.symbols_bytes = 1;
	const size_t first = count_descriptors();
	struct store_writer *w = open_writer(&o);
	const char *const dirs[] = { dir, dir, dir };
	for (int i = 0; i < 200; i++) {
		store_renew(w);
		store_renew_end(w);
		assert_int_equal(model_commit(&m, w, 2, &err), 0);
		/* Of the writer: the directory, the lock, names of the open file; and 128 */
		assert_in_range(count_descriptors() - first, 3, 132);
	}
	store_writer_close(w);
	assert_int_equal(count_descriptors(), first);
	for (size_t stores = 1; stores <= 3; stores++) {
		const size_t before = count_descriptors();
		struct store_cover c;
		size_t most = 0;
		assert_int_equal(store_open_all(&s, dirs, stores, &err), 0);
		assert_int_equal(
			store_cover(s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, &err),
			0);
		assert_int_equal(c.n, 200 * stores);
		for (size_t i = 0; i < c.n; i++) {
			struct read_back b = { .s = s };
			size_t n;
			assert_int_equal(store_block_rows(s, c.blocks[i], NULL, NULL, read_back_row,
							  &b, &err),
					 0);
			model_window_fini(&(struct model_window){ b.rows, b.n, 0, 0 });
			n = count_descriptors() - before;
			most = n > most ? n : most;
		}
		/* Beside them, of each store: its directory, the newest file of names. */
		assert_in_range(most, 120, 128 + 2 * stores);
		check_dictionaries(s);
		store_cover_free(&c);
		store_close(s);
		assert_int_equal(count_descriptors(), before);
	}
	model_fini(&m);
}

/* ---- age ---- */

#define AGED 8	/* windows before the damage, each in a file of its own */
#define MORE 10 /* behind it */
#define STEP (100 * SECOND)

static void commit_aged(struct store_writer *w, size_t i)
{
	const struct store_totals none = { 0 };
	const int64_t t0 = T0 + (int64_t)i * STEP;
	struct err err = { 0 };
	store_renew(w);
	store_renew_end(w);
	if (store_commit_window(w, t0, t0 + 10 * SECOND, (int64_t)(i + 1) * STEP, &none, &err))
		fail_msg("%s", err.text);
}

/* The windows whose files there are, by the file's number among those of its level. */
static void list_aged(const uint32_t *serials, size_t n, bool *there)
{
	struct store *s = open_store(dir);
	memset(there, 0, n * sizeof(*there));
	for (size_t i = 0; i < s->n_segments; i++)
		for (size_t k = 0; !s->segments[i].m.level && k < n; k++)
			there[k] |= s->segments[i].m.serial == serials[k];
	store_close(s);
}

/* The newest file of windows. */
static uint32_t newest_file(void)
{
	struct store *s = open_store(dir);
	uint32_t serial = 0;
	for (size_t i = 0; i < s->n_segments; i++)
		if (!s->segments[i].m.level)
			serial = s->segments[i].m.serial;
	store_close(s);
	return serial;
}

/* A file that cannot be read is no older than the next one of its level that can. */
static void unreadable_age(void **state)
{
	static const size_t damaged[] = { 0, 3, 4 };
	struct store_options o = model_options;
	uint32_t serials[AGED + MORE];
	bool bad[AGED + MORE] = { false }, there[AGED + MORE], gone[AGED + MORE] = { false };
	(void)state;
	o.symbols_bytes = 1;
	struct store_writer *w = open_writer(&o);
	for (size_t i = 0; i < AGED; i++) {
		commit_aged(w, i);
		serials[i] = newest_file();
		assert_true(!i || serials[i] > serials[i - 1]);
	}
	store_renew(w); /* all are complete when the next window comes */
	store_writer_close(w);
	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		char name[40];
		snprintf(name, sizeof(name), "seg/10s-%08u.seg", serials[damaged[i]]);
		flip(name, 3);
		bad[damaged[i]] = true;
	}
	o.keep_ns[0] = 350 * SECOND;
	w = open_writer(&o);
	for (size_t i = AGED; i < AGED + MORE; i++) {
		commit_aged(w, i);
		serials[i] = newest_file();
		for (size_t k = 0; k < i; k++) {
			size_t of = k;
			while (bad[of])
				of++;
			gone[k] |= (int64_t)(i - of) * STEP > 350 * SECOND;
		}
		list_aged(serials, i + 1, there);
		for (size_t k = 0; k <= i; k++)
			assert_int_equal(there[k], !gone[k]);
	}
	assert_true(gone[AGED] && !gone[AGED + MORE - 1]);
	store_writer_close(w);
}

/* Time counts while a host is up: a boot begins where the blocks of the one before end. */
static void boots(void **state)
{
	static const struct {
		uint8_t boot;
		int64_t up; /* seconds */
	} v[] = { { 1, 100 }, { 1, 300 }, { 1, 500 },  { 2, 50 },   { 2, 250 },
		  { 3, 10 },  { 3, 20 },  { 3, 900 },  { 3, 1000 }, { 4, 100 },
		  { 4, 200 }, { 4, 300 }, { 4, 3000 }, { 5, 100 } };
	enum { N = sizeof(v) / sizeof(v[0]) };
	struct store_options o = model_options;
	uint32_t serials[N];
	int64_t began = 0, at[N];
	bool there[N], gone[N] = { false };
	size_t n_gone = 0;
	(void)state;
	o.symbols_bytes = 1;
	o.keep_ns[0] = 500 * SECOND;
	struct store_writer *w = open_writer(&o);
	for (size_t i = 0; i < N; i++) {
		const struct store_totals none = { 0 };
		const int64_t t0 = T0 + (int64_t)i * STEP;
		struct err err = { 0 };
		if (i && v[i].boot != v[i - 1].boot) {
			store_writer_close(w);
			w = open_writer(&o);
			began += v[i - 1].up;
		}
		memset(w->boot_id, v[i].boot, sizeof(w->boot_id));
		store_renew(w);
		store_renew_end(w);
		at[i] = began + v[i].up;
		assert_int_equal(
			store_commit_window(w, t0, t0 + SECOND, v[i].up * SECOND, &none, &err), 0);
		serials[i] = newest_file();
		for (size_t k = 0; k < i; k++) {
			gone[k] |= at[i] - at[k] > 500;
			n_gone += k < i && i == N - 1 && gone[k];
		}
		list_aged(serials, i + 1, there);
		for (size_t k = 0; k <= i; k++)
			assert_int_equal(there[k], !gone[k]);
	}
	assert_in_range(n_gone, N / 2, N - 1);
	store_writer_close(w);
}

/* ---- files of tracks ---- */

static int commit_track(struct store_writer *w, size_t i, int64_t boot_ns)
{
	static char labels[] = "tenant=t1\n", stack[] = "f (/bin/demo) 0 0\n";
	struct model_row row = { labels, stack, 0, 1, 1 };
	struct store_row r = { .samples = 1 };
	const int64_t t0 = T0 + (int64_t)i * 10 * SECOND;
	const struct store_instant v = { t0 + SECOND, 0, 0, 0 };
	const struct store_instants given = { &r, 1, &v, 1, 0 };
	const struct store_totals none = { 0 };
	struct err err = { 0 };
	assert_int_equal(model_put_row(w, &row), 0);
	assert_int_equal(model_put_set(w, row.labels, &r.set), 0);
	assert_int_equal(model_put_stack(w, row.stack, &r.stack), 0);
	store_set_instants(w, &given);
	return store_commit_window(w, t0, t0 + 10 * SECOND, boot_ns, &none, &err);
}

static bool has_track_file(size_t window)
{
	char name[40];
	snprintf(name, sizeof(name), "trk/%08zu.trk", window);
	return size_of(name) > 0;
}

/*
 * A file takes a quarter of the time that tracks are kept, and goes when its newest track is older:
 * counted here for windows at any distance, the limits among them.
 */
static void track_files(void **state)
{
	static const int64_t steps[] = { 10, 10, 9,  10, 11, 1,	 9,  10, 40, 41, 10, 10,
					 10, 10, 10, 39, 1,  10, 80, 1,	 2,  3,	 4 };
	enum { N = sizeof(steps) / sizeof(steps[0]) };
	struct store_options o = model_options;
	int64_t now = 0, began = 0, newest[N] = { 0 };
	size_t file = SIZE_MAX;
	bool there[N] = { false };
	(void)state;
	o.windows_only = true;
	o.tracks_ns = 40 * SECOND;
	struct store_writer *w = open_writer(&o);
	for (size_t i = 0; i < N; i++) {
		uint64_t bytes = 0;
		now += steps[i] * SECOND;
		assert_int_equal(commit_track(w, i, now), 0);
		if (file == SIZE_MAX || now - began >= 10 * SECOND) {
			file = i;
			began = now;
			there[i] = true;
		}
		newest[file] = now;
		for (size_t k = 0; k < i; k++)
			there[k] &= k == file || now - newest[k] <= 40 * SECOND;
		for (size_t k = 0; k <= i; k++) {
			char name[40];
			snprintf(name, sizeof(name), "trk/%08zu.trk", k);
			assert_int_equal(has_track_file(k), there[k]);
			bytes += size_of(name);
		}
		assert_int_equal(store_writer_state(w)->tracks_bytes, bytes);
	}
	assert_int_equal(store_writer_state(w)->tracks_failed, 0);
	store_writer_close(w);
	/* A writer without tracks removes those that are there. */
	o.tracks_ns = 0;
	store_writer_close(open_writer(&o));
	for (size_t k = 0; k < N; k++)
		assert_false(has_track_file(k));
	assert_sound(dir);
}

/* Of a window that was never durable a file may be left: the one of its name takes its place. */
static void tracks_of_no_window(void **state)
{
	static const size_t left[] = { 2, 3, 7 };
	struct store_options o = model_options;
	char path[140];
	(void)state;
	o.windows_only = true;
	o.tracks_ns = INT64_MAX;
	struct store_writer *w = open_writer(&o);
	assert_int_equal(commit_track(w, 0, SECOND), 0);
	assert_int_equal(commit_track(w, 1, 2 * SECOND), 0);
	store_writer_close(w);
	const uint64_t size = size_of("trk/00000000.trk");
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/trk/%08zu.trk", dir, left[i]);
		FILE *f = fopen(path, "w");
		fputs("of a window that is not there", f);
		fclose(f);
	}
	w = open_writer(&o);
	assert_int_equal(commit_track(w, 2, 3 * SECOND), 0);
	assert_true(has_track_file(2));
	assert_false(has_track_file(3));
	assert_false(has_track_file(7));
	assert_int_equal(store_writer_state(w)->tracks_bytes, size + size_of("trk/00000002.trk"));
	store_writer_close(w);
	assert_sound(dir);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(begun_again),    TEST(damage_is_refused),
		TEST(other_damage),   TEST(descriptors),
		TEST(track_files),    TEST(tracks_of_no_window),
		TEST(unreadable_age), TEST(boots),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
