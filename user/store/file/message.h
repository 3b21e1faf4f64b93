/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HEADER and MANIFEST: a fixed part, then a protobuf message (store.proto). The fixed part is the
 * same in every version of the format: magic, version, length of the payload, store id, two
 * checksums.
 */
#ifndef ASCRIBE_STORE_FILE_MESSAGE_H
#define ASCRIBE_STORE_FILE_MESSAGE_H

#include "util/buf.h"

#include <protobuf-c/protobuf-c.h>

/* Append the fixed part and the payload. -ENOMEM. */
int message_frame(struct buf *out, const char magic[8], uint64_t store_id,
		  const struct buf *payload);
/* Check a whole file. -EBADMSG; -EPROTONOSUPPORT: it has another version than the wanted one. */
int message_check(const struct buf *b, const char magic[8], uint32_t wanted_version,
		  uint64_t *ret_store_id, uint32_t *ret_version);
/* Append a message. -ENOMEM. */
int message_pack(struct buf *out, const ProtobufCMessage *m);
/* The payload of a file, to be freed with protobuf_c_message_free_unpacked. -EBADMSG, -ENOMEM. */
int message_unpack(const ProtobufCMessageDescriptor *d, const struct buf *b,
		   ProtobufCMessage **ret);

/* Fields that a newer version added: they are written again as they were. */
struct message_unknown {
	uint8_t *data; /* owned */
	size_t len;
};

/* Copy the fields of a message that this program does not know. -EBADMSG, -ENOMEM. */
int message_keep_unknown(const ProtobufCMessage *m, struct message_unknown *ret);
/* Append them behind the message that has them. -ENOMEM. */
int message_add_unknown(struct buf *out, const struct message_unknown *u);

/* The unknown fields of the messages of a repeated field, by position. */
struct message_unknowns {
	struct message_unknown *v; /* owned */
	size_t n;
};

/* Copy them. -ENOMEM; free *ret whatever the result. */
int message_keep_unknowns(ProtobufCMessage *const *m, size_t n, struct message_unknowns *ret);
/* Those of message i; NULL where fewer messages were read. */
const struct message_unknown *message_unknown_at(const struct message_unknowns *u, size_t i);
void message_free_unknowns(struct message_unknowns *u);

#endif
