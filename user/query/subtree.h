/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of stacks that holds the parent of each of its stacks, and the choice of the heaviest such
 * set. A parent's id is below its children's, so sums are carried towards the root from the highest
 * id down.
 */
#ifndef ASCRIBE_QUERY_SUBTREE_H
#define ASCRIBE_QUERY_SUBTREE_H

#include "util/keysums.h"
#include "store/store.h"

/* One bit for each stack of the store, and the number of members before each word of them. */
struct subtree {
	uint64_t *bits;
	uint32_t *before;
	size_t n_words;
	size_t n; /* members, the root among them */
};

/* Begin with the root alone, for the stacks that the store has now. -ENOMEM. */
int subtree_init(struct subtree *t, const struct store *s);
void subtree_fini(struct subtree *t);
/* Add a stack and its ancestors. */
void subtree_add(struct subtree *t, const struct store *s, uint32_t stack);
/* Number the members, in order of their ids; after this none may be added. */
void subtree_number(struct subtree *t);

static inline bool subtree_has(const struct subtree *t, uint32_t stack)
{
	return stack / 64 < t->n_words && (t->bits[stack / 64] >> stack % 64 & 1);
}

/* Return the number of a member. */
static inline uint32_t subtree_index(const struct subtree *t, uint32_t stack)
{
	uint64_t below = t->bits[stack / 64] & (((uint64_t)1 << stack % 64) - 1);
	return t->before[stack / 64] + (uint32_t)__builtin_popcountll(below);
}

/* Return the nearest of a stack and its ancestors that is a member. */
uint32_t subtree_nearest(const struct subtree *t, const struct store *s, uint32_t stack);

/*
 * Carry the samples of stacks that have few to their parents, until a quarter of the table is used.
 * Values are lost. -ENOMEM.
 */
int subtree_carry(struct keysums *k, const struct store *s);

/* Bytes that there are, and that a stack and a new function take. */
struct subtree_room {
	size_t bytes, of_stack, of_function;
	uint64_t seed; /* of hashes */
};

/*
 * Choose the stacks whose subtrees have the most samples of k, as many as there is room for; of
 * equals those with the lowest ids. k is used up. -ENOMEM.
 */
int subtree_choose(struct subtree *ret, struct keysums *k, const struct store *s,
		   const struct subtree_room *room);

#endif
