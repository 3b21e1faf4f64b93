/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a stack by its parent and its last frame. The table holds ids alone, 4 bytes a slot, and
 * compares with the nodes of the owner. A host has hundreds of thousands of stacks, in one
 * dictionary for each level. Open addressing, linear probing, at most 3/4 full, seeded. Nothing is
 * ever removed. Not thread-safe.
 */
#ifndef ASCRIBE_STORE_DICT_STACK_INDEX_H
#define ASCRIBE_STORE_DICT_STACK_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct stack_node {
	uint32_t parent;
	uint32_t frame;
};

/* All zero is an empty table. */
struct stack_index {
	uint32_t *slots; /* 0: free; the empty stack is in no table */
	size_t cap;	 /* 0 or a power of two */
	size_t n;
	uint64_t seed;
};

/* Make room for one more, so that the next put cannot fail. 0 or -ENOMEM. */
int stack_index_reserve(struct stack_index *x, const struct stack_node *nodes);
/* Add nodes[id], which is not in the table. */
void stack_index_put(struct stack_index *x, const struct stack_node *nodes, uint32_t id);
/* The id of a node, 0: there is none. */
uint32_t stack_index_find(const struct stack_index *x, const struct stack_node *nodes,
			  struct stack_node node);
void stack_index_fini(struct stack_index *x);

#endif
