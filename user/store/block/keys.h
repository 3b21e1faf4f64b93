/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which label keys the rows of a block have, and how a question by each of them is answered. It is
 * by the sums of label sets, by its projections, or not without the children.
 */
#ifndef ASCRIBE_STORE_BLOCK_KEYS_H
#define ASCRIBE_STORE_BLOCK_KEYS_H

#include "store/block/block.h"

#define KEY_SUMMED 1u	 /* the sums by label set have it */
#define KEY_PROJECTED 2u /* each of its values has its groups */
#define KEY_LISTED 4u	 /* its most frequent values are known */

struct block_key {
	const char *key; /* borrowed */
	uint32_t len;
	unsigned state;	  /* KEY_* */
	uint32_t windows; /* in whose tables it is: postings find those */
	/* KEY_PROJECTED: its list of values, in COLUMN_VALUES. */
	uint32_t at, stored_len, raw_len, crc;
	uint8_t codec;
};

struct block_keys {
	struct block_key *v;
	size_t n, cap;
	bool more; /* there were too many: of one that is not here nothing is known */
};

/* The key, added where it is not there; its text is not copied. NULL: there are too many. -ENOMEM.
 */
int block_keys_need(struct block_keys *k, const char *key, size_t len, struct block_key **ret);
/* NULL: no row has it, unless there are more. */
struct block_key *block_keys_find(const struct block_keys *k, const char *key, size_t len);
int block_keys_encode(struct buf *out, const struct block_keys *k);
/* Texts point into raw. -EBADMSG, -ENOMEM. */
int block_keys_decode(struct block_keys *ret, const struct buf *raw);
void block_keys_fini(struct block_keys *k);

#endif
