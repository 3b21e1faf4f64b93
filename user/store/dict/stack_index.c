/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dict/stack_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define FIRST_CAP 64

/* Two rounds of multiply and shift: ids that follow each other spread over the table. */
static size_t slot_of_node(const struct stack_index *x, struct stack_node node)
{
	uint64_t h = ((uint64_t)node.parent << 32 | node.frame) ^ x->seed;
	h = (h ^ h >> 32) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
	return (h ^ h >> 32) & (x->cap - 1);
}

int stack_index_reserve(struct stack_index *x, const struct stack_node *nodes)
{
	if (4 * (x->n + 1) <= 3 * x->cap)
		return 0;
	struct stack_index old = *x;
	size_t cap = old.cap ? 2 * old.cap : FIRST_CAP;
	uint32_t *slots = calloc(cap, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	/* Without randomness the table still works, it is only predictable. */
	if (!x->seed && getrandom(&x->seed, sizeof(x->seed), GRND_NONBLOCK) != sizeof(x->seed))
		x->seed = 1;
	x->slots = slots;
	x->cap = cap;
	x->n = 0;
	for (size_t i = 0; i < old.cap; i++)
		if (old.slots[i])
			stack_index_put(x, nodes, old.slots[i]);
	free(old.slots);
	return 0;
}

void stack_index_put(struct stack_index *x, const struct stack_node *nodes, uint32_t id)
{
	size_t i = slot_of_node(x, nodes[id]);
	while (x->slots[i])
		i = (i + 1) & (x->cap - 1);
	x->slots[i] = id;
	x->n++;
}

uint32_t stack_index_find(const struct stack_index *x, const struct stack_node *nodes,
			  struct stack_node node)
{
	if (!x->cap)
		return 0;
	size_t i = slot_of_node(x, node);
	while (x->slots[i] && memcmp(&nodes[x->slots[i]], &node, sizeof(node)))
		i = (i + 1) & (x->cap - 1);
	return x->slots[i];
}

void stack_index_fini(struct stack_index *x)
{
	free(x->slots);
	*x = (struct stack_index){ 0 };
}
