/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores that somebody made: every checksum is right, and what it covers is not. Fields of block
 * heads are changed one at a time. No number may be believed before the dictionaries have confirmed
 * it.
 */
#include "unit/store_model.h"

#include "query/query.h"
#include "store/damage.h"
#include "store/read/store_int.h"
#include "store/writer.h"
#include "util/crc32c.h"

#include <sys/resource.h>

/* What the program may allocate at once, or at all. */
#ifdef __SANITIZE_ADDRESS__
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "max_allocation_size_mb=1000";
}
#endif

#define SEGMENT "seg/10s-00000001.seg"

struct crafted {
	char path[120];
	uint8_t *data;
	size_t len;
	off_t block; /* of the payload */
	uint32_t stored_len;
};

static void put32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Block k of the first segment, whole. */
static void crafted_begin(struct crafted *c, const char *dir, size_t k)
{
	struct store *s;
	struct err err = { 0 };
	struct stat st;
	snprintf(c->path, sizeof(c->path), "%s/%s", dir, SEGMENT);
	assert_int_equal(store_open(&s, dir, &err), 0);
	const struct block_ref *r = &s->segments[0].refs[k];
	c->block = (off_t)r->offset + FRAME_SIZE;
	c->stored_len = r->stored_len;
	store_close(s);
	int fd = open(c->path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	c->len = (size_t)st.st_size;
	c->data = malloc(c->len);
	assert_int_equal(read(fd, c->data, c->len), c->len);
	close(fd);
}

/* Write the file with these bytes of the block's head changed, and all checksums right. */
static void crafted_put(const struct crafted *c, size_t at, uint32_t value)
{
	uint8_t *data = malloc(c->len), *b = data + c->block, *frame = b - FRAME_SIZE;
	memcpy(data, c->data, c->len);
	put32(b + at, value);
	put32(b + BLOCK_SIZE - 4, 0);
	size_t head = BLOCK_SIZE + (size_t)b[25] * COLUMN_SIZE;
	put32(b + BLOCK_SIZE - 4, crc32c(b, head < c->stored_len ? head : c->stored_len));
	put32(frame + 32, crc32c(b, c->stored_len));
	put32(frame + 36, crc32c(frame, 36));
	int fd = open(c->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_int_equal(write(fd, data, c->len), c->len);
	close(fd);
	free(data);
}

static const char *const keys[] = { "tenant", "query_id", "comm" };

static int ask(struct store *s, size_t what, uint64_t *ret_samples, struct err *err)
{
	static const struct query_spec specs[] = {
		{ .labels = QUERY_NO_LABELS },
		{ .labels = QUERY_KEYS, .keys = keys, .n_keys = 1 },
		{ .labels = QUERY_KEYS, .keys = keys, .n_keys = 3, .where = "{comm=\"sh\"}" },
		{ .labels = QUERY_ALL_LABELS, .idle = true },
	};
	struct query_spec spec = specs[what];
	struct query *q;
	struct query_table *t;
	spec.from_ns = INT64_MIN;
	spec.to_ns = INT64_MAX;
	int rc = query_open(&q, s, &spec, err);
	if (rc)
		return rc;
	*ret_samples = query_info(q)->samples;
	rc = query_table(q, spec.labels == QUERY_KEYS ? spec.keys : NULL, spec.n_keys, &t, err);
	if (!rc)
		query_table_free(t);
	query_close(q);
	return rc;
}
#define N_QUESTIONS 4

static int no_rows(void *ctx, const struct store_row *rows, size_t n)
{
	(void)ctx, (void)rows, (void)n;
	return 0;
}

/* Each window, and nothing of it before: summed by label set. */
static int ask_windows(struct store *s, struct err *err)
{
	const struct store_keys some = { keys, 3 };
	const struct store_reading how = { .keys = &some, .rows = no_rows, .fold_stacks = true };
	struct store_cover c;
	int rc = store_cover(s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < c.n; i++)
		rc = store_block_read(s, c.blocks[i], &how, err);
	store_cover_free(&c);
	return rc;
}

/*
 * -errno: the store does not open; else how many questions found damage; each of the others has an
 * answer.
 */
static int damaged_answers(const char *dir)
{
	struct store *s;
	struct err err = { 0 };
	int n = 0, rc = store_open(&s, dir, &err);
	if (rc)
		return rc;
	for (size_t i = 0; i <= N_QUESTIONS; i++) {
		uint64_t samples;
		rc = i < N_QUESTIONS ? ask(s, i, &samples, &err) : ask_windows(s, &err);
		if (rc && rc != -EBADMSG)
			fail_msg("question %zu: %d %s", i, rc, err.text);
		n += rc == -EBADMSG;
	}
	store_close(s);
	return n;
}

static void write_store(char *dir)
{
	struct store_options o = model_options;
	struct store_writer *w;
	struct model m = { .random = 5 };
	struct err err = { 0 };
	o.windows_only = true;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	for (int i = 0; i < 12; i++)
		assert_int_equal(model_commit(&m, w, 12, &err), 0);
	store_writer_close(w);
	model_fini(&m);
}

/*
 * Counts beyond what the dictionaries hold: damage, for each question that needs them, and nothing
 * is allocated by them.
 */
static void marks(void **state)
{
	static const enum kind kinds[] = { KIND_EVENTS, KIND_LEAVES, KIND_SETS };
	static const uint32_t more[] = { 1, 1000, 1u << 29, 0xffffffff };
	(void)state;
	char dir[64];
	struct crafted c;
	write_store(dir);
	assert_int_equal(damaged_answers(dir), 0);
	crafted_begin(&c, dir, 11);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
			size_t at = 40 + 4 * ((size_t)kinds[k] - 1);
			uint32_t v = get32(c.data + c.block + at);
			crafted_put(&c, at, more[i] > UINT32_MAX - v ? UINT32_MAX : v + more[i]);
			/* One is without labels; stacks are in that one and one with all labels. */
			int n = damaged_answers(dir), want = kinds[k] == KIND_SETS ? N_QUESTIONS
							     : kinds[k] == KIND_LEAVES
								     ? 2
								     : N_QUESTIONS + 1;
			if (n != want && n != -EBADMSG)
				fail_msg("kind %d, %" PRIu32 " more: %d questions found damage",
					 kinds[k], more[i], n);
		}
	free(c.data);
	remove_tree(dir);
}

/* Whatever the head of a block says: an answer, or damage. */
static void heads(void **state)
{
	static const uint32_t values[] = { 0, 1, 2, 7, 0x7fffffff, 0x80000000, 0xffffffff };
	(void)state;
	char dir[64];
	struct crafted c;
	size_t damaged = 0, n = 0;
	write_store(dir);
	for (size_t k = 5; k < 12; k += 6) {
		crafted_begin(&c, dir, k);
		for (size_t at = 0; at < BLOCK_SIZE + 4 * COLUMN_SIZE; at += 4)
			for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++, n++) {
				crafted_put(&c, at, values[i]);
				damaged += damaged_answers(dir) != 0;
			}
		crafted_put(&c, 0, get32(c.data + c.block));
		free(c.data);
	}
	print_message("%zu heads, %zu of them damage\n", n, damaged);
	assert_true(damaged > n / 3);
	remove_tree(dir);
}

/* Change a letter of an event's name in the manifest. */
static void rename_event(const char *dir, const char *name)
{
	char path[120];
	uint8_t data[4096];
	snprintf(path, sizeof(path), "%s/MANIFEST", dir);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ssize_t len = read(fd, data, sizeof(data));
	assert_in_range(len, 33, sizeof(data) - 1);
	uint8_t *at = memmem(data, (size_t)len, name, strlen(name));
	assert_non_null(at);
	*at ^= 1;
	put32(data + 24, crc32c(data + 32, (size_t)len - 32));
	put32(data + 28, crc32c(data, 28));
	assert_int_equal(pwrite(fd, data, (size_t)len, 0), len);
	close(fd);
}

static void count_finding(void *ctx, const struct store_finding *f)
{
	*(size_t *)ctx += f->kind == STORE_DAMAGED;
}

/* Readers believe no event that the manifest lacks: verify finds it, repair adds it. */
static void event_of_no_manifest(void **state)
{
	(void)state;
	char dir[64];
	struct err err = { 0 };
	size_t n = 0;
	write_store(dir);
	rename_event(dir, model_events[0].name);
	assert_true(damaged_answers(dir) > 0);
	assert_int_equal(store_verify(dir, count_finding, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_int_equal(store_repair(dir, count_finding, &n, &err), 0);
	assert_int_equal(damaged_answers(dir), 0);
	assert_sound(dir);
	remove_tree(dir);
}

struct cuts {
	size_t damaged, cut;
	char text[100];
};

static void note_cut(void *ctx, const struct store_finding *f)
{
	struct cuts *c = ctx;
	c->damaged += f->kind == STORE_DAMAGED;
	c->cut += f->kind == STORE_CUT;
	if (f->kind == STORE_CUT)
		snprintf(c->text, sizeof(c->text), "%s", f->text);
}

/* A block of a whole frame that says what cannot be: repair leaves it out, and no other. */
static void a_block_is_left_out(void **state)
{
	const size_t leaves = 40 + 4 * ((size_t)KIND_LEAVES - 1);
	struct cuts cuts = { 0 };
	struct crafted c;
	struct err err = { 0 };
	char dir[64];
	(void)state;
	write_store(dir);
	crafted_begin(&c, dir, 5);
	crafted_put(&c, leaves, UINT32_MAX);
	assert_int_equal(store_verify(dir, note_cut, &cuts, &err), 0);
	assert_true(cuts.damaged == 1 && !cuts.cut);
	assert_int_equal(store_repair(dir, note_cut, &cuts, &err), 0);
	assert_true(cuts.damaged == 2 && cuts.cut == 1);
	assert_string_equal(cuts.text, "11 blocks are kept");
	assert_sound(dir);
	assert_int_equal(damaged_answers(dir), 0);
	struct store *s = open_store(dir);
	assert_int_equal(store_n_windows(s), 11);
	store_close(s);
	free(c.data);
	remove_tree(dir);
}

static int limit_memory(void **state)
{
	(void)state;
#ifndef __SANITIZE_ADDRESS__
	struct rlimit l = { 1u << 30, 1u << 30 };
	return setrlimit(RLIMIT_AS, &l);
#endif
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(marks),
		cmocka_unit_test(heads),
		cmocka_unit_test(event_of_no_manifest),
		cmocka_unit_test(a_block_is_left_out),
	};
	return cmocka_run_group_tests(tests, limit_memory, NULL);
}
