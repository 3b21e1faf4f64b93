/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks and dictionaries of a store of format 2. Dictionaries are files of their own there: a
 * generation (strings, frames, stacks, leaves, events) and an epoch (label sets) for many segments.
 */
#include "store/old/read.h"

#include "store/block/rows.h"
#include "store/block/settable.h"
#include "store/file/columns.h"
#include "util/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD_MAX (OLD_BLOCK_SIZE + COLUMNS_OF_BLOCK_MAX * COLUMN_SIZE)
#define INDEX_ENTRY (12 + OLD_BLOCK_SIZE)

static int cannot_read(const struct old_store *o, int rc, struct err *err)
{
	return err_sys(err, rc, "cannot read %s", o->dir);
}

static int damaged_at(const char *path, uint64_t offset, struct err *err)
{
	return err_set(err, -EBADMSG, "%s is damaged or cut short at offset %llu", path,
		       (unsigned long long)offset);
}

/* ---- the head of a block ---- */

static void decode_info(struct block_head *h, struct old_block *r, struct cursor *c,
			uint8_t *ret_columns)
{
	block_decode_begin(&h->info, c, ret_columns);
	for (int k = 1; k <= N_DICTS; k++) {
		r->bytes[k] = cursor_u64(c);
		h->mark.count[k] = cursor_u32(c);
		cursor_u32(c);
	}
	r->generation = cursor_u32(c);
	r->epoch = cursor_u32(c);
	block_decode_end(&h->info, c);
	r->b = h->info;
}

/* r gets what the head says, and keeps its place. -EBADMSG. */
static int decode_head(struct block_head *h, struct old_block *r, const uint8_t *data, size_t len,
		       uint64_t payload_len)
{
	struct cursor c = { data, data + len, 0 };
	uint8_t n_columns = 0;
	*h = (struct block_head){ 0 };
	if (len < OLD_BLOCK_SIZE || payload_len > UINT32_MAX)
		return -EBADMSG;
	decode_info(h, r, &c, &n_columns);
	return block_decode_directory(h, &c, n_columns, OLD_BLOCK_SIZE, data, len, payload_len);
}

/* ---- segments ---- */

static int open_segment(struct old_store *o, uint32_t i, struct err *err)
{
	const struct old_segment *s = &o->segments[i];
	const struct place p = { KIND_BLOCKS, s->serial, s->level };
	char name[FILE_NAME_SIZE];
	if (o->file.fd >= 0 && o->file_of == i)
		return 0;
	file_close(&o->file);
	file_name(name, p);
	int rc = file_open_as(&o->file, o->dir_fd, o->dir, name, FORMAT_OLD, p, o->header.store_id,
			      false, err);
	o->file_of = i;
	if (rc == -ENOENT)
		return err_set(err, -EBADMSG, "%s is missing: the store is damaged", o->file.path);
	return rc;
}

static int add_block(struct old_store *o, const struct old_block *r)
{
	const struct old_segment *s = &o->segments[r->segment];
	const struct old_block *last = o->n_blocks ? &o->blocks[o->n_blocks - 1] : NULL;
	if (r->b.level != s->level ||
	    (last && last->segment == r->segment && r->b.seq <= last->b.seq))
		return -EBADMSG;
	int rc = ARRAY_RESERVE(o->blocks, o->blocks_cap, o->n_blocks + 1);
	if (!rc)
		o->blocks[o->n_blocks++] = *r;
	return rc;
}

static int load_sealed(struct old_store *o, uint32_t i, struct err *err)
{
	const struct old_segment *s = &o->segments[i];
	struct buf payload = BUF_INIT, raw = BUF_INIT;
	struct frame f;
	int rc = file_frame(&o->file, s->index_at, s->end, &f, &payload);
	if (!rc)
		rc = f.kind != KIND_BLOCKS || f.count || f.raw_len > FRAME_RAW_MAX ||
				     f.raw_len != (uint64_t)s->n_blocks * INDEX_ENTRY
			     ? -EBADMSG
			     : codec_unpack(&raw, f.codec, payload.data, payload.len, f.raw_len);
	struct cursor c = cursor_of(&raw);
	while (!rc && cursor_left(&c)) {
		struct block_head h;
		struct old_block r = { .segment = i,
				       .offset = cursor_u64(&c),
				       .stored_len = cursor_u32(&c) };
		const uint8_t *p = cursor_bytes(&c, OLD_BLOCK_SIZE);
		rc = p ? decode_head(&h, &r, p, OLD_BLOCK_SIZE, OLD_BLOCK_SIZE) : -EBADMSG;
		if (!rc && (r.offset > s->index_at || r.stored_len > s->index_at - r.offset))
			rc = -EBADMSG;
		rc = rc ? rc : add_block(o, &r);
	}
	buf_fini(&payload);
	buf_fini(&raw);
	if (rc == -EBADMSG || rc == -ENODATA)
		return damaged_at(o->file.path, s->index_at, err);
	return rc ? cannot_read(o, rc, err) : 0;
}

/* The head of the next block of a segment without an index; *ret_block: it is one, not an index. */
static int next_block(struct old_store *o, uint64_t offset, uint64_t limit, struct old_block *r,
		      uint64_t *ret_end, bool *ret_block)
{
	uint8_t data[HEAD_MAX];
	struct block_head head;
	struct frame h;
	int rc = file_frame(&o->file, offset, limit, &h, NULL);
	if (rc)
		return rc;
	size_t len = h.stored_len < sizeof(data) ? h.stored_len : sizeof(data);
	*ret_block = h.kind == KIND_BLOCKS && h.count;
	*ret_end = frame_end(&h);
	r->offset = offset;
	r->stored_len = h.stored_len;
	if (h.kind != KIND_BLOCKS)
		return -EBADMSG;
	rc = file_read(&o->file, offset + FRAME_SIZE, data, len);
	return rc || !h.count ? rc : decode_head(&head, r, data, len, h.stored_len);
}

/* What follows offset is no whole block: the torn end, or damage with blocks behind it. */
static int end_of_blocks(struct old_store *o, const struct old_segment *s, uint64_t offset,
			 uint64_t limit, struct err *err)
{
	uint64_t found = UINT64_MAX;
	if (offset >= limit && limit >= s->end)
		return 0;
	int rc = offset < s->end ? 0 : file_find_frame(&o->file, KIND_BLOCKS, offset + 1, &found);
	if (rc)
		return cannot_read(o, rc, err);
	if (found != UINT64_MAX || offset < s->end)
		return damaged_at(o->file.path, offset, err);
	snprintf(o->torn, sizeof(o->torn),
		 "%s: the last block is incomplete (offset %llu), it is left out", o->file.path,
		 (unsigned long long)offset);
	return 0;
}

/*
 * A block is written after the one before was synced: only the last one can be torn behind its
 * head.
 */
static int check_last(struct old_store *o, const struct old_segment *s, size_t first,
		      struct err *err)
{
	struct buf payload = BUF_INIT;
	struct frame h;
	if (o->n_blocks == first)
		return 0;
	uint64_t offset = o->blocks[o->n_blocks - 1].offset;
	int rc = file_frame(&o->file, offset, o->file.size, &h, &payload);
	buf_fini(&payload);
	if (rc != -EBADMSG)
		return rc ? cannot_read(o, rc, err) : 0;
	o->n_blocks--;
	return end_of_blocks(o, s, offset, o->file.size, err);
}

static int load_open(struct old_store *o, uint32_t i, struct err *err)
{
	const struct old_segment *s = &o->segments[i];
	uint64_t offset = FILE_HEADER_SIZE,
		 limit = s->state == SEGMENT_CLOSED ? s->end : o->file.size, end;
	size_t first = o->n_blocks;
	struct old_block r = { .segment = i };
	bool is_block = false;
	int rc;
	while (!(rc = next_block(o, offset, limit, &r, &end, &is_block)) && is_block) {
		rc = add_block(o, &r);
		if (rc)
			return rc == -EBADMSG ? damaged_at(o->file.path, offset, err)
					      : cannot_read(o, rc, err);
		offset = end;
	}
	if (!rc)
		return check_last(o, s, first, err); /* it was being sealed */
	if (rc != -ENODATA && rc != -EBADMSG)
		return cannot_read(o, rc, err);
	rc = end_of_blocks(o, s, offset, limit, err);
	return rc || s->state == SEGMENT_CLOSED ? rc : check_last(o, s, first, err);
}

static int load_segment(struct old_store *o, uint32_t i, struct err *err)
{
	const struct old_segment *s = &o->segments[i];
	if (s->level == LEVEL_POSTINGS)
		return 0;
	int rc = open_segment(o, i, err);
	if (rc == -ENODATA && s->state == SEGMENT_OPEN && !s->end)
		return 0; /* not even its header was written */
	if (rc)
		return rc == -ENODATA ? damaged_at(o->file.path, 0, err) : rc;
	return s->state == SEGMENT_SEALED ? load_sealed(o, i, err) : load_open(o, i, err);
}

int old_open(struct old_store *ret, const char *dir, struct err *err)
{
	struct store s;
	*ret = (struct old_store){ .dir_fd = -1, .file.fd = -1 };
	store_init(&s);
	int rc = store_open_dir(&s, dir, err);
	ret->dir = s.dir;
	ret->dir_fd = s.dir_fd;
	rc = rc ? rc : old_read_header(ret, err);
	rc = rc ? rc : old_read_manifest(ret, err);
	for (size_t i = 0; !rc && i < ret->n_segments; i++)
		rc = load_segment(ret, (uint32_t)i, err);
	if (rc)
		old_close(ret);
	return rc;
}

void old_close(struct old_store *o)
{
	dicts_fini(&o->symbols.d);
	dicts_fini(&o->labels.d);
	file_close(&o->file);
	free(o->blocks);
	free(o->anchors);
	free(o->segments);
	header_fini(&o->header);
	if (o->dir_fd >= 0)
		close(o->dir_fd);
	free(o->dir);
	*o = (struct old_store){ .dir_fd = -1, .file.fd = -1 };
}

/* ---- dictionaries ---- */

static void dictionary_name(char out[FILE_NAME_SIZE], enum kind kind, uint32_t serial)
{
	static const char *const names[] = { [KIND_STRINGS] = "strings",
					     [KIND_FRAMES] = "frames",
					     [KIND_STACKS] = "stacks",
					     [KIND_EVENTS] = "events",
					     [KIND_LEAVES] = "leaves" };
	if (kind == KIND_SETS)
		snprintf(out, FILE_NAME_SIZE, "lab/%08u.log", serial);
	else
		snprintf(out, FILE_NAME_SIZE, "sym/%08u/%s.log", serial, names[kind]);
}

struct loading {
	struct dicts *d;
	enum kind kind;
	struct buf raw;
};

static int on_frame(void *ctx, const struct frame *h, const uint8_t *payload)
{
	struct loading *l = ctx;
	l->raw.len = 0;
	if (h->kind != l->kind || h->raw_len > FRAME_RAW_MAX ||
	    h->first != dicts_count(l->d, l->kind))
		return -EBADMSG;
	int rc = codec_unpack(&l->raw, h->codec, payload, h->stored_len, h->raw_len);
	return rc ? rc : dicts_decode(l->d, l->kind, l->raw.data, l->raw.len, h->count);
}

/* Up to its end or its first bad frame: what a block needs of it is held against that. */
static int load_dictionary(struct old_store *o, struct old_dicts *y, enum kind kind,
			   struct err *err)
{
	const struct place p = { kind, y->serial, 0 };
	char name[FILE_NAME_SIZE];
	struct file f;
	struct loading l = { &y->d, kind, BUF_INIT };
	dictionary_name(name, kind, y->serial);
	int rc = file_open_as(&f, o->dir_fd, o->dir, name, FORMAT_OLD, p, o->header.store_id, false,
			      err);
	if (rc == -ENOENT)
		return err_set(err, -EBADMSG, "%s is missing: the store is damaged", f.path);
	if (rc)
		return rc == -ENODATA ? damaged_at(f.path, 0, err) : rc;
	rc = file_each_frame(&f, FILE_HEADER_SIZE, UINT64_MAX, on_frame, &l, &y->good[kind]);
	buf_fini(&l.raw);
	file_close(&f);
	return rc && rc != -EBADMSG ? err_sys(err, rc, "cannot read %s", f.path) : 0;
}

/* sets: an epoch. */
static int need_dictionaries(struct old_store *o, struct old_dicts *y, uint32_t serial, bool sets,
			     struct err *err)
{
	if (y->loaded && y->serial == serial)
		return 0;
	dicts_fini(&y->d);
	*y = (struct old_dicts){ .serial = serial };
	int rc = dicts_init(&y->d, false) ? cannot_read(o, -ENOMEM, err) : 0;
	for (int k = 1; !rc && k <= N_DICTS; k++)
		if ((k == KIND_SETS) == sets)
			rc = load_dictionary(o, y, k, err);
	y->loaded = !rc;
	return rc;
}

/* A block may not name what a dictionary lacks. */
static int check_marks(const struct old_store *o, const struct old_block *r, struct err *err)
{
	for (int k = 1; k <= N_DICTS; k++) {
		const struct old_dicts *y = k == KIND_SETS ? &o->labels : &o->symbols;
		char name[FILE_NAME_SIZE];
		if (r->bytes[k] <= y->good[k])
			continue;
		dictionary_name(name, k, y->serial);
		return err_set(err, -EBADMSG, "%s/%s is damaged or cut short at offset %llu",
			       o->dir, name, (unsigned long long)y->good[k]);
	}
	return 0;
}

/* ---- a block ---- */

int old_damaged(const struct old_store *o, const struct old_block *r, struct err *err)
{
	return damaged_at(o->file.path, r->offset, err);
}

static int result(const struct old_store *o, const struct old_block *r, int rc, struct err *err)
{
	if (rc == -EBADMSG || rc == -ENODATA)
		return old_damaged(o, r, err);
	return rc ? cannot_read(o, rc, err) : 0;
}

static bool same_info(const struct old_block *a, const struct old_block *b)
{
	const struct store_block *x = &a->b, *y = &b->b;
	return x->t0_ns == y->t0_ns && x->t1_ns == y->t1_ns && x->level == y->level &&
	       x->seq == y->seq && x->n_rows == y->n_rows && x->n_folded == y->n_folded &&
	       x->n_table == y->n_table && a->generation == b->generation && a->epoch == b->epoch;
}

/* The columns of rows, table and totals. */
static int read_columns(struct old_store *o, const struct old_block *r, struct old_contents *ret)
{
	struct buf payload = BUF_INIT;
	struct old_block again = *r;
	struct frame f;
	int rc = file_frame(&o->file, r->offset, UINT64_MAX, &f, &payload);
	if (!rc && (f.kind != KIND_BLOCKS || f.stored_len != r->stored_len))
		rc = -EBADMSG;
	if (!rc)
		rc = decode_head(&ret->head, &again, payload.data,
				 payload.len < HEAD_MAX ? payload.len : HEAD_MAX, payload.len);
	if (!rc && !same_info(&again, r))
		rc = -EBADMSG;
	for (int c = COLUMN_TOTALS; !rc && c <= COLUMN_TABLE_BIN; c++)
		if (block_has(&ret->head, c))
			rc = block_unpack(&ret->head, c, payload.data + ret->head.column[c].at,
					  &ret->column[c]);
	buf_fini(&payload);
	return rc;
}

static int decode_contents(struct old_store *o, struct old_contents *c)
{
	const struct dicts *d = &o->symbols.d;
	const struct store_meta *m = &o->header.meta;
	struct block_head *h = &c->head;
	const uint32_t *n = h->mark.count;
	struct cursor totals = cursor_of(&c->column[COLUMN_TOTALS]);
	if (n[KIND_LEAVES] > d->n_leaves || !n[KIND_LEAVES] || n[KIND_EVENTS] > d->n_events ||
	    n[KIND_SETS] > o->labels.d.n_sets)
		return -EBADMSG;
	c->limits = (struct rows_limits){ h->info.n_table ? h->info.n_table : n[KIND_SETS],
					  n[KIND_LEAVES], n[KIND_EVENTS], d->events };
	c->has_sets = !(h->info.flags & (OLD_FOLDED_ONLY | OLD_NO_ROWS));
	h->info.level = 0; /* rows by label set stand in blocks of all levels here */
	int rc = block_has(h, COLUMN_TOTALS)
			 ? totals_decode(&c->totals, &totals, m->n_lost, m->n_flagged)
			 : -EBADMSG;
	if (rc || !h->info.n_table)
		return rc;
	return !block_has(h, COLUMN_TABLE_NARROW)
		       ? -EBADMSG
		       : settable_decode(&c->table, c->column + COLUMN_TABLE_NARROW,
					 h->info.n_table, n[KIND_SETS], o->labels.d.label_text.n,
					 NULL);
}

int old_read(struct old_store *o, const struct old_block *r, struct old_contents *ret,
	     struct err *err)
{
	*ret = (struct old_contents){ 0 };
	int rc = open_segment(o, r->segment, err);
	rc = rc ? rc : need_dictionaries(o, &o->symbols, r->generation, false, err);
	rc = rc ? rc : need_dictionaries(o, &o->labels, r->epoch, true, err);
	rc = rc ? rc : check_marks(o, r, err);
	rc = rc ? rc : result(o, r, read_columns(o, r, ret), err);
	rc = rc ? rc : result(o, r, decode_contents(o, ret), err);
	if (rc)
		old_contents_fini(ret);
	return rc;
}

void old_contents_fini(struct old_contents *c)
{
	for (int i = 0; i < N_COLUMNS; i++)
		buf_fini(&c->column[i]);
	settable_fini(&c->table);
	totals_fini(&c->totals);
	*c = (struct old_contents){ 0 };
}
