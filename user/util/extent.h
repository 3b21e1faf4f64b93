/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parts of an array are free, for an array that somebody else holds. First fit; neighbours
 * are joined when they are given back. Not thread-safe.
 */
#ifndef ASCRIBE_UTIL_EXTENT_H
#define ASCRIBE_UTIL_EXTENT_H

#include <stddef.h>
#include <stdint.h>

struct extent {
	uint32_t at, n;
};

/* All zero: nothing is free. */
struct extents {
	struct extent *v; /* sorted, never touching */
	size_t n, cap;
	uint32_t used; /* elements taken */
};

/* All n elements are free. 0 or -ENOMEM. */
int extents_init(struct extents *e, uint32_t n);

/* n > 0 elements that follow each other: 0, or -ENOSPC. */
int extents_take(struct extents *e, uint32_t n, uint32_t *ret_at);

/* Give back what extents_take gave. -ENOMEM: they stay taken. */
int extents_give(struct extents *e, uint32_t at, uint32_t n);
void extents_fini(struct extents *e);

#endif
