/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that does not move and is given back as a whole. */
#ifndef ASCRIBE_UTIL_CHUNKS_H
#define ASCRIBE_UTIL_CHUNKS_H

#include <stddef.h>

struct chunks {
	struct chunk *last;
	size_t bytes; /* what they take in memory */
};

/* len bytes on a multiple of align, a power of two, at most 16. NULL: out of memory. */
void *chunks_alloc(struct chunks *c, size_t len, size_t align);
/* Forget what was given. */
void chunks_fini(struct chunks *c);

#endif
