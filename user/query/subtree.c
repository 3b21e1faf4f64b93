/* SPDX-License-Identifier: Apache-2.0 */
#include "query/subtree.h"

#include "query/seen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOT 1 /* its key */

int subtree_init(struct subtree *t, const struct store *s)
{
	*t = (struct subtree){ .n_words = (size_t)store_n_stacks(s) / 64 + 1 };
	t->bits = calloc(t->n_words, sizeof(*t->bits));
	t->before = calloc(t->n_words, sizeof(*t->before));
	if (!t->bits || !t->before) {
		subtree_fini(t);
		return -ENOMEM;
	}
	t->bits[0] = 1;
	t->n = 1;
	return 0;
}

void subtree_fini(struct subtree *t)
{
	free(t->bits);
	free(t->before);
	*t = (struct subtree){ 0 };
}

void subtree_add(struct subtree *t, const struct store *s, uint32_t stack)
{
	uint32_t parent, frame;
	while (stack / 64 < t->n_words && !subtree_has(t, stack)) {
		t->bits[stack / 64] |= (uint64_t)1 << stack % 64;
		t->n++;
		store_stack(s, stack, &parent, &frame);
		stack = parent;
	}
}

void subtree_number(struct subtree *t)
{
	uint32_t n = 0;
	for (size_t i = 0; i < t->n_words; i++) {
		t->before[i] = n;
		n += (uint32_t)__builtin_popcountll(t->bits[i]);
	}
}

uint32_t subtree_nearest(const struct subtree *t, const struct store *s, uint32_t stack)
{
	uint32_t frame;
	while (!subtree_has(t, stack))
		store_stack(s, stack, &stack, &frame);
	return stack;
}

/* ---- from the leaves to the root ---- */

/* A heap with the highest stack first. A key is a stack plus 1, as in the table. */
struct heap {
	struct keysum *v;
	size_t n;
};

static void sift_down(struct heap *h, size_t i)
{
	struct keysum moved = h->v[i];
	for (size_t child; (child = 2 * i + 1) < h->n; i = child) {
		child += child + 1 < h->n && h->v[child + 1].key > h->v[child].key;
		if (h->v[child].key <= moved.key)
			break;
		h->v[i] = h->v[child];
	}
	h->v[i] = moved;
}

/* Take the sums of the table, which is used up: its memory holds the heap. */
static void heap_of(struct heap *h, struct keysums *k)
{
	h->n = keysums_pack(k);
	h->v = k->v;
	for (size_t i = h->n / 2; i-- > 0;)
		sift_down(h, i);
}

/* Take out the highest stack with all of its samples. */
static struct keysum heap_take(struct heap *h)
{
	struct keysum top = h->v[0];
	top.samples = 0;
	while (h->n && h->v[0].key == top.key) {
		top.samples += h->v[0].samples;
		h->v[0] = h->v[--h->n];
		if (h->n)
			sift_down(h, 0);
	}
	return top;
}

static void heap_put(struct heap *h, struct keysum c)
{
	size_t i = h->n++;
	for (; i && h->v[(i - 1) / 2].key < c.key; i = (i - 1) / 2)
		h->v[i] = h->v[(i - 1) / 2];
	h->v[i] = c;
}

/* Pass samples on from a stack to its parent. */
static void heap_carry(struct heap *h, const struct store *s, struct keysum c)
{
	uint32_t parent, frame;
	store_stack(s, (uint32_t)(c.key - 1), &parent, &frame);
	c.key = (uint64_t)parent + 1;
	heap_put(h, c);
}

int subtree_carry(struct keysums *k, const struct store *s)
{
	struct keysums left = { .max_cap = k->max_cap };
	struct heap h;
	uint64_t all = 0;
	int rc = 0;
	heap_of(&h, k);
	for (size_t i = 0; i < h.n; i++)
		all += h.v[i].samples;
	/* Each stack that stays has so many samples for itself: a quarter of the table at most. */
	const uint64_t least = all / (keysums_max(k) / 4) + 1;
	while (!rc && h.n) {
		struct keysum c = heap_take(&h);
		if (c.samples >= least || c.key == ROOT)
			rc = keysums_add(&left, c.key - 1, c.samples, 0);
		else
			heap_carry(&h, s, c);
	}
	left.missed = k->missed + least;
	keysums_fini(k);
	*k = left;
	return rc;
}

/* ---- the heaviest ---- */

/* The stacks that may be chosen, with the samples of their subtrees. */
struct chosen {
	struct keysum *v; /* [cap] */
	size_t n, cap;
	uint64_t least; /* samples; what has fewer does not come in any more */
};

static int by_samples(const void *a, const void *b)
{
	const struct keysum *x = a, *y = b;
	return x->samples != y->samples ? (x->samples > y->samples ? -1 : 1)
					: (x->key > y->key) - (x->key < y->key);
}

/* Keep the first `most`. A parent has no fewer samples than its children, and is before them. */
static void drop_least(struct chosen *c, size_t most)
{
	qsort(c->v, c->n, sizeof(*c->v), by_samples);
	c->n = most;
	c->least = c->v[most - 1].samples;
}

static void consider(struct chosen *c, struct keysum one)
{
	if (c->n == c->cap)
		drop_least(c, c->cap / 2);
	if (one.samples >= c->least)
		c->v[c->n++] = one;
}

/* Add those with the most samples while there is room. */
static int add_heaviest(struct subtree *t, const struct store *s, struct chosen *c,
			const struct subtree_room *room)
{
	size_t cost = 0;
	struct seen seen;
	if (seen_init(&seen, room->bytes / room->of_function, room->seed))
		return -ENOMEM;
	qsort(c->v, c->n, sizeof(*c->v), by_samples);
	for (size_t i = 0; i < c->n; i++) {
		uint32_t stack = (uint32_t)(c->v[i].key - 1), parent, frame;
		store_stack(s, stack, &parent, &frame);
		cost += room->of_stack;
		cost += seen_add(&seen, store_frame(s, frame)) ? room->of_function : 0;
		if (cost > room->bytes)
			break;
		subtree_add(t, s, stack);
	}
	seen_fini(&seen);
	return 0;
}

int subtree_choose(struct subtree *ret, struct keysums *k, const struct store *s,
		   const struct subtree_room *room)
{
	struct chosen c = { .cap = 2 * (room->bytes / room->of_stack) + 2 };
	struct heap h;
	int rc = subtree_init(ret, s);
	c.v = rc ? NULL : malloc(c.cap * sizeof(*c.v));
	rc = c.v ? 0 : -ENOMEM;
	heap_of(&h, k);
	while (!rc && h.n) {
		struct keysum one = heap_take(&h);
		if (one.key == ROOT)
			break;
		consider(&c, one);
		heap_carry(&h, s, one);
	}
	rc = rc ? rc : add_heaviest(ret, s, &c, room);
	free(c.v);
	if (rc)
		subtree_fini(ret);
	else
		subtree_number(ret);
	return rc;
}
