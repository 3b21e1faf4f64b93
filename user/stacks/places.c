/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/places.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS (2 * PLACES_MAX)

struct place {
	uint64_t content, addr;
	uint32_t first; /* in frames */
	uint32_t n;	/* 0: free */
};

struct places {
	struct place *slots;
	size_t n;
	uint32_t *frames;
	size_t n_frames, cap_frames;
};

int places_new(struct places **ret)
{
	struct places *p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->slots = calloc(SLOTS, sizeof(*p->slots)); /* touched as it fills */
	if (!p->slots) {
		free(p);
		return -ENOMEM;
	}
	*ret = p;
	return 0;
}

void places_free(struct places *p)
{
	if (!p)
		return;
	free(p->slots);
	free(p->frames);
	free(p);
}

static struct place *slot_of(const struct places *p, uint64_t content, uint64_t addr)
{
	size_t i =
		(size_t)((content ^ addr * 0x9e3779b97f4a7c15ull) * 0x9e3779b97f4a7c15ull >> 40) &
		(SLOTS - 1);
	while (p->slots[i].n && (p->slots[i].content != content || p->slots[i].addr != addr))
		i = (i + 1) & (SLOTS - 1);
	return &p->slots[i];
}

size_t places_find(const struct places *p, uint64_t content, uint64_t addr,
		   const uint32_t **ret_frames)
{
	const struct place *at = slot_of(p, content, addr);
	*ret_frames = p->frames + at->first;
	return at->n;
}

void places_clear(struct places *p)
{
	memset(p->slots, 0, SLOTS * sizeof(*p->slots));
	p->n = p->n_frames = 0;
}

int places_add(struct places *p, uint64_t content, uint64_t addr, const uint32_t *frames, size_t n)
{
	if (p->n == PLACES_MAX)
		places_clear(p);
	int rc = ARRAY_RESERVE(p->frames, p->cap_frames, p->n_frames + n);
	if (rc)
		return rc;
	struct place *at = slot_of(p, content, addr);
	p->n += !at->n;
	*at = (struct place){ content, addr, (uint32_t)p->n_frames, (uint32_t)n };
	memcpy(p->frames + p->n_frames, frames, n * sizeof(*frames));
	p->n_frames += n;
	return 0;
}
