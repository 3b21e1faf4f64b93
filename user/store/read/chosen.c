/* SPDX-License-Identifier: Apache-2.0 */
#include "store/read/chosen.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>

/* The stacks of a node, from the root on, into c->chain. */
static int read_chain(struct chosen *c, const struct shaped *y, const struct shape_node *n)
{
	if (ARRAY_RESERVE(c->chain, c->chain_cap, n->length))
		return -ENOMEM;
	uint32_t id = n->last;
	for (uint32_t i = n->length; i-- > 0; id = y->to.from->stacks[id].parent)
		c->chain[i] = id;
	return 0;
}

/* Add the stacks of a node below one of the reader's. */
static int add_chain(struct chosen *c, struct shaped *y, const struct shape_node *n, uint32_t at,
		     uint32_t *ret)
{
	int rc = read_chain(c, y, n);
	for (uint32_t i = 0; !rc && i < n->length; i++) {
		uint32_t frame;
		rc = translate_frame(&y->to, y->to.from->stacks[c->chain[i]].frame, &frame);
		if (!rc)
			rc = dicts_add_stack(y->to.to, at, frame, &at);
	}
	*ret = at;
	return rc;
}

/* Choose the stacks of a node, all of which the reader has. */
static void choose_placed(struct chosen *c, const struct shaped *y, uint32_t node)
{
	uint32_t at = y->placed[node].stack;
	for (uint32_t i = 0; i < y->shape.v[node].length; i++, at = y->to.to->stacks[at].parent)
		idset_add(&c->stacks, at);
}

static int choose_node(struct chosen *c, struct shaped *y, uint32_t node)
{
	struct placed *p = &y->placed[node];
	if (p->of != PLACED) {
		uint32_t above = y->placed[y->shape.above[node]].stack, at;
		int rc = add_chain(c, y, &y->shape.v[node], above, &at);
		rc = rc ? rc : idset_reserve(&c->stacks, y->to.to->stacks_cap);
		if (rc)
			return rc;
		*p = (struct placed){ at, PLACED };
	}
	choose_placed(c, y, node);
	return 0;
}

int chosen_add(struct chosen *c, struct shaped *y, const struct prune_sums *of,
	       const struct prune_nodes *used, size_t most, double least)
{
	struct idset nodes = { 0 };
	int rc = prune_choose(of, used, most, least, &nodes);
	rc = rc ? rc : idset_reserve(&c->stacks, y->to.to->stacks_cap);
	for (uint32_t i = rc ? IDSET_NONE : idset_next(&nodes, 1); !rc && i != IDSET_NONE;
	     i = idset_next(&nodes, i + 1))
		rc = choose_node(c, y, i);
	idset_fini(&nodes);
	return rc;
}

/* Look for the stacks of a node below one of the reader's. */
static int look_for(struct chosen *c, struct shaped *y, const struct shape_node *n, uint32_t at,
		    struct placed *ret)
{
	const struct dicts *to = y->to.to;
	uint32_t i = 0, frame;
	int rc = read_chain(c, y, n);
	for (; !rc && i < n->length; i++) {
		rc = translate_find_frame(&y->to, y->to.from->stacks[c->chain[i]].frame, &frame);
		uint32_t next = rc || !frame ? 0 : dicts_find_stack(to, at, frame);
		if (!next)
			break;
		at = next;
	}
	*ret = (struct placed){ at, i == n->length ? PLACED : to->n_stacks };
	return rc;
}

/* at: the reader's stack of the node above, all of which is chosen. */
static int map_node(struct chosen *c, struct shaped *y, uint32_t node, uint32_t at, uint32_t *ret)
{
	struct placed *p = &y->placed[node];
	int rc = 0;
	if (p->of != PLACED && p->of != y->to.to->n_stacks)
		rc = look_for(c, y, &y->shape.v[node], at, p);
	bool below = p->of != PLACED;
	uint32_t found = p->stack;
	for (; !rc && found != at && !idset_has(&c->stacks, found); below = true)
		found = y->to.to->stacks[found].parent;
	*ret = found | (below ? BELOW : 0);
	return rc;
}

int chosen_map(struct chosen *c, struct shaped *y, const struct prune_nodes *used, uint32_t **ret)
{
	uint32_t *map = malloc(y->shape.n * sizeof(*map));
	int rc = map ? idset_reserve(&c->stacks, y->to.to->stacks_cap) : -ENOMEM;
	if (!rc)
		map[0] = 0;
	for (size_t i = 1; !rc && i < used->n; i++) {
		uint32_t node = used->v[i], at = map[y->shape.above[node]];
		map[node] = at;
		if (!(at & BELOW))
			rc = map_node(c, y, node, at, &map[node]);
	}
	if (rc)
		free(map);
	else
		*ret = map;
	return rc;
}

void chosen_fini(struct chosen *c)
{
	idset_fini(&c->stacks);
	free(c->chain);
	*c = (struct chosen){ 0 };
}
