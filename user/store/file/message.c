/* SPDX-License-Identifier: Apache-2.0 */
#include "store/file/message.h"

#include "store/file/format.h"
#include "util/crc32c.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int message_frame(struct buf *out, const char magic[8], uint64_t store_id,
		  const struct buf *payload)
{
	int rc = buf_reserve(out, HEADER_SIZE + payload->len);
	if (rc)
		return rc;
	buf_add(out, magic, 8);
	buf_add_u32(out, FORMAT_VERSION);
	buf_add_u32(out, (uint32_t)payload->len);
	buf_add_u64(out, store_id);
	buf_add_u32(out, crc32c(payload->data, payload->len));
	buf_add_u32(out, crc32c(out->data, HEADER_SIZE - 4));
	return buf_add(out, payload->data, payload->len);
}

int message_check(const struct buf *b, const char magic[8], uint32_t wanted_version,
		  uint64_t *ret_store_id, uint32_t *ret_version)
{
	struct cursor c = { b->data + 8, b->data + b->len, 0 };
	uint32_t version = cursor_u32(&c), len = cursor_u32(&c);
	uint64_t id = cursor_u64(&c);
	uint32_t payload_crc = cursor_u32(&c), crc = cursor_u32(&c);
	if (memcmp(b->data, magic, 8) || crc != crc32c(b->data, HEADER_SIZE - 4))
		return -EBADMSG;
	*ret_version = version;
	*ret_store_id = id;
	if (version && version != wanted_version)
		return -EPROTONOSUPPORT;
	return !version || len != cursor_left(&c) || payload_crc != crc32c(c.p, len) ? -EBADMSG : 0;
}

int message_pack(struct buf *out, const ProtobufCMessage *m)
{
	int rc = buf_reserve(out, protobuf_c_message_get_packed_size(m) + 1);
	if (!rc)
		out->len += protobuf_c_message_pack(m, out->data + out->len);
	return rc;
}

static void *allocate(void *failed, size_t n)
{
	void *p = malloc(n);
	*(bool *)failed |= !p;
	return p;
}

static void release(void *failed, void *p)
{
	(void)failed;
	free(p);
}

/* The library does not tell a lack of memory from bytes that are no message. */
int message_unpack(const ProtobufCMessageDescriptor *d, const struct buf *b, ProtobufCMessage **ret)
{
	bool failed = false;
	ProtobufCAllocator a = { allocate, release, &failed };
	*ret = protobuf_c_message_unpack(d, &a, b->len - HEADER_SIZE, b->data + HEADER_SIZE);
	return *ret ? 0 : failed ? -ENOMEM : -EBADMSG;
}

/* Each as it stands in a message: its tag, then its bytes. */
int message_keep_unknown(const ProtobufCMessage *m, struct message_unknown *ret)
{
	struct buf b = BUF_INIT;
	int rc = 0;
	for (unsigned i = 0; !rc && i < m->n_unknown_fields; i++) {
		const ProtobufCMessageUnknownField *f = &m->unknown_fields[i];
		/* The library reads number 0 in a long form alone: it would not be read again. */
		rc = f->tag ? buf_add_varint(&b, (uint64_t)f->tag << 3 | f->wire_type) : -EBADMSG;
		if (!rc)
			rc = buf_add(&b, f->data, f->len);
	}
	if (rc) {
		buf_fini(&b);
		return rc;
	}
	*ret = (struct message_unknown){ b.data, b.len };
	return 0;
}

int message_add_unknown(struct buf *out, const struct message_unknown *u)
{
	return u->len ? buf_add(out, u->data, u->len) : 0;
}

int message_keep_unknowns(ProtobufCMessage *const *m, size_t n, struct message_unknowns *ret)
{
	int rc = 0;
	*ret = (struct message_unknowns){ calloc(n, sizeof(*ret->v)), n };
	if (!ret->v) {
		ret->n = 0;
		return -ENOMEM;
	}
	for (size_t i = 0; !rc && i < n; i++)
		rc = message_keep_unknown(m[i], &ret->v[i]);
	return rc;
}

const struct message_unknown *message_unknown_at(const struct message_unknowns *u, size_t i)
{
	return i < u->n ? &u->v[i] : NULL;
}

void message_free_unknowns(struct message_unknowns *u)
{
	for (size_t i = 0; i < u->n; i++)
		free(u->v[i].data);
	free(u->v);
	*u = (struct message_unknowns){ 0 };
}
