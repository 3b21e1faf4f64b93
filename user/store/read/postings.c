/* SPDX-License-Identifier: Apache-2.0 */
#include "store/read/postings.h"

#include "store/block/settable.h"
#include "store/read/block_data.h"
#include "util/crc32c.h"

#include <errno.h>
#include <roaring/roaring.h>
#include <xxhash.h>

uint32_t postings_hash(const char *key, size_t key_len, const struct settable_label *value)
{
	uint8_t tail[9] = { 0 };
	XXH64_hash_t h = XXH64(key, key_len, 0);
	if (value->type == LABEL_INT) {
		for (int i = 0; i < 8; i++)
			tail[i] = (uint8_t)((uint64_t)value->num >> 8 * i);
		return (uint32_t)XXH64(tail, 8, h + 1) >> (32 - POSTINGS_HASH_BITS);
	}
	return (uint32_t)XXH64(value->str, value->len, h) >> (32 - POSTINGS_HASH_BITS);
}

static int give(uint32_t base, const uint8_t *bitmap, size_t len,
		int (*cb)(void *ctx, uint32_t seq), void *ctx)
{
	roaring_bitmap_t *r = roaring_bitmap_portable_deserialize_safe((const char *)bitmap, len);
	roaring_uint32_iterator_t it;
	int rc = 0;
	if (!r)
		return -EBADMSG;
	roaring_init_iterator(r, &it);
	for (; !rc && it.has_value; roaring_advance_uint32_iterator(&it))
		rc = cb(ctx, base + it.current_value);
	roaring_bitmap_free(r);
	return rc;
}

static int search(struct cursor *c, uint32_t at, uint32_t hash, uint32_t base,
		  int (*cb)(void *ctx, uint32_t seq), void *ctx)
{
	while (cursor_left(c) && at <= hash) {
		uint64_t step = cursor_varint(c), what = cursor_varint(c);
		const uint8_t *bitmap = what & 1 ? cursor_bytes(c, what / 2) : NULL;
		if (c->bad || step > UINT32_MAX - at)
			return -EBADMSG;
		at += (uint32_t)step;
		if (at != hash)
			continue;
		return bitmap ? give(base, bitmap, what / 2, cb, ctx)
			      : cb(ctx, base + (uint32_t)(what / 2));
	}
	return 0;
}

int postings_find(struct store *s, const struct block_ref *r, uint32_t hash,
		  int (*cb)(void *ctx, uint32_t seq), void *ctx, struct err *err)
{
	uint8_t fixed[8], entry[POSTINGS_ENTRY_SIZE];
	struct block_data d;
	struct buf bucket = BUF_INIT;
	int rc = block_read(s, r, 0, &d, err);
	if (rc)
		return rc;
	const struct block_column *head = &d.head.column[COLUMN_POST_HEAD],
				  *data = &d.head.column[COLUMN_POST_DATA];
	if (!block_has(&d.head, COLUMN_POST_HEAD) || !block_has(&d.head, COLUMN_POST_DATA) ||
	    head->stored_len < 8)
		return block_damaged(s, r, err);
	rc = block_read_raw(s, r, &d.head, COLUMN_POST_HEAD, 0, fixed, sizeof(fixed), err);
	if (rc)
		return rc;
	struct cursor c = { fixed, fixed + 8, 0 };
	uint32_t bits = cursor_u32(&c), base = cursor_u32(&c);
	/*
	 * The shape is checked by the length of the column, which has a checksum; the rest by that
	 * of the bucket.
	 */
	if (bits > POSTINGS_BITS_MAX ||
	    head->stored_len != 8 + ((uint64_t)POSTINGS_ENTRY_SIZE << bits) ||
	    base != r->b.child_lo)
		return block_damaged(s, r, err);
	uint32_t n = bits ? hash >> (POSTINGS_HASH_BITS - bits) : 0;
	rc = block_read_raw(s, r, &d.head, COLUMN_POST_HEAD, 8 + (uint64_t)n * POSTINGS_ENTRY_SIZE,
			    entry, sizeof(entry), err);
	if (rc)
		return rc;
	c = (struct cursor){ entry, entry + POSTINGS_ENTRY_SIZE, 0 };
	uint32_t at = cursor_u32(&c), len = cursor_u32(&c), crc = cursor_u32(&c);
	if (at > data->stored_len || len > data->stored_len - at)
		return block_damaged(s, r, err);
	if (buf_reserve(&bucket, (size_t)len + 1))
		return err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	rc = block_read_raw(s, r, &d.head, COLUMN_POST_DATA, at, bucket.data, len, err);
	if (!rc && crc32c(bucket.data, len) != crc)
		rc = block_damaged(s, r, err);
	if (!rc) {
		c = (struct cursor){ bucket.data, bucket.data + len, 0 };
		rc = search(&c, bits ? n << (POSTINGS_HASH_BITS - bits) : 0, hash, base, cb, ctx);
		if (rc == -EBADMSG)
			block_damaged(s, r, err);
	}
	buf_fini(&bucket);
	return rc;
}
