/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/known.h"

#include "util/array.h"
#include "util/bisect.h"

/* The first that begins behind vaddr. */
static size_t behind(const struct known *k, uint64_t vaddr)
{
	return bisect(i, 0, k->n, k->v[i].start <= vaddr);
}

const struct known_piece *known_find(const struct known *k, uint64_t vaddr)
{
	size_t i = behind(k, vaddr);
	return i && vaddr < k->v[i - 1].end ? &k->v[i - 1] : NULL;
}

void known_add(struct known *k, const struct known_piece *piece)
{
	size_t at = behind(k, piece->start);
	bool begins_inside = at && k->v[at - 1].end > piece->start;
	if (begins_inside || k->n >= KNOWN_MAX || ARRAY_RESERVE(k->v, k->cap, k->n + 1))
		return;
	memmove(k->v + at + 1, k->v + at, (k->n - at) * sizeof(*k->v));
	k->v[at] = *piece;
	/* Of a gap between symbols the end may be known already. */
	if (at < k->n && k->v[at + 1].start < piece->end)
		k->v[at].end = k->v[at + 1].start;
	k->n++;
}

void known_fini(struct known *k)
{
	free(k->v);
	*k = (struct known){ 0 };
}
