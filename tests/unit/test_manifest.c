/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HEADER, MANIFEST and heads of files with one thing that is wrong: the last number that is taken,
 * the first that is not, and what is said of it.
 */
#include "store/file/file.h"
#include "store/file/header.h"
#include "store/file/manifest.h"
#include "store/file/message.h"
#include "store/file/reserve.h"
#include "store/file/store.pb-c.h"
#include "store/file/tree.h"
#include "unit/store_model.h"
#include "util/crc32c.h"

#define ID 0x1122334455667788ull
#define MOST_EVENTS 4097
#define MOST_KEYS 4097

static char dir[64];
static int dir_fd = -1;

static void write_file(const char *name, const void *p, size_t n)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, p, n), n);
	close(fd);
}

static void write_message(const char *name, const char *magic, const ProtobufCMessage *m)
{
	struct buf payload = BUF_INIT, b = BUF_INIT;
	assert_int_equal(message_pack(&payload, m), 0);
	assert_int_equal(message_frame(&b, magic, ID, &payload), 0);
	write_file(name, b.data, b.len);
	buf_fini(&payload);
	buf_fini(&b);
}

/* ---- MANIFEST ---- */

struct parts {
	Ascribe__Store__Manifest m;
	Ascribe__Store__Level level[11], *levels[11];
	Ascribe__Store__Segment segment[2], *segments[2];
	Ascribe__Store__WideKey key[MOST_KEYS], *keys[MOST_KEYS];
	Ascribe__Store__Anchor anchor[2], *anchors[2];
	Ascribe__Store__Event event[MOST_EVENTS], *events[MOST_EVENTS];
	char names[MOST_KEYS][8];
};

static ProtobufCBinaryData text(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)s };
}

/* Two segments, the second with two wide keys; an anchor; two events. */
static struct parts *make_parts(void)
{
	struct parts *p = calloc(1, sizeof(*p));
	p->m = (Ascribe__Store__Manifest)ASCRIBE__STORE__MANIFEST__INIT;
	for (size_t i = 0; i < 11; i++) {
		p->level[i] = (Ascribe__Store__Level)ASCRIBE__STORE__LEVEL__INIT;
		p->level[i].seq = 100 + (uint32_t)i;
		p->level[i].covered = 50 + (uint32_t)i;
		p->level[i].cut_before_ns = -5;
		p->level[i].cut_blocks = 6;
		p->level[i].cut_bytes_by_age = 7;
		p->level[i].cut_bytes_by_size = 8;
		p->levels[i] = &p->level[i];
	}
	for (size_t i = 0; i < 2; i++) {
		p->segment[i] = (Ascribe__Store__Segment)ASCRIBE__STORE__SEGMENT__INIT;
		p->segments[i] = &p->segment[i];
		p->anchor[i] = (Ascribe__Store__Anchor)ASCRIBE__STORE__ANCHOR__INIT;
		p->anchor[i].boot_id = text("0123456789abcdef");
		p->anchors[i] = &p->anchor[i];
	}
	for (size_t i = 0; i < MOST_KEYS; i++) {
		snprintf(p->names[i], sizeof(p->names[i]), "k%zu", i);
		p->key[i] = (Ascribe__Store__WideKey)ASCRIBE__STORE__WIDE_KEY__INIT;
		p->key[i].key = text(p->names[i]);
		p->key[i].values = 9;
		p->keys[i] = &p->key[i];
		p->event[i] = (Ascribe__Store__Event)ASCRIBE__STORE__EVENT__INIT;
		p->event[i].name = text(p->names[i]);
		p->event[i].period = 3;
		p->events[i] = &p->event[i];
	}
	Ascribe__Store__Segment *s = &p->segment[1];
	s->serial = 1;
	s->level = 2;
	s->state = SEGMENT_SEALED;
	s->end = 4;
	s->symbols_at = 5;
	s->index_at = 6;
	s->t0_ns = -7;
	s->t1_ns = 8;
	s->n_blocks = 9;
	s->seq_lo = 10;
	s->seq_hi = 11;
	s->wide = p->keys;
	s->n_wide = 2;
	p->m.next_segment = 77;
	p->m.levels = p->levels;
	p->m.n_levels = 10;
	p->m.segments = p->segments;
	p->m.n_segments = 2;
	p->m.anchors = p->anchors;
	p->m.n_anchors = 1;
	p->m.events = p->events;
	p->m.n_events = 2;
	return p;
}

struct read_manifest {
	struct manifest m;
	struct manifest_segment *segments;
	size_t n;
};

static int read_manifest(struct read_manifest *r, uint64_t id, struct err *err)
{
	*r = (struct read_manifest){ .n = 0 };
	return manifest_read(&r->m, &r->segments, &r->n, dir_fd, "/the/store", id, err);
}

static void read_fini(struct read_manifest *r)
{
	for (size_t i = 0; i < r->n; i++)
		manifest_segment_fini(&r->segments[i]);
	free(r->segments);
	manifest_fini(&r->m);
}

static int try_parts(struct parts *p)
{
	struct read_manifest r;
	struct err err = { 0 };
	write_message("MANIFEST", "ASCRMANI", &p->m.base);
	int rc = read_manifest(&r, ID, &err);
	if (rc)
		assert_string_equal(err.text, "/the/store/MANIFEST is damaged (offset 0)");
	else
		read_fini(&r);
	free(p);
	return rc;
}

static void as_written(void **state)
{
	struct parts *p = make_parts();
	struct read_manifest r;
	struct err err = { 0 };
	(void)state;
	write_message("MANIFEST", "ASCRMANI", &p->m.base);
	assert_int_equal(read_manifest(&r, ID, &err), 0);
	assert_true(r.m.next_segment == 77 && r.n == 2 && r.m.n_anchors == 1 && r.m.n_events == 2);
	for (uint32_t i = 0; i < 10; i++) {
		const struct store_cut *c = &r.m.cuts[i];
		assert_true(r.m.seq[i] == 100 + i && r.m.covered[i] == 50 + i);
		assert_true(c->before_ns == -5 && c->blocks == 6 && c->bytes_by_age == 7);
		assert_int_equal(c->bytes_by_size, 8);
	}
	const struct manifest_segment *s = &r.segments[1];
	assert_true(s->serial == 1 && s->level == 2 && s->state == 1 && s->end == 4);
	assert_true(s->symbols_at == 5 && s->index_at == 6 && s->t0_ns == -7 && s->t1_ns == 8);
	assert_true(s->n_blocks == 9 && s->seq_lo == 10 && s->seq_hi == 11 && s->n_wide == 2);
	assert_string_equal(s->wide[1].key, "k1");
	assert_int_equal(s->wide[1].values, 9);
	assert_memory_equal(r.m.anchors[0].boot_id, "0123456789abcdef", 16);
	assert_string_equal(r.m.events[1].name, "k1");
	assert_string_equal(r.m.events[1].unit, "");
	assert_int_equal(r.m.events[1].period, 3);
	/* The same again when it is written. */
	const struct manifest_segment *v[] = { &r.segments[0], &r.segments[1] };
	struct buf before = BUF_INIT, after = BUF_INIT;
	assert_int_equal(file_read_whole(dir_fd, "MANIFEST", 1, 1 << 20, &before), 0);
	assert_int_equal(manifest_write(&r.m, v, 2, dir_fd, dir, ID, &err), 0);
	read_fini(&r);
	assert_int_equal(read_manifest(&r, ID, &err), 0);
	assert_true(r.n == 2 && r.m.seq[9] == 109 && r.segments[1].wide[0].values == 9);
	assert_int_equal(file_read_whole(dir_fd, "MANIFEST", 1, 1 << 20, &after), 0);
	assert_int_equal(after.len, before.len);
	assert_int_not_equal(faccessat(dir_fd, "MANIFEST.tmp", F_OK, 0), 0);
	buf_fini(&before);
	buf_fini(&after);
	read_fini(&r);
	free(p);
}

static void one_thing_wrong(void **state)
{
	struct parts *p;
	(void)state;
#define TRY(change, rc) \
	do { \
		p = make_parts(); \
		change; \
		assert_int_equal(try_parts(p), rc); \
	} while (0)
	TRY(p->m.n_levels = 9, -EBADMSG);
	TRY(p->m.n_levels = 11, -EBADMSG);
	TRY(p->segment[1].level = 9, 0);
	TRY(p->segment[1].level = 10, -EBADMSG);
	TRY(p->segment[1].state = 2, 0);
	TRY(p->segment[1].state = 3, -EBADMSG);
	TRY(p->segment[1].seq_lo = 11, 0);
	TRY(p->segment[1].seq_lo = 12, -EBADMSG);
	TRY(p->segment[1].n_wide = 4096, 0);
	TRY(p->segment[1].n_wide = 4097, -EBADMSG);
	TRY(p->m.n_events = 4096, 0);
	TRY(p->m.n_events = 4097, -EBADMSG);
	TRY(p->anchor[0].boot_id.len = 15, -EBADMSG);
	TRY(p->anchor[0].boot_id = text("0123456789abcdefg"), -EBADMSG);
	TRY(p->key[0].key.len = 0, 0);
	TRY(p->key[1].key.len = 3, -EBADMSG); /* with its NUL */
#undef TRY
}

/* A key that comes twice has what the last one says; the text of a key has 65535 bytes at most. */
static void wide_keys(void **state)
{
	static char long_key[65537];
	struct parts *p = make_parts();
	struct read_manifest r;
	struct err err = { 0 };
	(void)state;
	p->key[1].key = p->key[0].key;
	p->key[1].values = 5;
	write_message("MANIFEST", "ASCRMANI", &p->m.base);
	assert_int_equal(read_manifest(&r, ID, &err), 0);
	assert_int_equal(r.segments[1].n_wide, 1);
	assert_int_equal(r.segments[1].wide[0].values, 5);
	read_fini(&r);
	free(p);
	memset(long_key, 'x', 65536);
	for (size_t len = 65535; len <= 65536; len++) {
		p = make_parts();
		p->key[0].key = (ProtobufCBinaryData){ len, (uint8_t *)long_key };
		assert_int_equal(try_parts(p), len == 65535 ? 0 : -EBADMSG);
	}
}

/* ---- the fixed part ---- */

static void fixed_parts(void **state)
{
	struct parts *p = make_parts();
	struct buf b = BUF_INIT;
	struct read_manifest r;
	struct err err = { 0 };
	(void)state;
	write_message("MANIFEST", "ASCRMANI", &p->m.base);
	free(p);
	assert_int_equal(read_manifest(&r, ID + 1, &err), -EBADMSG);
	assert_int_equal(file_read_whole(dir_fd, "MANIFEST", 1, 1 << 20, &b), 0);
	for (size_t at = 0; at < b.len; at++) {
		b.data[at] ^= 4;
		write_file("MANIFEST", b.data, b.len);
		assert_int_equal(read_manifest(&r, ID, &err), -EBADMSG);
		b.data[at] ^= 4;
	}
	static const size_t lengths[] = { 0, 1, 31, 32 };
	for (size_t i = 0; i < 4; i++) {
		write_file("MANIFEST", b.data, lengths[i]);
		assert_int_equal(read_manifest(&r, ID, &err), -EBADMSG);
	}
	buf_add_u8(&b, 0);
	write_file("MANIFEST", b.data, b.len);
	assert_int_equal(read_manifest(&r, ID, &err), -EBADMSG);
	assert_int_equal(unlinkat(dir_fd, "MANIFEST", 0), 0);
	assert_int_equal(read_manifest(&r, ID, &err), -ENOENT);
	assert_string_equal(err.text, "/the/store/MANIFEST is missing: the store is damaged");
	assert_int_equal(mkdirat(dir_fd, "MANIFEST", 0700), 0);
	assert_int_equal(read_manifest(&r, ID, &err), -EBADMSG);
	assert_int_equal(unlinkat(dir_fd, "MANIFEST", AT_REMOVEDIR), 0);
	buf_fini(&b);
}

/* Of a whole file: what the fixed part says, though both checksums are right, and a byte behind. */
static void lengths_and_versions(void **state)
{
	static const uint8_t payload[] = { 0xf8, 0x07, 0x01, 0xf8, 0x07, 0x01 }; /* two fields */
	static const struct {
		uint32_t version, len;
		size_t there;
		int want;
	} cases[] = {
		{ 3, 3, 3, 0 },	       { 3, 3, 6, -EBADMSG },	      { 3, 6, 3, -EBADMSG },
		{ 3, 0, 0, 0 },	       { 3, 2, 3, -EBADMSG },	      { 3, 4, 3, -EBADMSG },
		{ 0, 3, 3, -EBADMSG }, { 2, 3, 3, -EPROTONOSUPPORT }, { 4, 3, 3, -EPROTONOSUPPORT },
		{ 3, 6, 6, 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf b = BUF_INIT;
		uint64_t id = 0;
		uint32_t version = 99;
		assert_int_equal(buf_add(&b, "ASCRSTOR", 8), 0);
		assert_int_equal(buf_add_u32(&b, cases[i].version), 0);
		assert_int_equal(buf_add_u32(&b, cases[i].len), 0);
		assert_int_equal(buf_add_u64(&b, ID), 0);
		assert_int_equal(buf_add_u32(&b, crc32c(payload, cases[i].len)), 0);
		assert_int_equal(buf_add_u32(&b, crc32c(b.data, b.len)), 0);
		assert_int_equal(buf_add(&b, payload, cases[i].there), 0);
		if (message_check(&b, "ASCRSTOR", 3, &id, &version) != cases[i].want)
			fail_msg("case %zu", i);
		assert_true(id == ID && version == cases[i].version);
		assert_int_equal(message_check(&b, "ASCRMANI", 3, &id, &version), -EBADMSG);
		buf_fini(&b);
	}
}

/* Sizes that a file may have; nothing is added to the buffer where it has another. */
static void whole_files(void **state)
{
	struct buf b = BUF_INIT;
	(void)state;
	write_file("ten", "0123456789", 10);
	assert_int_equal(file_read_whole(dir_fd, "ten", 11, 20, &b), -EBADMSG);
	assert_int_equal(file_read_whole(dir_fd, "ten", 5, 9, &b), -EBADMSG);
	assert_int_equal(file_read_whole(dir_fd, ".", 0, 1 << 20, &b), -EBADMSG);
	assert_int_equal(file_read_whole(dir_fd, "none", 0, 20, &b), -ENOENT);
	assert_int_equal(b.len, 0);
	assert_int_equal(file_read_whole(dir_fd, "ten", 10, 10, &b), 0);
	assert_int_equal(b.len, 10);
	assert_memory_equal(b.data, "0123456789", 10);
	buf_fini(&b);
}

/* ---- HEADER ---- */

static void headers(void **state)
{
	static ProtobufCBinaryData names[257];
	(void)state;
	for (size_t i = 0; i < 257; i++)
		names[i] = text("loss");
	for (int flagged = 0; flagged < 2; flagged++)
		for (size_t n = 255; n <= 257; n++) {
			Ascribe__Store__Header p = ASCRIBE__STORE__HEADER__INIT;
			struct header h;
			struct err err = { 0 };
			p.host = text("host");
			p.created_ns = -3;
			p.lost = p.flagged = names;
			p.n_lost = flagged ? 1 : n;
			p.n_flagged = flagged ? n : 1;
			write_message("HEADER", "ASCRSTOR", &p.base);
			int rc = header_read(&h, dir_fd, "/the/store", &err);
			assert_int_equal(rc, n > 256 ? -EBADMSG : 0);
			if (rc) {
				assert_string_equal(err.text,
						    "/the/store/HEADER is damaged (offset 0)");
				continue;
			}
			assert_true(h.store_id == ID && h.meta.created_ns == -3);
			assert_true(h.meta.n_lost == p.n_lost && h.meta.n_flagged == p.n_flagged);
			assert_string_equal(h.meta.host, "host");
			assert_string_equal(h.meta.os, "");
			assert_string_equal(h.meta.lost_names[p.n_lost - 1], "loss");
			/* One name more cannot be written. */
			const char *many[257];
			for (size_t i = 0; i < 257; i++)
				many[i] = "x";
			struct header other = h;
			other.meta.lost_names = many;
			other.meta.n_lost = 256;
			assert_int_equal(header_write(dir_fd, dir, &other, &err), 0);
			other.meta.n_lost = 257;
			assert_int_equal(header_write(dir_fd, dir, &other, &err), -E2BIG);
			header_fini(&h);
		}
}

/* ---- versions ---- */

static void versions(void **state)
{
	static const struct {
		uint32_t version;
		const char *says;
	} cases[] = {
		{ 1, "older version (format 1; this program knows 3): read it with that version" },
		{ 2, "older version (format 2; this program writes 3): rewrite the store with" },
		{ 4, "newer version (format 4; this program knows 3): use that version" },
		{ UINT32_MAX, "newer version (format 4294967295; this program knows 3)" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err err = { 0 };
		assert_int_equal(file_other_version("the store", cases[i].version, &err),
				 -EPROTONOSUPPORT);
		assert_non_null(strstr(err.text, "the store was written by a"));
		assert_non_null(strstr(err.text, cases[i].says));
	}
}

/* ---- heads of files ---- */

static int open_as(struct place p, uint32_t version, uint64_t id, struct err *err)
{
	struct file f;
	char name[FILE_NAME_SIZE];
	file_name(name, (struct place){ KIND_BLOCKS, 7, 2 });
	int rc = file_open_as(&f, dir_fd, "/the/store", name, version, p, id, false, err);
	if (!rc) {
		assert_int_equal(f.size, 32);
		assert_int_equal(f.end, 32);
		assert_int_equal(f.tail, 32);
		file_close(&f);
	}
	assert_int_equal(f.fd, -1);
	return rc;
}

static void heads(void **state)
{
	const struct place p = { KIND_BLOCKS, 7, 2 };
	struct err err = { 0 };
	char name[FILE_NAME_SIZE];
	struct stat st;
	(void)state;
	file_name(name, p);
	assert_string_equal(name, "seg/5m-00000007.seg");
	assert_int_equal(file_create(dir_fd, dir, p, ID, &err), 0);
	assert_int_equal(fstatat(dir_fd, name, &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640 & ~022);
	assert_int_equal(fstatat(dir_fd, "seg", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0750 & ~022);
	assert_int_equal(open_as(p, 3, ID, &err), 0);
	assert_int_equal(open_as(p, 2, ID, &err), -EPROTONOSUPPORT);
	static const char other[] =
		"/the/store/seg/5m-00000007.seg belongs to another store or place (offset 0)";
	const struct place wrong[] = { { KIND_SYMBOLS, 7, 2 },
				       { KIND_BLOCKS, 8, 2 },
				       { KIND_BLOCKS, 7, 3 } };
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(open_as(wrong[i], 3, ID, &err), -EBADMSG);
		assert_string_equal(err.text, other);
	}
	assert_int_equal(open_as(p, 3, ID + 1, &err), -EBADMSG);
	assert_string_equal(err.text, other);
	struct buf b = BUF_INIT;
	assert_int_equal(file_read_whole(dir_fd, name, 32, 32, &b), 0);
	for (size_t at = 0; at < 32; at++) {
		b.data[at] ^= 64;
		write_file(name, b.data, 32);
		assert_int_equal(open_as(p, 3, ID, &err), -EBADMSG);
		assert_string_equal(err.text, "/the/store/seg/5m-00000007.seg: the file header is "
					      "damaged (offset 0)");
		b.data[at] ^= 64;
	}
	write_file(name, b.data, 31);
	assert_int_equal(open_as(p, 3, ID, &err), -ENODATA);
	assert_string_equal(err.text, "/the/store/seg/5m-00000007.seg is cut short at 31 bytes");
	assert_int_equal(unlinkat(dir_fd, name, 0), 0);
	assert_int_equal(open_as(p, 3, ID, &err), -ENOENT);
	assert_int_equal(mkdirat(dir_fd, name, 0700), 0);
	assert_int_equal(open_as(p, 3, ID, &err), -EBADMSG);
	assert_string_equal(err.text, "/the/store/seg/5m-00000007.seg is not a regular file");
	buf_fini(&b);
}

/* ---- what else lies there ---- */

/* 256 KiB that are there, given up once; a link in its place is left alone. */
static void reserve(void **state)
{
	struct stat st;
	(void)state;
	reserve_keep(dir_fd);
	assert_int_equal(fstatat(dir_fd, RESERVE_NAME, &st, 0), 0);
	assert_int_equal(st.st_size, 256 << 10);
	assert_true(st.st_blocks * 512 >= 256 << 10);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(reserve_spend(dir_fd));
	assert_false(reserve_spend(dir_fd));
	assert_int_equal(symlinkat("nowhere", dir_fd, RESERVE_NAME), 0);
	reserve_keep(dir_fd);
	assert_int_not_equal(faccessat(dir_fd, "nowhere", F_OK, 0), 0);
}

static void trees(void **state)
{
	char path[100];
	(void)state;
	assert_int_equal(mkdirat(dir_fd, "tree", 0700), 0);
	assert_int_equal(mkdirat(dir_fd, "tree/a", 0700), 0);
	write_file("tree/a/file", "x", 1);
	assert_int_equal(symlinkat("..", dir_fd, "tree/a/link"), 0);
	snprintf(path, sizeof(path), "%s/tree", dir);
	assert_int_equal(tree_empty(path), 0);
	assert_int_equal(faccessat(dir_fd, "tree/a", F_OK, 0), -1);
	assert_int_equal(faccessat(dir_fd, "tree", F_OK, 0), 0);
	assert_int_equal(tree_remove(path), 0);
	assert_int_equal(tree_remove(path), -ENOENT);
	assert_int_equal(tree_sync_above(dir_fd), 0);
}

static int setup(void **state)
{
	(void)state;
	umask(022);
	dir_fd = open(temp_dir(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(dir_fd);
	remove_tree(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_written),
		cmocka_unit_test(one_thing_wrong),
		cmocka_unit_test(wide_keys),
		cmocka_unit_test(fixed_parts),
		cmocka_unit_test(whole_files),
		cmocka_unit_test(headers),
		cmocka_unit_test(versions),
		cmocka_unit_test(heads),
		cmocka_unit_test(reserve),
		cmocka_unit_test(trees),
		cmocka_unit_test(lengths_and_versions),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
