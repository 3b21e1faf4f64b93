/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers by question and state of the store, the least recently used go first. A question that
 * names `now` is asked anew after some seconds, whatever the store. One that took long is answered
 * from memory for some time though windows were added. So many who ask it take at most a part of a
 * worker. Any thread.
 */
#ifndef ASCRIBE_HTTP_CACHE_H
#define ASCRIBE_HTTP_CACHE_H

#include "util/buf.h"

#include <stdbool.h>

struct cache;

int cache_new(struct cache **ret, size_t max_bytes);
void cache_free(struct cache *c);
/* Forget every answer. */
void cache_clear(struct cache *c);

/*
 * Whether there is an answer, past or not: who asks while somebody makes a newer one gets it at
 * once.
 */
bool cache_has(struct cache *c, const struct buf *question);

/* Copies the answer behind out; *ret_type is a static text. */
bool cache_find(struct cache *c, const struct buf *question, uint64_t state, struct buf *out,
		const char **ret_type);
/* Keeps a copy when there is room for it; type is a static text. */
void cache_put(struct cache *c, const struct buf *question, uint64_t state,
	       const struct buf *answer, const char *type, uint64_t cost_ns);
void cache_stats(struct cache *c, uint64_t *ret_hits, uint64_t *ret_misses, uint64_t *ret_bytes);

#endif
