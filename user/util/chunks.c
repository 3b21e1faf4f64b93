/* SPDX-License-Identifier: Apache-2.0 */
#include "util/chunks.h"

#include "util/room.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Each has twice the size of the one before, so that little stays little. */
#define FIRST_SIZE ((size_t)1 << 10)
#define LAST_SIZE ((size_t)1 << 18)

struct chunk {
	struct chunk *before;
	size_t used, size;
	_Alignas(16) uint8_t data[];
};

static struct chunk *add_chunk(struct chunks *c, size_t len)
{
	size_t size = c->last ? 2 * c->last->size : FIRST_SIZE;
	size = size > LAST_SIZE ? LAST_SIZE : size;
	size = size < len ? len : size;
	struct chunk *new = malloc(sizeof(*new) + size);
	if (!new)
		return NULL;
	*new = (struct chunk){ .before = c->last, .size = size };
	room_begin(new->data, 0, size);
	c->last = new;
	c->bytes += sizeof(*new) + size;
	return new;
}

void *chunks_alloc(struct chunks *c, size_t len, size_t align)
{
	struct chunk *k = c->last;
	size_t at = k ? (k->used + align - 1) & ~(align - 1) : 0;
	if (!k || at > k->size || len > k->size - at) {
		k = add_chunk(c, len);
		at = 0;
	}
	if (!k)
		return NULL;
	k->used = at + len;
	room_ask(k->data, k->used);
	return k->data + at;
}

void chunks_fini(struct chunks *c)
{
	for (struct chunk *k = c->last, *before; k; k = before) {
		before = k->before;
		free(k);
	}
	memset(c, 0, sizeof(*c));
}
