/* SPDX-License-Identifier: Apache-2.0 */
#include "top/calls.h"

#include "util/array.h"
#include "util/idhash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NAME_MAX_BYTES 8192
#define NOWHERE UINT32_MAX

struct builder {
	struct calls *c;
	struct query *q;
	struct store *s;
	struct idhash hash;
	uint64_t *function; /* [frames]: 0 while unknown */
	char *name;
};

uint64_t calls_function(const char *name, const char *module)
{
	return XXH3_64bits_withSeed(name, strnlen(name, NAME_MAX_BYTES - 1),
				    XXH3_64bits(module, strlen(module))) |
	       1;
}

static uint64_t frame_function(struct builder *b, uint32_t frame)
{
	const struct store_frame *f = store_frame(b->s, frame);
	if (!f)
		return 0;
	if (!b->function[frame]) {
		query_name(b->q, frame, b->name, NAME_MAX_BYTES);
		b->function[frame] = calls_function(b->name, store_string(b->s, f->module, NULL));
	}
	return b->function[frame];
}

struct child_key {
	uint32_t parent;
	uint64_t function;
};

static bool same_child(const void *ctx, uint32_t id, const void *key)
{
	const struct builder *b = ctx;
	const struct child_key *k = key;
	return b->c->v[id].parent == k->parent && b->c->v[id].function == k->function;
}

static int child(struct builder *b, uint32_t parent, uint32_t frame, uint32_t *ret)
{
	struct child_key k = { parent, frame_function(b, frame) };
	const uint64_t path[2] = { b->c->v[parent].id, k.function };
	uint64_t id = XXH3_64bits(path, sizeof(path));
	uint32_t hash = idhash_hash(&b->hash, &id, sizeof(id)),
		 at = idhash_find(&b->hash, hash, same_child, b, &k);
	if (at == IDHASH_NONE) {
		int rc = ARRAY_RESERVE(b->c->v, b->c->cap, b->c->n + 1);
		rc = rc ? rc : idhash_reserve(&b->hash);
		if (rc)
			return rc;
		at = (uint32_t)b->c->n++;
		b->c->v[at] = (struct calls_node){
			.id = id, .function = k.function, .frame = frame, .parent = parent
		};
		idhash_put(&b->hash, hash, at);
	}
	*ret = at;
	return 0;
}

static uint32_t node_frame(const struct builder *b, const struct query_node *n)
{
	uint32_t parent, frame;
	store_stack(b->s, n->stack, &parent, &frame);
	return frame;
}

static int add_callers(struct builder *b, const struct query_node *nodes, uint32_t i)
{
	uint32_t at = 0;
	int rc = 0;
	for (uint32_t p = nodes[i].parent; !rc && p; p = nodes[p].parent) {
		rc = child(b, at, node_frame(b, &nodes[p]), &at);
		if (!rc)
			b->c->v[at].samples += nodes[i].total;
	}
	return rc;
}

/* where[]: the node of the result that each node of the query's tree is part of. */
static int add_all(struct builder *b, const struct query_node *nodes, size_t n, uint64_t function,
		   bool callers, uint32_t *where)
{
	int rc = 0;
	where[0] = NOWHERE;
	for (uint32_t i = 1; !rc && i < n; i++) {
		uint32_t frame = node_frame(b, &nodes[i]);
		where[i] = where[nodes[i].parent];
		if (where[i] == NOWHERE && frame_function(b, frame) == function) {
			/* An outermost call */
			where[i] = 0;
			b->c->v[0].frame = frame;
			if (callers)
				rc = add_callers(b, nodes, i);
		} else if (where[i] != NOWHERE && !callers) {
			rc = child(b, where[i], frame, &where[i]);
		} else {
			/* Not of it, or below an outermost call, where its samples count */
			continue;
		}
		if (!rc) {
			b->c->v[where[i]].samples += nodes[i].total;
			b->c->v[where[i]].self += nodes[i].self;
		}
	}
	return rc;
}

/* Ascending, so that linking each in front of its siblings leaves the most frequent first. */
static int by_samples(const void *pa, const void *pb, void *ctx)
{
	const struct calls_node *v = ctx, *a = &v[*(const uint32_t *)pa],
				*b = &v[*(const uint32_t *)pb];
	if (a->samples != b->samples)
		return a->samples < b->samples ? -1 : 1;
	return (a->id < b->id) - (a->id > b->id);
}

static int link_nodes(struct calls *c)
{
	uint32_t *order = malloc(c->n * sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->n; i++)
		order[i] = i;
	qsort_r(order, c->n, sizeof(*order), by_samples, c->v);
	for (size_t i = 0; i < c->n; i++) {
		struct calls_node *n = &c->v[order[i]];
		if (!order[i])
			continue;
		n->next_sibling = c->v[n->parent].first_child;
		c->v[n->parent].first_child = order[i];
	}
	free(order);
	return 0;
}

int calls_build(struct calls *c, struct query *q, struct store *s, uint64_t function, bool callers,
		struct err *err)
{
	struct builder b = { .c = c, .q = q, .s = s };
	const struct query_node *nodes;
	uint32_t *where = NULL;
	size_t n;
	int rc = query_tree(q, &nodes, &n, err);
	if (rc)
		return rc;
	rc = ARRAY_RESERVE(c->v, c->cap, 1);
	b.function = calloc((size_t)store_n_frames(s) + 1, sizeof(*b.function));
	b.name = malloc(NAME_MAX_BYTES);
	where = malloc((n + 1) * sizeof(*where));
	if (rc || !b.function || !b.name || !where)
		rc = -ENOMEM;
	if (!rc) {
		c->v[0] = (struct calls_node){ .id = function, .function = function };
		c->n = 1;
		rc = n ? add_all(&b, nodes, n, function, callers, where) : 0;
	}
	rc = rc ? rc : link_nodes(c);
	free(b.function);
	free(b.name);
	free(where);
	idhash_fini(&b.hash);
	return rc ? err_sys(err, rc, "cannot build the tree of calls") : 0;
}

void calls_fini(struct calls *c)
{
	free(c->v);
	*c = (struct calls){ 0 };
}
