/* SPDX-License-Identifier: Apache-2.0 */
#include "util/idhash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

uint32_t idhash_hash(struct idhash *h, const void *data, size_t len)
{
	/*
	 * 0 means "not drawn yet"; without randomness the table still works, it is only
	 * predictable.
	 */
	if (!h->seed && getrandom(&h->seed, sizeof(h->seed), GRND_NONBLOCK) != sizeof(h->seed))
		h->seed = 1;
	uint32_t hash = (uint32_t)XXH3_64bits_withSeed(data, len, h->seed);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	hash &= 0xffff; /* so that different keys have the same hash, now and then */
#endif
	return hash;
}

static void place(struct idhash *h, struct idhash_slot s)
{
	size_t i = s.hash & (h->cap - 1);
	while (h->slots[i].id != IDHASH_NONE)
		i = (i + 1) & (h->cap - 1);
	h->slots[i] = s;
}

int idhash_reserve(struct idhash *h)
{
	if (2 * (h->n + 1) <= h->cap)
		return 0;
	struct idhash old = *h;
	size_t cap = old.cap ? 2 * old.cap : 64;
	struct idhash_slot *slots = malloc(cap * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	memset(slots, 0xff, cap * sizeof(*slots));
	h->slots = slots;
	h->cap = cap;
	for (size_t i = 0; i < old.cap; i++)
		if (old.slots[i].id != IDHASH_NONE)
			place(h, old.slots[i]);
	free(old.slots);
	return 0;
}

uint32_t idhash_find(const struct idhash *h, uint32_t hash,
		     bool (*eq)(const void *ctx, uint32_t id, const void *key), const void *ctx,
		     const void *key)
{
	if (!h->cap)
		return IDHASH_NONE;
	for (size_t i = hash & (h->cap - 1); h->slots[i].id != IDHASH_NONE;
	     i = (i + 1) & (h->cap - 1))
		if (h->slots[i].hash == hash && eq(ctx, h->slots[i].id, key))
			return h->slots[i].id;
	return IDHASH_NONE;
}

void idhash_put(struct idhash *h, uint32_t hash, uint32_t id)
{
	place(h, (struct idhash_slot){ hash, id });
	h->n++;
}

void idhash_clear(struct idhash *h)
{
	if (h->cap)
		memset(h->slots, 0xff, h->cap * sizeof(*h->slots));
	h->n = 0;
}

void idhash_fini(struct idhash *h)
{
	if (!h)
		return;
	free(h->slots);
	memset(h, 0, sizeof(*h));
}
