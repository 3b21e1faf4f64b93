/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of u32 ids: the owner keeps the content that an id stands for, in an array of its
 * own, and compares it. Open addressing, linear probing, at most half full. Seeded, so that the
 * names that other processes choose cannot be made to collide on purpose. Nothing is ever removed.
 * Not thread-safe.
 */
#ifndef ASCRIBE_UTIL_IDHASH_H
#define ASCRIBE_UTIL_IDHASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IDHASH_NONE UINT32_MAX

struct idhash_slot {
	uint32_t hash;
	uint32_t id; /* IDHASH_NONE: free */
};

/* All zero is an empty table. */
struct idhash {
	struct idhash_slot *slots;
	size_t cap; /* 0 or a power of two */
	size_t n;
	uint64_t seed;
};

uint32_t idhash_hash(struct idhash *h, const void *data, size_t len);

/* Room for one more id, so that the next idhash_put cannot fail. 0 or -ENOMEM. */
int idhash_reserve(struct idhash *h);

/* The id for which eq(ctx, id, key) holds, or IDHASH_NONE. */
uint32_t idhash_find(const struct idhash *h, uint32_t hash,
		     bool (*eq)(const void *ctx, uint32_t id, const void *key), const void *ctx,
		     const void *key);

/* After idhash_reserve, with an id that is not in the table. */
void idhash_put(struct idhash *h, uint32_t hash, uint32_t id);

void idhash_clear(struct idhash *h);
void idhash_fini(struct idhash *h);

#endif
