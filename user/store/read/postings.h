/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Postings: for the values of wide keys, which windows of an hour have them. A value is known by 28
 * bits of a hash of key and value; a hit may be another value, so that what is found is read and
 * compared.
 *
 * A block of postings has two columns that are stored as they are, so that a question reads one
 * bucket. POST_HEAD has bits, base seq, then offset, length and CRC of each of 2^bits buckets.
 * POST_DATA has the buckets. A bucket holds the hashes whose upper bits are its number, ascending.
 * Per hash: varint difference, then varint (seq - base) * 2 where one window has it, or length * 2
 * + 1 and a roaring bitmap in its portable form.
 */
#ifndef ASCRIBE_STORE_READ_POSTINGS_H
#define ASCRIBE_STORE_READ_POSTINGS_H

#include "store/block/settable.h"
#include "store/read/store_int.h"

/* Of a million hashes in an hour one in 270 is that of another value, too. */
#define POSTINGS_HASH_BITS 28
#define POSTINGS_BITS_MAX 16
#define POSTINGS_ENTRY_SIZE 12

uint32_t postings_hash(const char *key, size_t key_len, const struct settable_label *value);

/* Call cb with the seq of each window that may have it. */
int postings_find(struct store *s, const struct block_ref *r, uint32_t hash,
		  int (*cb)(void *ctx, uint32_t seq), void *ctx, struct err *err);

#endif
