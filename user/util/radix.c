/* SPDX-License-Identifier: Apache-2.0 */
#include "util/radix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void pass(uint32_t *to, const uint32_t *from, size_t n, const uint32_t *keys, int shift,
		 uint32_t *count)
{
	uint32_t at = 0;
	for (int d = 0; d < 256; d++) {
		uint32_t here = count[d];
		count[d] = at;
		at += here;
	}
	for (size_t i = 0; i < n; i++)
		to[count[keys[from[i]] >> shift & 255]++] = from[i];
}

int radix_sort(uint32_t *order, size_t n, const uint32_t *keys)
{
	uint32_t count[4][256] = { 0 }, *from = order, *to;
	uint32_t *other = malloc((n + 1) * sizeof(*other));
	if (!other)
		return -ENOMEM;
	to = other;
	for (size_t i = 0; i < n; i++)
		for (int d = 0; d < 4; d++)
			count[d][keys[order[i]] >> 8 * d & 255]++;
	for (int d = 0; n && d < 4; d++) {
		if (count[d][keys[order[0]] >> 8 * d & 255] == n)
			continue;
		pass(to, from, n, keys, 8 * d, count[d]);
		uint32_t *t = from;
		from = to;
		to = t;
	}
	if (from != order)
		memcpy(order, from, n * sizeof(*order));
	free(other);
	return 0;
}
