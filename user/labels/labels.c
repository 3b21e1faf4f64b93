/* SPDX-License-Identifier: Apache-2.0 */
#include "labels/labels.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int key_cmp(const struct label *a, const struct label *b)
{
	uint32_t n = a->key_len < b->key_len ? a->key_len : b->key_len;
	int c = n ? memcmp(a->key, b->key, n) : 0;
	if (c)
		return c;
	return a->key_len < b->key_len ? -1 : a->key_len > b->key_len;
}

/* Insertion sort: sets are small and mostly sorted. */
size_t labels_normalize(struct label *v, size_t n)
{
	size_t out = 0;
	for (size_t i = 0; i < n; i++) {
		struct label l = v[i];
		size_t at = out;
		int c = 1;
		while (at > 0 && (c = key_cmp(&v[at - 1], &l)) > 0)
			at--;
		if (at > 0 && c == 0)
			continue;
		memmove(&v[at + 1], &v[at], (out - at) * sizeof(*v));
		v[at] = l;
		out++;
	}
	return out;
}

size_t label_text(const struct label *l, char *out, size_t cap)
{
	if (l->type == LABEL_INT)
		return (size_t)snprintf(out, cap, "%" PRId64, l->num);
	if (cap) {
		size_t n = l->str_len < cap - 1 ? l->str_len : cap - 1;
		if (n)
			memcpy(out, l->str, n);
		out[n] = 0;
	}
	return l->str_len;
}
