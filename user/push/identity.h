/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes that name frames, stacks and label sets in every store and for ever: XXH3, canonical (big
 * endian), of these bytes. Integers are little-endian, texts begin with their length (LEB128).
 *
 *   frame   128 bits   kind u8, flags u8, line u32, offset u64, function, module, build id, file
 *   stack   128 bits   hash of its parent (16 bytes; 0 of the empty stack), hash of its frame
 *   labels  128 bits   for each label, by key: key, value, 1 where the value is an integer else 0
 *   series   64 bits   the same of the labels that roll-ups keep: the lower half
 *
 * Not thread-safe.
 */
#ifndef ASCRIBE_PUSH_IDENTITY_H
#define ASCRIBE_PUSH_IDENTITY_H

#include "store/store.h"
#include "util/buf.h"

#include <xxhash.h>

#define IDENTITY_STACKS 32768 /* of a store, the last of each place */

struct identity {
	struct identity_stack {
		uint32_t id;
		XXH128_hash_t hash;
	} *stacks; /* [IDENTITY_STACKS] */
	struct buf text;
};

/* 0 or -ENOMEM. */
int identity_init(struct identity *i);
void identity_fini(struct identity *i);
/* Ids are those of another store from now on. */
void identity_forget(struct identity *i);

/* 0 or -ENOMEM. */
int identity_of_stack(struct identity *i, const struct store *s, uint32_t stack,
		      XXH128_hash_t *ret);
/* Of a stack whose leaf is (other), below a stack. */
int identity_of_other(struct identity *i, const struct store *s, uint32_t below,
		      XXH128_hash_t *ret);

/* Labels by key. keep: which of them; NULL: all. */
int identity_of_labels(struct identity *i, const struct label *v, size_t n,
		       bool (*keep)(const void *ctx, const struct label *l), const void *ctx,
		       XXH128_hash_t *ret);

#endif
