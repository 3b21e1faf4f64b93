/* SPDX-License-Identifier: Apache-2.0 */
#include "import/message_memory.h"

#include <stdlib.h>

static void *bounded_alloc(void *ctx, size_t size)
{
	struct message_memory *m = ctx;
	size_t need = size + 32; /* what the allocator itself takes, about */
	if (need < size || need > m->left) {
		m->exceeded = true;
		return NULL;
	}
	m->left -= need;
	return calloc(1, size ? size : 1);
}

static void bounded_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

void message_memory_init(struct message_memory *m, size_t bytes)
{
	*m = (struct message_memory){ .allocator = { bounded_alloc, bounded_free, m },
				      .left = bytes };
}

void message_free(ProtobufCMessage *msg, struct message_memory *m)
{
	if (msg)
		protobuf_c_message_free_unpacked(msg, &m->allocator);
}
