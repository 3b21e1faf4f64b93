/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of blocks that are a byte shorter or longer than what they hold, with all checksums
 * right. Decoding consumes each column exactly (docs/format.md): verify says that the block is
 * damaged, and no question has another answer than before.
 */
#include "unit/copied.h"

#include "store/file/columns.h"
#include "store/file/format.h"
#include "store/read/store_int.h"
#include "store/top_values.h"
#include "store/writer.h"
#include "util/crc32c.h"

#define FRAME 40
#define HEAD 112
#define ENTRY 16
#define MOST (1u << 20)

static char clean[80], copy[80];

struct piece {
	uint8_t id, codec;
	uint32_t raw_len, stored_len;
	const uint8_t *stored;
};

/* The last block of a segment that is written to, taken apart. */
struct taken {
	char path[140];
	uint8_t file[MOST];
	size_t size, frame; /* where its frame begins */
	struct piece v[32];
	size_t n;
};

static struct taken taken;

static uint32_t get32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static void take(const char *dir, const char *name)
{
	struct taken *t = &taken;
	snprintf(t->path, sizeof(t->path), "%s/%s", dir, name);
	int fd = open(t->path, O_RDONLY | O_CLOEXEC);
	ssize_t size = read(fd, t->file, sizeof(t->file));
	close(fd);
	assert_in_range(size, FRAME + HEAD, sizeof(t->file) - 1);
	t->size = (size_t)size;
	for (size_t at = 32; at < t->size; at += FRAME + get32(t->file + at + 28)) {
		assert_int_equal(t->file[at + 4], 7);
		t->frame = at;
	}
	const uint8_t *b = t->file + t->frame + FRAME, *at = b + HEAD + ENTRY * b[25];
	t->n = b[25];
	for (size_t i = 0; i < t->n; i++) {
		const uint8_t *e = b + HEAD + ENTRY * i;
		t->v[i] = (struct piece){ e[0], e[1], get32(e + 4), get32(e + 8), at };
		at += t->v[i].stored_len;
	}
}

/* The block again, column k (of so many: none) as it is given; into the copy. */
static void put(size_t k, const uint8_t *raw, uint32_t len)
{
	static uint8_t out[MOST];
	const struct taken *t = &taken;
	size_t n = t->frame + FRAME + HEAD + ENTRY * t->n;
	memcpy(out, t->file, n);
	uint8_t *frame = out + t->frame, *b = frame + FRAME;
	for (size_t i = 0; i < t->n; i++) {
		const struct piece *p = &t->v[i];
		const uint8_t *data = i == k ? raw : p->stored;
		uint8_t *e = b + HEAD + ENTRY * i;
		const uint32_t stored = i == k ? len : p->stored_len;
		e[1] = i == k ? 0 : p->codec;
		put32(e + 4, i == k ? len : p->raw_len);
		put32(e + 8, stored);
		put32(e + 12, crc32c(data, stored));
		memcpy(out + n, data, stored);
		n += stored;
	}
	put32(b + HEAD - 4, 0);
	put32(b + HEAD - 4, crc32c(b, HEAD + ENTRY * t->n));
	put32(frame + 24, (uint32_t)(out + n - b));
	put32(frame + 28, (uint32_t)(out + n - b));
	put32(frame + 32, crc32c(b, (size_t)(out + n - b)));
	put32(frame + 36, crc32c(frame, 36));
	int fd = open(t->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_int_equal(write(fd, out, n), n);
	close(fd);
}

/* ---- what is said of it ---- */

struct findings {
	size_t n;
	uint64_t offset;
};

static void count(void *ctx, const struct store_finding *f)
{
	struct findings *n = ctx;
	n->n++;
	n->offset = f->offset;
	assert_int_equal(f->kind, STORE_DAMAGED);
	assert_string_equal(f->path, taken.path);
}

static int add(void *ctx, const struct store_row *r)
{
	*(uint64_t *)ctx += r->samples * 1000003 + r->value;
	return 0;
}

static int add_rows(void *ctx, const struct store_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add(ctx, &rows[i]);
	return 0;
}

/* Rows by a key, with stacks or without. Level 1 has none with stacks. */
static int ask_key(struct store *s, const struct store_block *b, const char *key, bool stacks,
		   uint64_t *ret, struct err *err)
{
	const struct store_keys keys = { &key, 1 };
	const struct store_reading how = {
		.keys = &keys, .fold_stacks = !stacks, .rows = add_rows, .ctx = ret
	};
	int rc = store_block_read(s, b, &how, err);
	return rc == -ENODATA ? 0 : rc;
}

static int ask_totals(struct store *s, const struct store_block *b, uint64_t *ret, struct err *err)
{
	struct store_totals *t;
	int rc = store_block_totals(s, b, &t, err);
	for (size_t i = 0; !rc && i < t->n_cpus; i++)
		*ret += t->cpu[i].fired * 7 + t->cpu[i].lost[0] + t->cpu[i].flagged[0];
	if (!rc)
		store_totals_free(t);
	return rc;
}

static int ask_top(struct store *s, const struct store_block *b, uint64_t *ret, struct err *err)
{
	struct store_top top;
	int rc = store_top(s, &b, 1, "query_id", 0, &top, err);
	*ret = rc ? 0 : top.total * 31 + top.n;
	if (!rc)
		store_top_free(&top);
	return rc;
}

static int ask(struct store *s, const struct store_block *b, int how, uint64_t *ret,
	       struct err *err)
{
	*ret = 0;
	switch (how) {
	case 0:
		return b->level ? ask_key(s, b, "tenant", true, ret, err)
				: store_block_rows(s, b, NULL, NULL, add, ret, err);
	case 1:
		return store_block_folded(s, b, add, ret, err);
	case 2:
		return store_block_sums(s, b, add, ret, err);
	case 3:
		return ask_top(s, b, ret, err);
	case 4:
		return ask_totals(s, b, ret, err);
	case 5:
		return ask_key(s, b, "comm", false, ret, err);
	default:
		return ask_key(s, b, "query_id", true, ret, err);
	}
}

#define QUESTIONS 7

/* The last block of the level; how many questions to it found damage. */
static size_t ask_all(uint8_t level, uint64_t *answers, bool first)
{
	struct store *s = open_store(copy);
	struct err err = { 0 };
	size_t damaged = 0;
	for (size_t i = 0; i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		if (g->m.level != level || g->m.state != SEGMENT_OPEN)
			continue;
		assert_int_equal(segment_load(s, g, &err), 0);
		const struct store_block *b = &g->refs[g->n_refs - 1].b;
		for (int how = 0; how < QUESTIONS; how++) {
			uint64_t answer;
			int rc = ask(s, b, how, &answer, &err);
			if (rc && rc != -EBADMSG)
				fail_msg("question %d: %d %s", how, rc, err.text);
			if (first)
				answers[how] = answer;
			else if (!rc)
				assert_int_equal(answer, answers[how]);
			damaged += rc != 0;
		}
	}
	store_close(s);
	return damaged;
}

/* Columns of pieces are read by what lists say of them: more behind the last means nothing. */
static bool is_of_pieces(uint8_t id)
{
	return id >= COLUMN_POST_HEAD;
}

static void check(uint8_t level, size_t k, const uint8_t *raw, uint32_t len,
		  const uint64_t *answers)
{
	struct findings f = { 0 };
	struct err err = { 0 };
	uint64_t same[QUESTIONS];
	put(k, raw, len);
	assert_int_equal(store_verify(copy, count, &f, &err), 0);
	if (f.n != 1 || f.offset != taken.frame)
		fail_msg("level %u, column %u of %u bytes: %zu findings", level, taken.v[k].id, len,
			 f.n);
	memcpy(same, answers, sizeof(same));
	assert_in_range(ask_all(level, same, false), 1, QUESTIONS);
}

static size_t each_column(uint8_t level, const char *name)
{
	static uint8_t longer[MOST];
	uint64_t answers[QUESTIONS];
	struct err err = { 0 };
	size_t tried = 0;
	take(copy, name);
	put(SIZE_MAX, NULL, 0);
	assert_int_equal(store_verify(copy, on_finding, NULL, &err), 0);
	assert_int_equal(ask_all(level, answers, true), 0);
	for (size_t k = 0; k < taken.n; k++) {
		const struct piece *p = &taken.v[k];
		struct buf raw = BUF_INIT;
		assert_int_equal(codec_unpack(&raw, p->codec, p->stored, p->stored_len, p->raw_len),
				 0);
		assert_in_range(raw.len, 0, sizeof(longer) - 1);
		if (raw.len)
			memcpy(longer, raw.data, raw.len);
		longer[raw.len] = 0;
		put(k, longer, (uint32_t)raw.len);
		assert_int_equal(store_verify(copy, on_finding, NULL, &err), 0);
		assert_int_equal(ask_all(level, answers, false), 0);
		if (raw.len)
			check(level, k, longer, (uint32_t)raw.len - 1, answers);
		if (!is_of_pieces(p->id))
			check(level, k, longer, (uint32_t)raw.len + 1, answers);
		tried++;
		buf_fini(&raw);
	}
	put(SIZE_MAX, NULL, 0);
	return tried;
}

static void columns(void **state)
{
	static const struct {
		const char *name;
		size_t columns;
	} tried[] = { { "10s", 12 }, { "1m", 6 }, { "5m", 8 } };
	(void)state;
	for (uint8_t level = 0; level < 3; level++) {
		char command[300], path[140], name[40] = "";
		snprintf(command, sizeof(command), "rm -rf %s && cp -a %s %s", copy, clean, copy);
		assert_int_equal(system(command), 0);
		struct store *s = open_store(copy);
		for (size_t i = 0; i < s->n_segments; i++)
			if (s->segments[i].m.level == level &&
			    s->segments[i].m.state == SEGMENT_OPEN)
				snprintf(name, sizeof(name), "seg/%s-%08u.seg", tried[level].name,
					 s->segments[i].m.serial);
		store_close(s);
		snprintf(path, sizeof(path), "%s/%s", copy, name);
		assert_int_equal(access(path, F_OK), 0);
		assert_true(each_column(level, name) >= tried[level].columns);
	}
}

/* As a writer has it that was not ended: the last block may be of any length. */
static int setup(void **state)
{
	static char base[64];
	struct store_options o = model_options;
	struct model m = { .random = 17 };
	struct store_writer *w;
	struct err err = { 0 };
	char command[300];
	temp_dir(base);
	snprintf(clean, sizeof(clean), "%s/clean", base);
	snprintf(copy, sizeof(copy), "%s/copy", base);
	o.wide_values = 3;
	if (store_writer_open_with(&w, clean, &model_meta, &o, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < 70; i++)
		assert_int_equal(model_commit(&m, w, 12, &err), 0);
	snprintf(command, sizeof(command), "cp -a %s %s.torn", clean, clean);
	assert_int_equal(system(command), 0);
	store_writer_close(w);
	strcat(clean, ".torn");
	model_fini(&m);
	*state = base;
	return 0;
}

static int teardown(void **state)
{
	remove_tree(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(columns) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
