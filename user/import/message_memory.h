/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator for unpacking protobuf-c messages that limits the memory of one message. Not
 * thread-safe. */
#ifndef ASCRIBE_IMPORT_MESSAGE_MEMORY_H
#define ASCRIBE_IMPORT_MESSAGE_MEMORY_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

struct message_memory {
	ProtobufCAllocator allocator;
	size_t left;   /* bytes */
	bool exceeded; /* unpacking failed for want of them */
};

/* Unpacking with m->allocator fails when it needs more than so many bytes. */
void message_memory_init(struct message_memory *m, size_t bytes);

/* Free a message that was unpacked with m->allocator. NULL is fine. */
void message_free(ProtobufCMessage *msg, struct message_memory *m);

#endif
