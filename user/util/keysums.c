/* SPDX-License-Identifier: Apache-2.0 */
#include "util/keysums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAP_MIN 64

/* A table grows beside one of half its size at most. */
void keysums_init(struct keysums *k, size_t bytes)
{
	size_t cap = CAP_MIN;
	while (cap < (size_t)1 << 31 && 2 * cap * sizeof(*k->v) + cap * sizeof(*k->v) <= bytes)
		cap *= 2;
	*k = (struct keysums){ .max_cap = cap };
}

void keysums_fini(struct keysums *k)
{
	free(k->v);
	*k = (struct keysums){ 0 };
}

size_t keysums_bytes(const struct keysums *k)
{
	return k->cap * sizeof(*k->v);
}

static size_t home(uint64_t key, size_t cap)
{
	return ((key ^ key >> 32) * 0x9e3779b97f4a7c15u >> 32) & (cap - 1);
}

/* Return the slot of a key, or the free one where it would be. */
static struct keysum *slot_of(struct keysum *v, size_t cap, uint64_t key)
{
	size_t i = home(key, cap);
	while (v[i].key && v[i].key != key + 1)
		i = (i + 1) & (cap - 1);
	return &v[i];
}

static int grow(struct keysums *k)
{
	size_t cap = k->cap ? 4 * k->cap : CAP_MIN;
	cap = cap > k->max_cap ? k->max_cap : cap;
	struct keysum *v = calloc(cap, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < k->cap; i++)
		if (k->v[i].key)
			*slot_of(v, cap, k->v[i].key - 1) = k->v[i];
	free(k->v);
	k->v = v;
	k->cap = cap;
	return 0;
}

int keysums_add(struct keysums *k, uint64_t key, uint64_t samples, uint64_t value)
{
	struct keysum *s = k->cap ? slot_of(k->v, k->cap, key) : NULL;
	if (!s || !s->key) {
		if (k->n >= keysums_max(k))
			return -ENOBUFS;
		if (k->n >= k->cap / 4 * 3) {
			int rc = grow(k);
			if (rc)
				return rc;
			s = slot_of(k->v, k->cap, key);
		}
		s->key = key + 1;
		k->n++;
	}
	s->samples += samples;
	s->value += value;
	return 0;
}

struct keysum *keysums_find(const struct keysums *k, uint64_t key)
{
	struct keysum *s = k->cap ? slot_of(k->v, k->cap, key) : NULL;
	return s && s->key ? s : NULL;
}

void keysums_prefetch(const struct keysums *k, uint64_t key)
{
	if (k->cap)
		__builtin_prefetch(&k->v[home(key, k->cap)], 1);
}

size_t keysums_pack(struct keysums *k)
{
	size_t n = 0;
	for (size_t i = 0; i < k->cap; i++)
		if (k->v[i].key)
			k->v[n++] = k->v[i];
	return n;
}

static int by_samples(const void *a, const void *b)
{
	const struct keysum *x = a, *y = b;
	if (x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	return (x->key > y->key) - (x->key < y->key);
}

/*
 * Return the samples at a rank below n, of n slots in descending order: byte by byte from the
 * highest, in a pass for each. Free slots have none.
 */
static uint64_t samples_at(const struct keysum *v, size_t n, size_t rank)
{
	uint64_t found = 0, all = 0;
	for (size_t i = 0; i < n; i++)
		all |= v[i].samples;
	for (unsigned shift = 64; shift; shift -= 8) {
		const unsigned at = shift - 8;
		size_t count[256] = { 0 };
		unsigned digit = 255;
		if (!(all >> at))
			continue;
		for (size_t i = 0; i < n; i++)
			if (shift == 64 || v[i].samples >> shift == found >> shift)
				count[v[i].samples >> at & 255]++;
		for (; rank >= count[digit]; digit--)
			rank -= count[digit];
		found |= (uint64_t)digit << at;
	}
	return found;
}

/*
 * Put what is left of each key back, in place: behind a free slot a key finds all that stand
 * between its home and its slot put back already.
 */
void keysums_shrink(struct keysums *k)
{
	const uint64_t less = k->n ? samples_at(k->v, k->cap, k->n / 2) : 0;
	size_t first = 0;
	if (!k->n)
		return;
	while (k->v[first].key)
		first++;
	k->n = 0;
	for (size_t i = 1; i < k->cap; i++) {
		struct keysum *at = &k->v[(first + i) & (k->cap - 1)], one = *at;
		*at = (struct keysum){ 0 };
		if (!one.key || one.samples <= less)
			continue;
		one.samples -= less;
		*slot_of(k->v, k->cap, one.key - 1) = one;
		k->n++;
	}
	k->missed += less;
}

int keysums_keep(struct keysums *k, uint64_t budget, uint64_t (*cost)(uint64_t key))
{
	size_t n = keysums_pack(k), left = 0;
	if (n)
		qsort(k->v, n, sizeof(*k->v), by_samples);
	for (size_t i = 0; i < n; i++) {
		uint64_t more = cost(k->v[i].key - 1);
		if (more > budget)
			continue;
		budget -= more;
		k->v[left++] = k->v[i];
	}
	struct keysums new = {
		.n = left, .cap = CAP_MIN, .max_cap = k->max_cap, .missed = k->missed
	};
	while (new.cap / 4 * 3 <= left)
		new.cap *= 2;
	new.v = calloc(new.cap, sizeof(*new.v));
	if (!new.v)
		new.n = new.cap = 0;
	for (size_t i = 0; i < new.n; i++)
		*slot_of(new.v, new.cap, k->v[i].key - 1) = k->v[i];
	free(k->v);
	*k = new;
	return new.v ? 0 : -ENOMEM;
}
