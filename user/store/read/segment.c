/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments: files of blocks of one level, and the index of what is in them. A sealed segment ends
 * with its dictionaries and a frame that repeats the fixed part of each of its blocks. Of an open
 * one the heads of the blocks are read.
 */
#include "store/read/store_int.h"

#include "store/file/columns.h"
#include "store/read/symbols.h"
#include "util/array.h"
#include "util/crc32c.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define OPEN_MAX 128 /* descriptors kept */
#define INDEX_ENTRY (12 + BLOCK_SIZE)

int store_add_segment(struct store *s, const struct manifest_segment *m, struct segment **ret)
{
	int rc = ARRAY_RESERVE(s->segments, s->segments_cap, s->n_segments + 1);
	if (rc)
		return rc;
	struct segment *g = &s->segments[s->n_segments++];
	*g = (struct segment){ .m = *m, .file = { .fd = -1 }, .names = { .fd = -1 } };
	if (ret)
		*ret = g;
	return 0;
}

int store_take_segments(struct store *s, struct manifest_segment *v, size_t n)
{
	int rc = ARRAY_RESERVE(s->segments, s->segments_cap, s->n_segments + n + 1);
	for (size_t i = 0; i < n; i++) {
		if (rc)
			manifest_segment_fini(&v[i]);
		else
			store_add_segment(s, &v[i], NULL);
	}
	free(v);
	return rc;
}

static void segment_close(struct store *s, struct segment *g)
{
	if (g->file.fd < 0)
		return;
	file_close(&g->file);
	s->n_open--;
}

void store_drop_segment(struct store *s, size_t i)
{
	struct segment *g = &s->segments[i];
	segment_close(s, g);
	file_close(&g->names);
	symbols_free(g);
	free(g->refs);
	manifest_segment_fini(&g->m);
	memmove(g, g + 1, (--s->n_segments - i) * sizeof(*g));
	for (; i < s->n_segments; i++)
		for (size_t k = 0; k < s->segments[i].n_refs; k++)
			s->segments[i].refs[k].segment = (uint32_t)i;
}

void segment_unload(struct store *s, struct segment *g)
{
	segment_close(s, g);
	free(g->refs);
	g->refs = NULL;
	g->n_refs = g->refs_cap = 0;
	g->loaded = false;
}

int segment_open(struct store *s, struct segment *g, struct err *err)
{
	if (g->file.fd >= 0)
		return 0;
	const uint32_t most = s->in ? OPEN_MAX / (uint32_t)s->in->n_parts : OPEN_MAX;
	for (size_t i = 0; s->n_open >= most && i < s->n_segments; i++)
		if (s->segments[i].m.state != SEGMENT_OPEN)
			segment_close(s, &s->segments[i]);
	struct place p = { KIND_BLOCKS, g->m.serial, g->m.level };
	int rc = file_open(&g->file, s->dir_fd, s->dir, p, s->header.store_id,
			   s->write && g->m.state == SEGMENT_OPEN, err);
	s->n_open += !rc;
	return rc;
}

int segment_add_ref(struct store *s, struct segment *g, const struct block_head *h, uint64_t offset,
		    uint32_t stored_len)
{
	int rc = ARRAY_RESERVE(g->refs, g->refs_cap, g->n_refs + 1);
	if (rc)
		return rc;
	struct block_ref *r = &g->refs[g->n_refs++];
	*r = (struct block_ref){ .b = h->info,
				 .offset = offset,
				 .stored_len = stored_len,
				 .segment = (uint32_t)(g - s->segments),
				 .part = s->part };
	r->mark = h->mark.bytes;
	return 0;
}

void segment_describe(struct segment *g)
{
	struct manifest_segment *m = &g->m;
	m->n_blocks = (uint32_t)g->n_refs;
	for (size_t i = 0; i < g->n_refs; i++) {
		const struct store_block *b = &g->refs[i].b;
		m->t0_ns = i && m->t0_ns < b->t0_ns ? m->t0_ns : b->t0_ns;
		m->t1_ns = i && m->t1_ns > b->t1_ns ? m->t1_ns : b->t1_ns;
		m->seq_lo = i ? m->seq_lo : b->seq;
		m->seq_hi = b->seq + 1;
	}
}

/* ---- the index of a sealed one ---- */

/* The fixed part of a head by itself: a block without columns. */
static int encode_head(struct buf *out, const struct block_ref *r)
{
	struct block b = { .info = r->b, .mark.bytes = r->mark };
	struct buf one = BUF_INIT;
	int rc = block_encode(&one, &b);
	if (!rc)
		rc = buf_add(out, one.data, one.len);
	buf_fini(&one);
	return rc;
}

int segment_encode_index(struct buf *out, const struct segment *g)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < g->n_refs; i++) {
		rc = buf_add_u64(out, g->refs[i].offset);
		rc |= buf_add_u32(out, g->refs[i].stored_len);
		if (!rc)
			rc = encode_head(out, &g->refs[i]);
	}
	return rc;
}

static bool follows(const struct segment *g, const struct store_block *b)
{
	return b->level == g->m.level && (!g->n_refs || b->seq > g->refs[g->n_refs - 1].b.seq);
}

static int load_index(struct store *s, struct segment *g)
{
	struct buf payload = BUF_INIT, raw = BUF_INIT;
	struct frame f;
	int rc = file_frame(&g->file, g->m.index_at, g->m.end, &f, &payload);
	if (!rc)
		rc = f.kind != KIND_INDEX || f.raw_len > FRAME_RAW_MAX ||
				     f.raw_len != (uint64_t)g->m.n_blocks * INDEX_ENTRY
			     ? -EBADMSG
			     : codec_unpack(&raw, f.codec, payload.data, payload.len, f.raw_len);
	struct cursor c = cursor_of(&raw);
	while (!rc && cursor_left(&c)) {
		struct block_head h;
		uint64_t offset = cursor_u64(&c);
		uint32_t stored_len = cursor_u32(&c);
		const uint8_t *p = cursor_bytes(&c, BLOCK_SIZE);
		rc = p ? block_decode_head(&h, p, BLOCK_SIZE, BLOCK_SIZE) : -EBADMSG;
		if (!rc && (!follows(g, &h.info) || offset > g->m.symbols_at ||
			    stored_len > g->m.symbols_at - offset))
			rc = -EBADMSG;
		if (!rc)
			rc = segment_add_ref(s, g, &h, offset, stored_len);
	}
	buf_fini(&payload);
	buf_fini(&raw);
	return rc == -ENODATA ? -EBADMSG : rc;
}

/* ---- the heads of an open one ---- */

static int read_head(const struct file *f, uint64_t offset, uint64_t limit, struct frame *ret_frame,
		     struct block_head *ret)
{
	uint8_t data[BLOCK_HEAD_MAX];
	struct frame h;
	int rc = file_frame(f, offset, limit, &h, NULL);
	if (rc)
		return rc;
	size_t len = h.stored_len < sizeof(data) ? h.stored_len : sizeof(data);
	rc = file_read(f, offset + FRAME_SIZE, data, len);
	if (!rc && h.kind == KIND_BLOCKS)
		rc = block_decode_head(ret, data, len, h.stored_len);
	if (!rc)
		*ret_frame = h;
	return rc;
}

/* What follows offset is no whole block: the torn end, or damage with blocks behind it. */
static int end_of_blocks(struct store *s, struct segment *g, uint64_t offset, uint64_t limit,
			 struct err *err)
{
	uint64_t found = UINT64_MAX;
	if (offset >= limit)
		return 0;
	int rc = offset < g->m.end ? 0 : file_find_frame(&g->file, KIND_BLOCKS, offset + 1, &found);
	if (rc)
		return err_sys(err, rc, "cannot read %s", g->file.path);
	if (found != UINT64_MAX || offset < g->m.end)
		return err_set(err, -EBADMSG, "%s is damaged at offset %llu", g->file.path,
			       (unsigned long long)offset);
	snprintf(s->damage, sizeof(s->damage),
		 "%s: the last block is incomplete (offset %llu), it is left out", g->file.path,
		 (unsigned long long)offset);
	return 0;
}

/*
 * A block is written after the one before was synced: only the last can be torn without its head
 * showing it. What was cut off at a clean end is damage.
 */
static int check_last(struct store *s, struct segment *g, struct err *err)
{
	struct buf payload = BUF_INIT;
	struct frame h;
	if (!g->n_refs)
		return 0;
	const struct block_ref *last = &g->refs[g->n_refs - 1];
	uint64_t offset = last->offset;
	int rc = file_frame(&g->file, offset, g->file.size, &h, &payload);
	buf_fini(&payload);
	if (rc != -EBADMSG)
		return rc ? err_sys(err, rc, "cannot read %s", g->file.path) : 0;
	g->n_refs--;
	return end_of_blocks(s, g, offset, g->file.size, err);
}

static int load_heads(struct store *s, struct segment *g, struct err *err)
{
	uint64_t offset = FILE_HEADER_SIZE,
		 limit = g->m.state == SEGMENT_CLOSED ? g->m.end : g->file.size;
	struct frame f;
	struct block_head h;
	int rc;
	while (!(rc = read_head(&g->file, offset, limit, &f, &h)) && f.kind == KIND_BLOCKS) {
		if (!follows(g, &h.info))
			return err_set(err, -EBADMSG, "%s is damaged at offset %llu", g->file.path,
				       (unsigned long long)offset);
		rc = segment_add_ref(s, g, &h, offset, f.stored_len);
		if (rc)
			return err_sys(err, rc, "cannot read %s", g->file.path);
		offset = frame_end(&f);
	}
	if (!rc)
		limit = offset; /* it was being sealed */
	if (rc && rc != -ENODATA && rc != -EBADMSG)
		return err_sys(err, rc, "cannot read %s", g->file.path);
	if (g->file.size < g->m.end)
		return err_set(err, -EBADMSG, "%s is cut short at offset %llu", g->file.path,
			       (unsigned long long)offset);
	rc = end_of_blocks(s, g, offset, limit, err);
	return rc || g->m.state == SEGMENT_CLOSED ? rc : check_last(s, g, err);
}

int segment_load(struct store *s, struct segment *g, struct err *err)
{
	if (g->loaded)
		return 0;
	int rc = segment_open(s, g, err);
	if (rc == -ENOENT) {
		rc = store_missing(s, g->file.path, err);
		return rc == -EBADMSG && g->m.state != SEGMENT_OPEN ? -ENOENT : rc;
	}
	if (rc == -ENODATA && g->m.state == SEGMENT_OPEN && !g->m.end) {
		g->loaded = true;
		return 0;
	}
	if (rc)
		return rc == -ENODATA ? -EBADMSG : rc;
	if (g->m.state == SEGMENT_SEALED) {
		rc = load_index(s, g);
		if (rc == -EBADMSG)
			err_set(err, rc, "%s is damaged at offset %llu", g->file.path,
				(unsigned long long)g->m.index_at);
		else if (rc)
			err_sys(err, rc, "cannot read %s", g->file.path);
	} else {
		rc = load_heads(s, g, err);
	}
	if (rc)
		g->n_refs = 0;
	g->loaded = !rc;
	return rc;
}

const struct block_ref *store_ref(const struct store_block *b)
{
	return (const struct block_ref *)b;
}
