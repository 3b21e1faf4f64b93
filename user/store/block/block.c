/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block/block.h"

#include "store/file/columns.h"
#include "util/crc32c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int encode_info(struct buf *out, const struct block *b, uint8_t n_columns)
{
	const struct store_block *i = &b->info;
	int rc = buf_reserve(out, BLOCK_SIZE);
	if (rc)
		return rc;
	buf_add_u64(out, (uint64_t)i->t0_ns);
	buf_add_u64(out, (uint64_t)i->t1_ns);
	buf_add_u64(out, (uint64_t)i->boot_ns);
	buf_add_u8(out, i->level);
	buf_add_u8(out, n_columns);
	buf_add_u8(out, (uint8_t)i->flags);
	buf_add_u8(out, 0);
	buf_add_u32(out, i->n_rows);
	buf_add_u64(out, b->mark.bytes);
	for (int k = 1; k <= N_DICTS; k++)
		buf_add_u32(out, b->mark.count[k]);
	const uint32_t v[] = { i->seq,	     i->n_children, i->child_lo, i->child_hi,
			       i->n_windows, i->anchor,	    i->n_folded, i->n_table,
			       i->window_lo, i->window_hi,  i->idle };
	for (size_t k = 0; k < sizeof(v) / sizeof(v[0]); k++)
		buf_add_u32(out, v[k]);
	return buf_add_u32(out, 0); /* the checksum */
}

static int encode_entry(struct buf *out, uint8_t id, uint8_t codec, size_t raw_len,
			const uint8_t *stored, size_t len)
{
	int rc = buf_reserve(out, COLUMN_SIZE);
	if (rc)
		return rc;
	buf_add_u8(out, id);
	buf_add_u8(out, codec);
	buf_add(out, "\0", 2);
	buf_add_u32(out, (uint32_t)raw_len);
	buf_add_u32(out, (uint32_t)len);
	return buf_add_u32(out, crc32c(stored, len));
}

static int encode_columns(struct buf *out, const struct block *b, struct buf *data)
{
	int rc = 0;
	for (uint8_t i = 0; !rc && i < N_COLUMNS; i++) {
		const struct buf *c = &b->column[i];
		size_t before = data->len;
		uint8_t codec = CODEC_RAW;
		if (!(b->has >> i & 1))
			continue;
		if (c->len > FRAME_STORED_MAX)
			return -E2BIG;
		if (i >= COLUMN_FIRST_RAW)
			rc = buf_add(data, c->data, c->len);
		else if (i == COLUMN_SET) /* numbers of label sets: the others have little noise */
			rc = codec_pack_varints(data, c->data, c->len, &codec);
		else
			rc = codec_pack(data, c->data, c->len, &codec);
		if (!rc)
			rc = encode_entry(out, i, codec, c->len, data->data + before,
					  data->len - before);
	}
	return rc;
}

int block_encode(struct buf *out, const struct block *b)
{
	struct buf data = BUF_INIT;
	int rc = encode_info(out, b, (uint8_t)__builtin_popcount(b->has));
	if (!rc)
		rc = encode_columns(out, b, &data);
	if (!rc) {
		/* The checksum stands in the last bytes of the fixed part, which count as 0. */
		uint32_t crc = crc32c(out->data, out->len);
		for (int i = 0; i < 4; i++)
			out->data[BLOCK_SIZE - 4 + i] = (uint8_t)(crc >> 8 * i);
		rc = buf_add(out, data.data, data.len);
	}
	buf_fini(&data);
	return rc;
}

void block_fini(struct block *b)
{
	if (!b)
		return;
	for (int i = 0; i < N_COLUMNS; i++)
		buf_fini(&b->column[i]);
	memset(b, 0, sizeof(*b));
}

/* ---- decoding ---- */

void block_decode_begin(struct store_block *i, struct cursor *c, uint8_t *ret_columns)
{
	i->t0_ns = (int64_t)cursor_u64(c);
	i->t1_ns = (int64_t)cursor_u64(c);
	i->boot_ns = (int64_t)cursor_u64(c);
	i->level = cursor_u8(c);
	*ret_columns = cursor_u8(c);
	i->flags = cursor_u8(c);
	cursor_u8(c);
	i->n_rows = cursor_u32(c);
}

void block_decode_end(struct store_block *i, struct cursor *c)
{
	i->seq = cursor_u32(c);
	i->n_children = cursor_u32(c);
	i->child_lo = cursor_u32(c);
	i->child_hi = cursor_u32(c);
	i->n_windows = cursor_u32(c);
	i->anchor = cursor_u32(c);
	i->n_folded = cursor_u32(c);
	i->n_table = cursor_u32(c);
	i->window_lo = cursor_u32(c);
	i->window_hi = cursor_u32(c);
	i->idle = cursor_u32(c);
	cursor_bytes(c, 4);
}

static void decode_info(struct block_head *h, struct cursor *c, uint8_t *ret_columns)
{
	block_decode_begin(&h->info, c, ret_columns);
	h->mark.bytes = cursor_u64(c);
	for (int k = 1; k <= N_DICTS; k++)
		h->mark.count[k] = cursor_u32(c);
	block_decode_end(&h->info, c);
}

/* Columns that this program does not know are passed over. */
static int decode_columns(struct block_head *h, struct cursor *c, uint8_t n, size_t size,
			  uint64_t payload_len)
{
	uint64_t at = size + (uint64_t)n * COLUMN_SIZE;
	for (uint8_t i = 0; i < n; i++) {
		uint8_t id = cursor_u8(c), codec = cursor_u8(c);
		cursor_bytes(c, 2);
		uint32_t raw = cursor_u32(c), stored = cursor_u32(c), crc = cursor_u32(c);
		if (id < N_COLUMNS) {
			if (h->has >> id & 1)
				return -EBADMSG;
			h->has |= 1u << id;
			h->column[id] =
				(struct block_column){ (uint32_t)at, raw, stored, crc, codec };
		}
		at += stored;
	}
	/* 32 lengths of 32 bits at most: their sum does not overflow. */
	return !c->bad && at == payload_len ? 0 : -EBADMSG;
}

static uint32_t head_crc(const uint8_t *data, size_t len, size_t size)
{
	uint8_t copy[OLD_BLOCK_SIZE + COLUMNS_OF_BLOCK_MAX * COLUMN_SIZE];
	memcpy(copy, data, len);
	memset(copy + size - 4, 0, 4);
	return crc32c(copy, len);
}

int block_decode_directory(struct block_head *h, struct cursor *c, uint8_t n, size_t size,
			   const uint8_t *data, size_t len, uint64_t payload_len)
{
	size_t head = size + (size_t)n * COLUMN_SIZE;
	if (n > COLUMNS_OF_BLOCK_MAX || head > len)
		return -EBADMSG;
	struct cursor crc = { data + size - 4, data + size, 0 };
	if (cursor_u32(&crc) != head_crc(data, head, size))
		return -EBADMSG;
	const struct store_block *i = &h->info;
	if (i->level >= N_SEGMENT_LEVELS || i->t0_ns >= i->t1_ns || i->n_rows > ROWS_MAX ||
	    i->n_folded > ROWS_MAX || i->n_table > TABLE_MAX || i->child_lo > i->child_hi)
		return -EBADMSG;
	return decode_columns(h, c, n, size, payload_len);
}

int block_decode_head(struct block_head *ret, const uint8_t *data, size_t len, uint64_t payload_len)
{
	struct cursor c = { data, data + len, 0 };
	struct block_head h = { 0 };
	uint8_t n_columns = 0;
	if (len < BLOCK_SIZE || payload_len > UINT32_MAX)
		return -EBADMSG;
	decode_info(&h, &c, &n_columns);
	int rc = block_decode_directory(&h, &c, n_columns, BLOCK_SIZE, data, len, payload_len);
	if (!rc)
		*ret = h;
	return rc;
}

int block_unpack(const struct block_head *h, enum column c, const uint8_t *stored, struct buf *out)
{
	const struct block_column *d = &h->column[c];
	if (!block_has(h, c) || d->raw_len > FRAME_STORED_MAX ||
	    crc32c(stored, d->stored_len) != d->crc)
		return -EBADMSG;
	return codec_unpack(out, d->codec, stored, d->stored_len, d->raw_len);
}
