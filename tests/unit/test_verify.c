/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every frame of a store is damaged once. What verify must say, and which windows repair must keep,
 * follows from the frames alone: they are read here by docs/format.md.
 */
#include "unit/copied.h"

#define WINDOWS 9
#define FRAME 40
#define FIRST 32 /* offset of a file's first frame */
#define MOST 40	 /* findings of one change */

struct piece {
	char name[40];
	uint64_t at, len;
	uint8_t kind;
	uint64_t mark; /* of a block: dictionaries that it needs, in bytes */
	size_t window; /* of a block */
};

struct told {
	enum store_finding_kind kind;
	char path[120], text[200];
	uint64_t offset;
};

static struct piece pieces[200];
static size_t n_pieces;
static struct told got[MOST], want[MOST];
static size_t n_got, n_want;
static char clean[80], torn[80], copy[80];
static struct model m = { .random = 71 };

/* ---- frames ---- */

static uint64_t number(const uint8_t *p, int n)
{
	uint64_t v = 0;
	while (n--)
		v = v << 8 | p[n];
	return v;
}

static void read_at(int fd, uint64_t at, void *out, size_t n)
{
	assert_int_equal(pread(fd, out, n, (off_t)at), n);
}

/* Valid until the next call. */
static const char *path_of(const char *dir, const char *name)
{
	static char path[140];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static uint64_t size_of(const char *dir, const char *name)
{
	struct stat st;
	return stat(path_of(dir, name), &st) ? 0 : (uint64_t)st.st_size;
}

static void list_frames(const char *dir, const char *name)
{
	uint8_t h[FRAME], b[40];
	int fd = open(path_of(dir, name), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	for (uint64_t at = FIRST, size = size_of(dir, name); at < size;) {
		struct piece *p = &pieces[n_pieces++];
		read_at(fd, at, h, sizeof(h));
		assert_memory_equal(h, "ASFR", 4);
		*p = (struct piece){ .at = at, .len = FRAME + number(h + 28, 4), .kind = h[4] };
		snprintf(p->name, sizeof(p->name), "%s", name);
		if (p->kind == 7) {
			read_at(fd, at + FRAME, b, sizeof(b));
			p->window = (size_t)(((int64_t)number(b, 8) - T0) / (10 * SECOND));
			p->mark = number(b + 32, 8);
		}
		at += p->len;
	}
	close(fd);
}

static void list_all(const char *dir)
{
	n_pieces = 0;
	for (unsigned i = 1; i <= 3; i++) {
		char name[40];
		snprintf(name, sizeof(name), "seg/10s-%08u.seg", i);
		list_frames(dir, name);
		snprintf(name, sizeof(name), "seg/10s-%08u.sym", i);
		list_frames(dir, name);
	}
}

/* "seg/10s-00000001" of both files of a segment. */
static bool same_segment(const struct piece *a, const struct piece *b)
{
	return !strncmp(a->name, b->name, strlen("seg/10s-00000001"));
}

static bool is_dictionary(const struct piece *p)
{
	return p->kind < 7;
}

/* Where the dictionaries of a piece's segment begin. */
static uint64_t dictionaries_at(const struct piece *p)
{
	for (size_t i = 0; i < n_pieces; i++)
		if (same_segment(&pieces[i], p) && is_dictionary(&pieces[i]))
			return pieces[i].at;
	return 0;
}

/* Is a window lost where this frame is? */
static bool needs(const struct piece *block, const struct piece *lost)
{
	if (block == lost)
		return true;
	return same_segment(block, lost) && is_dictionary(lost) &&
	       block->mark > lost->at - dictionaries_at(lost);
}

/* ---- findings ---- */

static void tell(void *ctx, const struct store_finding *f)
{
	(void)ctx;
	assert_true(n_got < MOST);
	struct told *t = &got[n_got++];
	*t = (struct told){ .kind = f->kind, .offset = f->offset };
	snprintf(t->path, sizeof(t->path), "%s", f->path);
	snprintf(t->text, sizeof(t->text), "%s", f->text);
}

static void expect(enum store_finding_kind kind, const char *dir, const char *name, uint64_t offset,
		   const char *fmt, ...)
{
	struct told *t = &want[n_want++];
	va_list ap;
	*t = (struct told){ .kind = kind, .offset = offset };
	snprintf(t->path, sizeof(t->path), "%s/%s", dir, name);
	va_start(ap, fmt);
	vsnprintf(t->text, sizeof(t->text), fmt, ap);
	va_end(ap);
}

/* A text that is wanted may go on. */
static void compare(const char *what)
{
	for (size_t i = 0; i < n_want && i < n_got; i++) {
		const struct told *w = &want[i], *g = &got[i];
		if (w->kind != g->kind || strcmp(w->path, g->path) || w->offset != g->offset ||
		    strncmp(w->text, g->text, strlen(w->text)))
			fail_msg("%s: %d %s at %" PRIu64 ": %s; not %d %s at %" PRIu64 ": %s", what,
				 g->kind, g->path, g->offset, g->text, w->kind, w->path, w->offset,
				 w->text);
	}
	if (n_want != n_got)
		fail_msg("%s: %zu findings, not %zu; the first %s", what, n_got, n_want,
			 n_got ? got[0].text : "none");
}

static void verify_says(const char *dir, const char *what)
{
	struct err err = { 0 };
	n_got = 0;
	if (store_verify(dir, tell, NULL, &err))
		fail_msg("%s: %s", what, err.text);
	compare(what);
}

/* The windows with kept[i] are there, whole, and no other. A writer goes on. */
static void check_kept(const char *dir, const bool *kept)
{
	struct store *s = open_store(dir);
	struct store_writer *w;
	struct model left = { .n = 0 };
	struct err err = { 0 };
	assert_null(store_damage(s));
	for (size_t i = 0; i < WINDOWS; i++)
		if (kept[i])
			left.w[left.n++] = m.w[i];
	assert_int_equal(store_n_windows(s), left.n);
	for (size_t i = 0, at = 0; i < WINDOWS; i++) {
		if (!kept[i])
			continue;
		const struct store_window *got_window = store_window(s, at, &err);
		struct read_back b = { .s = s };
		assert_non_null(got_window);
		assert_int_equal(got_window->t0_ns, m.w[i].t0);
		assert_true(same_counters(got_window, i));
		assert_int_equal(store_rows(s, at++, read_back_row, &b, &err), 0);
		model_sort(b.rows, b.n);
		assert_int_equal(b.n, m.w[i].n);
		for (size_t k = 0; k < b.n; k++)
			assert_int_equal(model_row_cmp(&b.rows[k], &m.w[i].rows[k]), 0);
		model_window_fini(&(struct model_window){ b.rows, b.n, 0, 0 });
	}
	store_close(s);
	if (store_writer_open(&w, dir, &model_meta, &err))
		fail_msg("%s", err.text);
	assert_int_equal(model_commit_at(w, WINDOWS, &err), 0);
	store_writer_close(w);
	assert_sound(dir);
	s = open_store(dir);
	assert_int_equal(store_n_windows(s), left.n + 1);
	store_close(s);
}

/* Nothing is expected of it yet. */
static void make_copy(const char *from)
{
	char command[300];
	snprintf(command, sizeof(command), "rm -rf %s && cp -a %s %s", copy, from, copy);
	assert_int_equal(system(command), 0);
	n_want = 0;
}

/* Flip a bit of the copy. */
static void flip(const char *name, uint64_t at)
{
	uint8_t byte;
	int fd = open(path_of(copy, name), O_RDWR | O_CLOEXEC);
	read_at(fd, at, &byte, 1);
	byte ^= 16;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
}

static void cut_to(const char *name, uint64_t size)
{
	assert_int_equal(truncate(path_of(copy, name), (off_t)size), 0);
}

static void unlink_one(const char *name)
{
	assert_int_equal(unlink(path_of(copy, name)), 0);
}

static void repair_says(const bool *kept, const char *what)
{
	struct err err = { 0 };
	n_got = 0;
	if (store_repair(copy, tell, NULL, &err))
		fail_msg("%s: %s", what, err.text);
	compare(what);
	n_want = 0;
	verify_says(copy, what);
	check_kept(copy, kept);
}

/* ---- the tests ---- */

static bool is_sealed(const struct piece *p)
{
	for (size_t i = 0; i < n_pieces; i++)
		if (same_segment(&pieces[i], p) && pieces[i].kind == 8)
			return true;
	return false;
}

static bool is_last(const struct piece *p)
{
	return p == &pieces[n_pieces - 1] || strcmp(p->name, p[1].name);
}

/* What is said of one frame that is not whole; *ret_kept, of so many, are those of its segment. */
static void expect_of(const struct piece *p, bool ended, bool *kept)
{
	const bool sealed = is_sealed(p), beside = is_dictionary(p) && !sealed;
	const bool is_torn = !ended && !sealed && p->kind == 7 && is_last(p);
	bool needed = false;
	size_t n = 0, left = 0;
	n_want = 0;
	for (size_t i = 0; i < n_pieces; i++) {
		const struct piece *b = &pieces[i];
		if (b->kind != 7)
			continue;
		kept[b->window] = !needs(b, p);
		if (!same_segment(b, p))
			continue;
		n++;
		left += kept[b->window];
		needed |= !kept[b->window];
	}
	if (is_torn)
		expect(STORE_TORN, copy, p->name, p->at,
		       "the last block is incomplete, %" PRIu64 " bytes", p->len);
	else if (!beside)
		expect(STORE_DAMAGED, copy, p->name, p->at, "no whole block, %" PRIu64 " bytes",
		       p->len);
	if (is_dictionary(p))
		expect(needed || sealed ? STORE_DAMAGED : STORE_TORN, copy, p->name, p->at,
		       beside ? "no whole frame from here on" : "the dictionaries are damaged");
	for (size_t i = 0; is_dictionary(p) && i < n_pieces; i++)
		if (pieces[i].kind == 7 && needs(&pieces[i], p))
			expect(STORE_DAMAGED, copy, pieces[i].name, pieces[i].at,
			       "%s/%s is damaged or cut short at offset %" PRIu64, copy, p->name,
			       p->at);
	if (!is_torn && sealed)
		expect(STORE_CUT, copy, p->name, 0, "%zu blocks are kept of %zu", left, n);
	else if (!is_torn) {
		char name[40];
		snprintf(name, sizeof(name), "%.16s.seg", p->name);
		expect(STORE_CUT, copy, name, 0, "%zu blocks are kept", left);
	}
}

static void each_frame(const char *dir, bool ended)
{
	size_t lost = 0;
	list_all(dir);
	assert_in_range(n_pieces, 2 * WINDOWS, 199);
	for (size_t i = 0; i < n_pieces; i++) {
		const struct piece *p = &pieces[i];
		bool kept[WINDOWS] = { false };
		char what[100];
		snprintf(what, sizeof(what), "%.39s, frame of kind %u at %" PRIu64, p->name,
			 p->kind, p->at);
		make_copy(dir);
		/* The magic, a field of the head, the end of what follows. */
		flip(p->name, i % 3 == 0 ? p->at : i % 3 == 1 ? p->at + 17 : p->at + p->len - 1);
		expect_of(p, ended, kept);
		size_t all = n_want;
		n_want -= want[n_want - 1].kind == STORE_CUT;
		verify_says(copy, what);
		n_want = all;
		repair_says(kept, what);
		for (size_t k = 0; k < WINDOWS; k++)
			lost += !kept[k];
	}
	assert_true(lost > WINDOWS);
}

static void after_a_clean_end(void **state)
{
	(void)state;
	each_frame(clean, true);
}

/* As a crash leaves it: the end of what was written last is torn, and no damage. */
static void while_it_is_written(void **state)
{
	(void)state;
	each_frame(torn, false);
}

static const bool all_kept[WINDOWS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };

/* The last frame of a segment's file, which must be sealed or not. */
static const struct piece *last_of(bool sealed)
{
	for (size_t i = 0; i < n_pieces; i++)
		if (is_sealed(&pieces[i]) == sealed && is_last(&pieces[i]) &&
		    strstr(pieces[i].name, ".seg"))
			return &pieces[i];
	fail_msg("none");
	return NULL;
}

/* A sealed file that ends early: at a frame, within one, within its header, or is not there. */
static void short_files(void **state)
{
	bool kept[WINDOWS];
	(void)state;
	list_all(clean);
	const struct piece *p = last_of(true);
	size_t n = 0;
	for (size_t i = 0; i < n_pieces; i++) {
		if (pieces[i].kind != 7)
			continue;
		kept[pieces[i].window] = !same_segment(&pieces[i], p);
		n += same_segment(&pieces[i], p);
	}
	make_copy(clean);
	cut_to(p->name, p->at);
	expect(STORE_DAMAGED, copy, p->name, p->at, "the index is missing or wrong");
	verify_says(copy, "without index");
	expect(STORE_CUT, copy, p->name, 0, "%zu blocks are kept of %zu", n, n);
	repair_says(all_kept, "without index");
	make_copy(clean);
	cut_to(p->name, p->at + 7);
	expect(STORE_DAMAGED, copy, p->name, p->at, "no whole block, 7 bytes");
	verify_says(copy, "a part of the index");
	expect(STORE_CUT, copy, p->name, 0, "%zu blocks are kept of %zu", n, n);
	repair_says(all_kept, "a part of the index");
	make_copy(clean);
	cut_to(p->name, FIRST - 1);
	expect(STORE_DAMAGED, copy, p->name, 0, "%s/%s is cut short at 31 bytes", copy, p->name);
	verify_says(copy, "a part of the header");
	repair_says(kept, "a part of the header");
	make_copy(clean);
	unlink_one(p->name);
	expect(STORE_DAMAGED, copy, p->name, 0, "cannot open %s/%s", copy, p->name);
	verify_says(copy, "no file");
	repair_says(kept, "no file");
}

/* Without the manifest the index alone says that a file has its dictionaries. */
static void no_manifest_no_index(void **state)
{
	struct err err = { 0 };
	bool kept[WINDOWS];
	(void)state;
	list_all(clean);
	const struct piece *p = last_of(true);
	for (size_t i = 0; i < n_pieces; i++)
		if (pieces[i].kind == 7)
			kept[pieces[i].window] = !same_segment(&pieces[i], p);
	make_copy(clean);
	unlink_one("MANIFEST");
	cut_to(p->name, p->at);
	n_got = n_want = 0;
	if (store_repair(copy, tell, NULL, &err))
		fail_msg("%s", err.text);
	verify_says(copy, "neither manifest nor index");
	check_kept(copy, kept);
}

/* The file that a writer ended cleanly is shorter than it was. */
static void short_open_file(void **state)
{
	bool kept[WINDOWS];
	(void)state;
	list_all(clean);
	const struct piece *p = last_of(false);
	size_t n = 0;
	for (size_t i = 0; i < n_pieces; i++)
		if (pieces[i].kind == 7) {
			kept[pieces[i].window] = &pieces[i] != p;
			n += same_segment(&pieces[i], p);
		}
	make_copy(clean);
	cut_to(p->name, p->at);
	expect(STORE_DAMAGED, copy, p->name, p->at, "the file is cut short");
	verify_says(copy, "cut at a block");
	expect(STORE_CUT, copy, p->name, 0, "%zu blocks are kept", n - 1);
	repair_says(kept, "cut at a block");
	/* After a crash nothing says that there was more. */
	make_copy(torn);
	cut_to(p->name, p->at);
	verify_says(copy, "cut at a block, after a crash");
	repair_says(kept, "cut at a block, after a crash");
}

/* A copy of what was in a file before, to compare with. */
static size_t content(const char *dir, const char *name, uint8_t *out, size_t size)
{
	int fd = open(path_of(dir, name), O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, out, size);
	assert_in_range(n, 0, size - 1);
	if (fd >= 0)
		close(fd);
	return (size_t)n;
}

static void assert_as_before(const char *name)
{
	static uint8_t a[9000], b[9000];
	size_t n = content(clean, name, a, sizeof(a));
	assert_true(n);
	assert_int_equal(content(copy, name, b, sizeof(b)), n);
	assert_memory_equal(a, b, n);
}

/* Either header is made anew from the other; without both there is no store. */
static void headers(void **state)
{
	static const char *const names[] = { "HEADER", "HEADER.copy" };
	struct err err = { 0 };
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		const char *name = names[i / 2];
		make_copy(clean);
		if (i % 2)
			unlink_one(name);
		else
			flip(name, 33);
		n_want = 0;
		expect(STORE_DAMAGED, copy, name, 0, "%s",
		       i / 2   ? "the copy of the header is missing or damaged"
		       : i % 2 ? "the header is missing"
			       : "the header is damaged");
		verify_says(copy, name);
		n_got = 0;
		assert_int_equal(store_repair(copy, tell, NULL, &err), 0);
		compare(name);
		assert_as_before(names[0]);
		assert_as_before(names[1]);
		n_want = 0;
		repair_says(all_kept, name);
	}
	make_copy(clean);
	flip(names[0], 20);
	flip(names[1], 20);
	n_got = 0;
	assert_int_equal(store_verify(copy, tell, NULL, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "HEADER and its copy are damaged"));
	assert_int_equal(store_repair(copy, tell, NULL, &err), -EBADMSG);
	unlink_one(names[0]);
	unlink_one(names[1]);
	n_got = 0;
	assert_int_equal(store_verify(copy, tell, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, "is not a store of ascribe: it has no HEADER"));
	assert_int_equal(n_got, 0);
}

/* The header of another store is not a copy of this one's. */
static void other_copy(void **state)
{
	char other[64], command[300];
	struct store_writer *w;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(store_writer_open(&w, temp_dir(other), &model_meta, &err), 0);
	store_writer_close(w);
	make_copy(clean);
	snprintf(command, sizeof(command), "cp %s/HEADER %s/HEADER.copy", other, copy);
	assert_int_equal(system(command), 0);
	n_want = 0;
	expect(STORE_DAMAGED, copy, "HEADER.copy", 0,
	       "the copy of the header is missing or damaged");
	repair_says(all_kept, "of another store");
	remove_tree(other);
}

/* All is found again by the names of files; other names mean nothing. */
static void manifests(void **state)
{
	static const char *const others[] = { "seg/10s-x.seg",	      "seg/10s-00000004.seg.tmp",
					      "seg/11s-00000009.seg", "seg/00000012.seg",
					      "seg/10s-00000000.seg", "seg/10s-4294967296.seg",
					      "seg/10s-00000008.sym" };
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		make_copy(clean);
		for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++) {
			close(open(path_of(copy, others[k]), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		}
		if (i)
			unlink_one("MANIFEST");
		else
			flip("MANIFEST", 40);
		n_want = 0;
		expect(STORE_DAMAGED, copy, "MANIFEST", 0, "the manifest is %s",
		       i ? "missing" : "damaged");
		verify_says(copy, "manifest");
		repair_says(all_kept, "manifest");
	}
}

static int setup(void **state)
{
	static char base[64];
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	char command[300];
	temp_dir(base);
	snprintf(clean, sizeof(clean), "%s/clean", base);
	snprintf(torn, sizeof(torn), "%s/torn", base);
	snprintf(copy, sizeof(copy), "%s/copy", base);
	o.windows_only = true;
	o.symbols_bytes = 1;
	if (store_writer_open_with(&w, clean, &model_meta, &o, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < WINDOWS; i++) {
		if (i && i % 3 == 0) {
			store_renew(w);
			store_renew_end(w);
		}
		assert_int_equal(model_commit(&m, w, 12, &err), 0);
	}
	snprintf(command, sizeof(command), "cp -a %s %s", clean, torn);
	assert_int_equal(system(command), 0);
	store_writer_close(w);
	*state = base;
	return 0;
}

static int teardown(void **state)
{
	remove_tree(*state);
	model_fini(&m);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_a_clean_end), cmocka_unit_test(while_it_is_written),
		cmocka_unit_test(short_files),	     cmocka_unit_test(short_open_file),
		cmocka_unit_test(headers),	     cmocka_unit_test(other_copy),
		cmocka_unit_test(manifests),	     cmocka_unit_test(no_manifest_no_index),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
