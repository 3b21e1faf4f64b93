/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Postings: for the values of wide keys, which windows of an hour have them. A value is known by 28
 * bits of a hash of key and value; a hit may be another value, so that what is found is read and
 * compared.
 */
#ifndef ASCRIBE_STORE_POSTINGS_H
#define ASCRIBE_STORE_POSTINGS_H

#include "store/store_int.h"

uint32_t postings_hash(const char *key, size_t key_len, const struct settable_label *value);

/* Call cb with the seq of each window that may have it. */
int postings_find(struct store *s, const struct block_ref *r, uint32_t hash, int (*cb)(void *ctx, uint32_t seq),
		  void *ctx, struct err *err);

#endif
