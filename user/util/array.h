/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing a typed array that its owner keeps as (pointer, capacity).
 */
#ifndef ASCRIBE_UTIL_ARRAY_H
#define ASCRIBE_UTIL_ARRAY_H

#include "util/room.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_DOUBLES 65536 /* elements; a larger array grows by a quarter, to waste less */

static inline int array_grow(void **p, size_t *cap, size_t need, size_t size)
{
	if (need <= *cap) {
		room_ask(*p, need * size);
		return 0;
	}
	size_t n = *cap ? *cap : 16;
	while (n < need) {
		if (n > SIZE_MAX / 4)
			return -ENOMEM;
		n += n < ARRAY_DOUBLES ? n : n / 4;
	}
	if (n > SIZE_MAX / 2 / size)
		return -ENOMEM;
	void *q = realloc(*p, n * size);
	if (!q)
		return -ENOMEM;
	room_begin(q, need * size, n * size);
	*p = q;
	*cap = n;
	return 0;
}

static inline int array_grow_cleared(void **p, size_t *cap, size_t need, size_t size)
{
	const size_t had = *cap;
	int rc = array_grow(p, cap, need, size);
	if (rc || *cap == had)
		return rc;
	room_ask(*p, *cap * size);
	memset((char *)*p + had * size, 0, (*cap - had) * size);
	return 0;
}

/*
 * Room for `need` elements in all; new elements are not cleared. 0 or -ENOMEM, and then nothing has
 * changed.
 */
#define ARRAY_RESERVE(p, cap, need) array_grow((void **)&(p), &(cap), (need), sizeof(*(p)))

/* The same, but all elements up to the capacity may be used: new ones are 0. */
#define ARRAY_RESERVE_CLEARED(p, cap, need) \
	array_grow_cleared((void **)&(p), &(cap), (need), sizeof(*(p)))

#endif
