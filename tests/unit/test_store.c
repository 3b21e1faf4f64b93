/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and reading back, and what a directory may be. */
#include "store/damage.h"
#include "store/writer.h"
#include "unit/store_model.h"

#include <malloc.h>

static struct store_writer *open_writer(const char *dir)
{
	struct store_writer *w = NULL;
	struct err err = { 0 };
	if (store_writer_open(&w, dir, &model_meta, &err))
		fail_msg("%s", err.text);
	return w;
}

static void round_trip(void **state)
{
	(void)state;
	char dir[64];
	struct model m = { .random = 1 };
	struct err err = { 0 };
	temp_dir(dir);
	for (int pass = 0; pass < 4; pass++) {
		struct store_writer *w = open_writer(dir);
		for (int i = 0; i < 15; i++)
			assert_int_equal(
				model_commit(&m, w, i == 3 ? 0 : model_random(&m, 300), &err), 0);
		/* An open window that is not committed leaves nothing. */
		struct model_window dropped = { 0 };
		model_fill(&m, w, &dropped, 50);
		model_window_fini(&dropped);
		store_writer_close(w);
		model_check(&m, dir);
	}
	model_fini(&m);
	remove_tree(dir);
}

static void meta_and_mode(void **state)
{
	(void)state;
	char base[64], dir[80];
	struct store *s;
	struct err err;
	struct stat st;
	snprintf(dir, sizeof(dir), "%s/new", temp_dir(base));
	store_writer_close(open_writer(dir));
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(store_open(&s, dir, &err), 0);
	const struct store_meta *m = store_meta(s);
	assert_string_equal(m->host, "host");
	assert_string_equal(m->os, "6.1 x86_64");
	assert_string_equal(m->what, model_meta.what);
	assert_int_equal(m->n_lost, 2);
	assert_string_equal(m->lost_names[1], "rows_full");
	assert_int_equal(m->n_flagged, 1);
	assert_string_equal(m->flagged_names[0], "idle");
	assert_int_equal(m->created_ns, 12345);
	assert_null(store_damage(s));
	assert_int_equal(store_n_windows(s), 0);
	store_close(s);
	remove_tree(base);
}

static void ids(void **state)
{
	(void)state;
	char dir[64];
	uint32_t a, b, c, id;
	struct label l[300];
	struct store_writer *w = open_writer(temp_dir(dir));
	char *big = calloc(1, 70000);
	assert_int_equal(store_add_string(w, "", 0, &a), 0);
	assert_int_equal(a, 0);
	assert_int_equal(store_add_string(w, "ab", 2, &a), 0);
	assert_int_equal(store_add_string(w, "ab\0", 3, &b), 0);
	assert_int_equal(store_add_string(w, "ab", 2, &c), 0);
	assert_int_equal(a, c);
	assert_int_not_equal(a, b);
	assert_int_equal(store_add_string(w, big, 65535, &c), 0);
	assert_int_equal(store_add_string(w, big, 65536, &c), -E2BIG);
	assert_int_equal(store_add_frame(w, &(struct store_frame){ .function = 99 }, &id), -EINVAL);
	assert_int_equal(store_add_frame(w, &(struct store_frame){ .function = a }, &id), 0);
	assert_int_equal(id, 1);
	assert_int_equal(store_add_stack(w, 1, 1, &id), -EINVAL);
	assert_int_equal(store_add_stack(w, 0, 2, &id), -EINVAL);
	assert_int_equal(store_add_stack(w, 0, 0, &id), -EINVAL);
	assert_int_equal(store_add_stack(w, 0, 1, &id), 0);
	assert_int_equal(id, 1);
	assert_int_equal(store_add_row(w, 0, 1, 0, 1, 1), -EINVAL);
	assert_int_equal(store_add_event(w, &model_events[0], &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(store_add_row(w, 1, 1, 0, 1, 1), -EINVAL);
	assert_int_equal(store_add_row(w, 0, 2, 0, 1, 1), -EINVAL);
	assert_int_equal(store_add_row(w, 0, 1, 0, 1, 1), 0);
	for (int i = 0; i < 300; i++)
		l[i] = (struct label){
			.key = big + i, .key_len = (uint32_t)i + 1, .type = LABEL_INT, .num = i
		};
	assert_int_equal(store_add_set(w, l, 300, &id), -E2BIG);
	assert_int_equal(store_add_set(w, l, 256, &id), 0);
	assert_int_equal(id, 1);
	store_writer_close(w);
	free(big);
	remove_tree(dir);
}

static void count_finding(void *ctx, const struct store_finding *f)
{
	(void)f;
	++*(int *)ctx;
}

static int verify_findings(const char *dir)
{
	struct err err = { 0 };
	int n = 0;
	assert_int_equal(store_verify(dir, count_finding, &n, &err), 0);
	return n;
}

static int add_samples(void *ctx, const struct store_row *row)
{
	*(uint64_t *)ctx += row->samples;
	return 0;
}

struct chains {
	const struct store *s;
	bool seen[2001];
};

/* Each row is a stack of one frame, whose function is so many x. */
static int see_chain(void *ctx, const struct store_row *row)
{
	struct chains *c = ctx;
	uint32_t parent, frame;
	size_t len;
	store_stack(c->s, row->stack, &parent, &frame);
	const char *name = store_string(c->s, store_frame(c->s, frame)->function, &len);
	assert_int_equal(len, row->samples);
	assert_int_equal(strspn(name, "x"), len);
	assert_int_equal(name[len], 0);
	assert_false(c->seen[len]);
	c->seen[len] = true;
	return 0;
}

/* Names that grow by one byte make the longest chains; all come back, whatever the depth. */
static void prefix_chains(void **state)
{
	(void)state;
	char dir[64], s[2001];
	struct err err = { 0 };
	struct chains c = { 0 };
	struct store *r;
	uint32_t frame, stack, event;
	struct store_writer *w = open_writer(temp_dir(dir));
	memset(s, 'x', sizeof(s));
	for (uint32_t i = 1; i <= 2000; i++) {
		struct store_frame f = { 0 };
		assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
		assert_int_equal(store_add_string(w, s, i, &f.function), 0);
		assert_int_equal(f.function, i);
		assert_int_equal(store_add_frame(w, &f, &frame), 0);
		assert_int_equal(store_add_stack(w, 0, frame, &stack), 0);
		assert_int_equal(store_add_row(w, 0, stack, event, i, i), 0);
		if (i % 500 == 0)
			assert_int_equal(model_commit_at(w, i, &err), 0);
	}
	store_writer_close(w);
	assert_int_equal(store_open(&r, dir, &err), 0);
	c.s = r;
	for (size_t i = 0; i < store_n_windows(r); i++)
		assert_int_equal(store_rows(r, i, see_chain, &c, &err), 0);
	for (size_t i = 1; i <= 2000; i++)
		assert_true(c.seen[i]);
	store_close(r);
	remove_tree(dir);
}

/* Labels are what other programs write: a key may have any bytes, and many values. */
static void key_with_nul(void **state)
{
	(void)state;
	char dir[64];
	struct err err = { 0 };
	struct store *r;
	struct store_cover c;
	struct store_writer *w = open_writer(temp_dir(dir));
	uint64_t samples = 0;
	for (uint32_t i = 0; i < 40 * 20; i++) {
		char value[20];
		uint32_t set, event;
		snprintf(value, sizeof(value), "v%u", i);
		const struct label l = { .key = "k\0y",
					 .key_len = 3,
					 .str = value,
					 .str_len = (uint32_t)strlen(value) };
		assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
		assert_int_equal(store_add_set(w, &l, 1, &set), 0);
		assert_int_equal(store_add_row(w, set, 0, event, 1, 1), 0);
		if (i % 20 == 19)
			assert_int_equal(model_commit_at(w, i / 20, &err), 0);
	}
	assert_int_equal(store_compact(w, &err), 0);
	store_writer_close(w);
	assert_int_equal(verify_findings(dir), 0);
	assert_int_equal(store_open(&r, dir, &err), 0);
	assert_int_equal(store_cover(r, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, &err),
			 0);
	for (size_t i = 0; i < c.n; i++)
		assert_int_equal(
			store_block_rows(r, c.blocks[i], NULL, NULL, add_samples, &samples, &err),
			0);
	assert_int_equal(samples, 40 * 20);
	store_cover_free(&c);
	store_close(r);
	remove_tree(dir);
}

static void put_file(const char *dir, const char *name, const char *text)
{
	char path[160];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void refuses_other_things(void **state)
{
	(void)state;
	char dir[64], path[100];
	struct err err = { 0 };
	struct store_writer *w;
	struct store *s;
	struct stat st;
	temp_dir(dir);
	put_file(dir, "precious", "text");
	snprintf(path, sizeof(path), "%s/precious", dir);
	assert_int_equal(store_writer_open(&w, dir, &model_meta, &err), -EEXIST);
	assert_non_null(strstr(err.text, "precious"));
	snprintf(path, sizeof(path), "%s/lock", dir);
	assert_int_not_equal(stat(path, &st), 0);
	snprintf(path, sizeof(path), "%s/precious", dir);
	assert_int_equal(store_writer_open(&w, path, &model_meta, &err), -ENOTDIR);
	assert_int_equal(store_open(&s, path, &err), -ENOTDIR);
	assert_int_equal(store_open(&s, dir, &err), -EINVAL);
	assert_non_null(strstr(err.text, "not a store"));
	snprintf(path, sizeof(path), "%s/a/b", dir);
	assert_int_equal(store_writer_open(&w, path, &model_meta, &err), -ENOENT);
	assert_int_equal(store_open(&s, path, &err), -ENOENT);
	remove_tree(dir);
}

static void one_writer(void **state)
{
	(void)state;
	char dir[64];
	struct err err = { 0 };
	struct store_writer *a = open_writer(temp_dir(dir)), *b;
	assert_int_equal(store_writer_open(&b, dir, &model_meta, &err), -EBUSY);
	store_writer_close(a);
	store_writer_close(open_writer(dir));
	remove_tree(dir);
}

static uint32_t crc_by_bits(const uint8_t *p, size_t len)
{
	uint32_t crc = ~0u;
	for (size_t i = 0; i < len * 8; i++)
		crc = (crc ^ p[i / 8] >> i % 8) & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
	return ~crc;
}

static void put32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

/*
 * Byte 8 of the header is the version, byte 28 its checksum: both are written anew, by an
 * implementation of CRC-32C that is not the store's.
 */
static void put_version(const char *dir, unsigned char version, bool sum)
{
	char path[100];
	unsigned char h[32];
	snprintf(path, sizeof(path), "%s/HEADER", dir);
	int fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, h, 32, 0), 32);
	h[8] = version;
	if (sum)
		put32(h + 28, crc_by_bits(h, 28));
	assert_int_equal(pwrite(fd, h, 32, 0), 32);
	close(fd);
}

static void other_versions(void **state)
{
	(void)state;
	static const struct {
		unsigned char version;
		const char *says;
	} cases[] = { { 1, "older" }, { 4, "newer" }, { 255, "newer" } };
	char dir[64];
	struct err err = { 0 };
	struct store *s;
	struct store_writer *w;
	store_writer_close(open_writer(temp_dir(dir)));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put_version(dir, cases[i].version, false);
		assert_int_equal(store_open(&s, dir, &err), -EBADMSG);
		put_version(dir, cases[i].version, true);
		assert_int_equal(store_open(&s, dir, &err), -EPROTONOSUPPORT);
		assert_non_null(strstr(err.text, cases[i].says));
		assert_int_equal(store_writer_open(&w, dir, &model_meta, &err), -EPROTONOSUPPORT);
		put_version(dir, 3, true);
		assert_int_equal(store_open(&s, dir, &err), 0);
		store_close(s);
	}
	remove_tree(dir);
}

static void counters_may_grow(void **state)
{
	(void)state;
	static const char *const more[] = { "not_run", "rows_full", "third" }, *const other[] = {
		"other"
	};
	char dir[64];
	struct err err = { 0 };
	struct model m = { .random = 5 };
	struct store_meta meta = model_meta;
	struct store_writer *w = open_writer(temp_dir(dir));
	struct store *s;
	assert_int_equal(model_commit(&m, w, 9, &err), 0);
	store_writer_close(w);
	meta.lost_names = other;
	meta.n_lost = 1;
	assert_int_equal(store_writer_open(&w, dir, &meta, &err), -EINVAL);
	meta.lost_names = more;
	meta.n_lost = 3;
	assert_int_equal(store_writer_open(&w, dir, &meta, &err), 0);
	uint64_t lost[3] = { 1, 2, 3 }, flagged[1] = { 4 };
	struct store_cpu_totals cpu = { 0, 7, 1, lost, flagged };
	struct store_totals t = { &cpu, 1, 0, 0, 0 };
	int64_t t0 = m.w[0].t1;
	assert_int_equal(store_commit_window(w, t0, t0 + 1, 0, &t, &err), 0);
	store_writer_close(w);
	/* An older program goes on with fewer counters. */
	w = open_writer(dir);
	assert_int_equal(model_commit_at(w, 2, &err), 0);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(store_meta(s)->n_lost, 3);
	assert_string_equal(store_meta(s)->lost_names[2], "third");
	assert_int_equal(store_window(s, 0, NULL)->totals.cpu[1].lost[2], 0);
	assert_int_equal(store_window(s, 1, NULL)->totals.cpu[0].lost[2], 3);
	assert_int_equal(store_window(s, 1, NULL)->totals.cpu[0].flagged[0], 4);
	assert_int_equal(store_window(s, 2, NULL)->totals.cpu[1].lost[0], 300);
	assert_int_equal(store_window(s, 2, NULL)->totals.cpu[1].flagged[0], 7);
	store_close(s);
	model_fini(&m);
	remove_tree(dir);
}

/* A reader that opened before keeps its view; one that opens sees what is committed. */
static void reader_beside_writer(void **state)
{
	(void)state;
	char dir[64];
	struct err err = { 0 };
	struct model m = { .random = 6 };
	struct store *early;
	struct store_writer *w = open_writer(temp_dir(dir));
	assert_int_equal(model_commit(&m, w, 40, &err), 0);
	assert_int_equal(store_open(&early, dir, &err), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(model_commit(&m, w, 40, &err), 0);
		model_check(&m, dir);
	}
	assert_int_equal(store_n_windows(early), 1);
	assert_int_equal(model_differs(&m, early, 0), 0);
	store_close(early);
	store_writer_close(w);
	model_fini(&m);
	remove_tree(dir);
}

/* A store whose directory was moved, replaced or emptied is no longer there for its writer. */
static void moved_away(void **state)
{
	struct store_writer *w;
	struct err err = { 0 };
	char dir[64], store[80], other[80], header[100];
	(void)state;
	temp_dir(dir);
	snprintf(store, sizeof(store), "%s/a", dir);
	snprintf(other, sizeof(other), "%s/b", dir);
	snprintf(header, sizeof(header), "%s/HEADER", store);
	assert_int_equal(store_writer_open(&w, store, &model_meta, &err), 0);
	assert_true(store_writer_is_there(w));
	assert_int_equal(rename(store, other), 0);
	assert_false(store_writer_is_there(w));
	assert_int_equal(mkdir(store, 0700), 0);
	assert_false(store_writer_is_there(w));
	assert_int_equal(rmdir(store), 0);
	assert_int_equal(rename(other, store), 0);
	assert_true(store_writer_is_there(w));
	assert_int_equal(unlink(header), 0);
	assert_false(store_writer_is_there(w));
	store_writer_close(w);
	remove_tree(dir);
}

/* How long each level is kept, and how much memory a writer has, where nobody says otherwise. */
static void defaults(void **state)
{
	static const int64_t days[9] = { 7, 30, 60, 90, 180, 400, 800, 0, 0 };
	struct store_options o;
	(void)state;
	memset(&o, 0xff, sizeof(o));
	store_options_default(&o);
	for (int i = 0; i < 9; i++)
		assert_int_equal(o.keep_ns[i], days[i] * 86400 * 1000000000);
	assert_int_equal(o.grace_ns, 20000000000);
	assert_int_equal(o.wide_sets, 4096);
	assert_int_equal(o.symbols_bytes, 16777216);
	assert_int_equal(o.symbols_memory, 25165824);
	assert_int_equal(o.tracks_ns, 0);
	assert_int_equal(o.max_bytes, 0);
}

/* A writer with more counters of one kind and fewer of the other: the store keeps all names. */
static void longer_and_shorter_lists(void **state)
{
	static const char *const names[] = { "a", "b", "c" };
	static const size_t lists[][2] = { { 2, 2 }, { 3, 1 }, { 1, 3 }, { 1, 1 }, { 3, 3 } };
	char dir[64];
	(void)state;
	temp_dir(dir);
	for (size_t i = 0, lost = 0, flagged = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct store_meta m = model_meta;
		struct store_writer *w;
		struct err err = { 0 };
		m.lost_names = m.flagged_names = names;
		m.n_lost = lists[i][0];
		m.n_flagged = lists[i][1];
		lost = m.n_lost > lost ? m.n_lost : lost;
		flagged = m.n_flagged > flagged ? m.n_flagged : flagged;
		if (store_writer_open(&w, dir, &m, &err))
			fail_msg("%s", err.text);
		store_writer_close(w);
		struct store *s = open_store(dir);
		assert_int_equal(store_meta(s)->n_lost, lost);
		assert_int_equal(store_meta(s)->n_flagged, flagged);
		assert_string_equal(store_meta(s)->lost_names[lost - 1], names[lost - 1]);
		assert_string_equal(store_meta(s)->flagged_names[flagged - 1], names[flagged - 1]);
		store_close(s);
	}
	remove_tree(dir);
}

/* Ids that were not given mean nothing, from the first of them on. */
static void ids_out_of_range(void **state)
{
	struct fixture *f = fixture_of(77, 3, 30);
	const struct store *s = f->s;
	(void)state;
	fixture_read_rows(f);
	const uint32_t n[] = { store_n_strings(s), store_n_frames(s), store_n_stacks(s),
			       store_n_sets(s), store_n_events(s) };
	for (uint32_t far = 0; far < 2; far++) {
		const struct label *labels;
		uint32_t parent = 7, frame = 7;
		size_t len = 7;
		assert_string_equal(store_string(s, far ? UINT32_MAX : n[0], &len), "");
		assert_int_equal(len, 0);
		assert_null(store_frame(s, far ? UINT32_MAX : n[1]));
		store_stack(s, far ? UINT32_MAX : n[2], &parent, &frame);
		assert_int_equal(parent, 0);
		assert_int_equal(frame, 0);
		assert_int_equal(store_set(s, far ? UINT32_MAX : n[3], &labels), 0);
		assert_null(store_event(s, far ? UINT32_MAX : n[4]));
	}
	assert_non_null(store_frame(s, n[1] - 1));
	assert_non_null(store_event(s, n[4] - 1));
	for (uint32_t i = 1; i < n[2]; i++) {
		uint32_t parent, frame;
		store_stack(s, i, &parent, &frame);
		assert_true(parent < i && frame && frame < n[1]);
	}
	void *given = f;
	fixture_teardown(&given);
}

int main(void)
{
	mallopt(M_PERTURB, 0x5a); /* what is not written is not 0 */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(longer_and_shorter_lists),
		cmocka_unit_test(round_trip),
		cmocka_unit_test(meta_and_mode),
		cmocka_unit_test(ids),
		cmocka_unit_test(prefix_chains),
		cmocka_unit_test(key_with_nul),
		cmocka_unit_test(refuses_other_things),
		cmocka_unit_test(one_writer),
		cmocka_unit_test(other_versions),
		cmocka_unit_test(counters_may_grow),
		cmocka_unit_test(reader_beside_writer),
		cmocka_unit_test(moved_away),
		cmocka_unit_test(defaults),
		cmocka_unit_test(ids_out_of_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
