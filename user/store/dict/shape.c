/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dict/shape.h"

#include <errno.h>
#include <stdlib.h>

enum { NO_CHILD, ONE_CHILD, ENDS }; /* a chain ends in a stack with several children or a leaf */

static uint32_t one_of(const uint32_t *same, uint32_t id)
{
	return same ? same[id] : id;
}

/* [n_stacks], to be freed; the empty stack and those that count as another one are no end. */
static uint8_t *find_ends(const struct dicts *d, const uint32_t *same)
{
	uint8_t *ends = calloc(d->n_stacks, sizeof(*ends));
	if (!ends)
		return NULL;
	for (uint32_t id = 1; id < d->n_stacks; id++) {
		uint8_t *end = &ends[one_of(same, d->stacks[id].parent)];
		if (one_of(same, id) == id && *end < ENDS)
			++*end;
	}
	for (uint32_t i = 0; i < d->n_leaves; i++)
		ends[one_of(same, d->leaves[i])] = ENDS;
	ends[0] = NO_CHILD;
	return ends;
}

static uint32_t count(const uint8_t *ends, uint32_t n_stacks)
{
	uint32_t n = 0;
	for (uint32_t id = 0; id < n_stacks; id++)
		n += ends[id] == ENDS;
	return n;
}

/* The chain that ends in a stack. number: by stack, the nodes so far. */
static struct shape_node chain_to(const struct dicts *d, const uint32_t *same,
				  const uint32_t *number, uint32_t last, uint32_t *ret_above)
{
	struct shape_node n = { last, 1 };
	uint32_t parent = one_of(same, d->stacks[last].parent);
	for (; parent && !number[parent]; parent = one_of(same, d->stacks[parent].parent))
		n.length++;
	*ret_above = number[parent];
	return n;
}

int shape_init(struct shape *s, const struct dicts *d, uint32_t *same)
{
	uint8_t *ends = find_ends(d, same);
	uint32_t *number = calloc(d->n_stacks, sizeof(*number));
	*s = (struct shape){ .n_leaves = d->n_leaves };
	uint32_t n = ends ? count(ends, d->n_stacks) + 1 : 1;
	s->v = calloc(n, sizeof(*s->v));
	s->above = calloc(n, sizeof(*s->above));
	s->of_leaf = malloc(d->n_leaves * sizeof(*s->of_leaf));
	bool ok = ends && number && s->v && s->above && s->of_leaf;
	if (ok)
		s->n = 1;
	for (uint32_t id = 1; ok && id < d->n_stacks; id++)
		if (ends[id] == ENDS) {
			s->v[s->n] = chain_to(d, same, number, id, &s->above[s->n]);
			number[id] = s->n++;
		}
	for (uint32_t i = 0; ok && i < d->n_leaves; i++)
		s->of_leaf[i] = number[one_of(same, d->leaves[i])];
	free(number);
	free(ends);
	free(same);
	if (!ok)
		shape_fini(s);
	return ok ? 0 : -ENOMEM;
}

void shape_fini(struct shape *s)
{
	free(s->v);
	free(s->above);
	free(s->of_leaf);
	*s = (struct shape){ 0 };
}

size_t shape_bytes(const struct shape *s)
{
	return s->n * (sizeof(*s->v) + sizeof(*s->above)) + s->n_leaves * sizeof(*s->of_leaf);
}
