/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block/keys.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void block_keys_fini(struct block_keys *k)
{
	free(k->v);
	*k = (struct block_keys){ 0 };
}

struct block_key *block_keys_find(const struct block_keys *k, const char *key, size_t len)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->v[i].len == len && !memcmp(k->v[i].key, key, len))
			return &k->v[i];
	return NULL;
}

int block_keys_need(struct block_keys *k, const char *key, size_t len, struct block_key **ret)
{
	*ret = block_keys_find(k, key, len);
	if (*ret)
		return 0;
	k->more |= k->n >= KEYS_MAX;
	if (k->n >= KEYS_MAX)
		return 0;
	int rc = ARRAY_RESERVE(k->v, k->cap, k->n + 1);
	if (rc)
		return rc;
	*ret = &k->v[k->n++];
	**ret = (struct block_key){ .key = key, .len = (uint32_t)len };
	return 0;
}

static int add_list(struct buf *out, const struct block_key *k)
{
	int rc = buf_add_varint(out, k->at);
	rc |= buf_add_varint(out, k->stored_len);
	rc |= buf_add_varint(out, k->raw_len);
	rc |= buf_add_u8(out, k->codec);
	return rc | buf_add_u32(out, k->crc);
}

int block_keys_encode(struct buf *out, const struct block_keys *k)
{
	int rc = buf_add_varint(out, (uint64_t)k->n * 2 + k->more);
	for (size_t i = 0; !rc && i < k->n; i++) {
		rc = buf_add_varint(out, k->v[i].len);
		rc |= buf_add(out, k->v[i].key, k->v[i].len);
		rc |= buf_add_u8(out, (uint8_t)k->v[i].state);
		rc |= buf_add_varint(out, k->v[i].windows);
		if (!rc && k->v[i].state & KEY_PROJECTED)
			rc = add_list(out, &k->v[i]);
	}
	return rc;
}

static int decode_key(struct block_keys *k, struct cursor *c)
{
	uint32_t len = cursor_varint32(c);
	const char *text = (const char *)cursor_bytes(c, len);
	struct block_key *key;
	if (c->bad || len > STRING_MAX || block_keys_find(k, text, len))
		return -EBADMSG;
	int rc = block_keys_need(k, text, len, &key);
	if (rc)
		return rc;
	key->state = cursor_u8(c);
	key->windows = cursor_varint32(c);
	if (key->state & KEY_PROJECTED) {
		key->at = cursor_varint32(c);
		key->stored_len = cursor_varint32(c);
		key->raw_len = cursor_varint32(c);
		key->codec = cursor_u8(c);
		key->crc = cursor_u32(c);
	}
	return c->bad ? -EBADMSG : 0;
}

int block_keys_decode(struct block_keys *ret, const struct buf *raw)
{
	struct cursor c = cursor_of(raw);
	struct block_keys k = { 0 };
	uint64_t n = cursor_varint(&c);
	k.more = n & 1;
	n /= 2;
	int rc = n > KEYS_MAX ? -EBADMSG : 0;
	for (uint64_t i = 0; !rc && i < n; i++)
		rc = decode_key(&k, &c);
	if (!rc && (c.bad || cursor_left(&c)))
		rc = -EBADMSG;
	if (rc)
		block_keys_fini(&k);
	else
		*ret = k;
	return rc;
}
