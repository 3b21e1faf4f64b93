/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames say at which source line their function was. Where functions are what is asked for, stacks
 * that differ in nothing but lines are one: the first of them stands for all.
 */
#include "query/query_int.h"

#include "util/idhash.h"

#include <errno.h>
#include <stdlib.h>

struct same {
	const struct store *store;
	uint32_t *frame, *stack; /* [all]: who stands for it */
};

struct node {
	uint32_t parent, frame;
};

static bool same_frame(const void *ctx, uint32_t id, const void *key)
{
	const struct store_frame *a = store_frame(((const struct same *)ctx)->store, id), *b = key;
	return a->kind == b->kind && a->flags == b->flags && a->function == b->function && a->module == b->module &&
	       a->build_id == b->build_id && (a->function || a->offset == b->offset);
}

/* How many frames are another one's; -ENOMEM. */
static int64_t merge_frames(struct same *m)
{
	struct idhash h = { 0 };
	int64_t merged = 0;
	for (uint32_t i = 1; i < store_n_frames(m->store) && merged >= 0; i++) {
		const struct store_frame *f = store_frame(m->store, i);
		const uint64_t key[4] = { (uint64_t)f->kind << 32 | f->flags, (uint64_t)f->function << 32 | f->module, f->build_id,
					  f->function ? 0 : f->offset };
		uint32_t hash = idhash_hash(&h, key, sizeof(key)), id = idhash_find(&h, hash, same_frame, m, f);
		m->frame[i] = id == IDHASH_NONE ? i : id;
		merged += id != IDHASH_NONE;
		if (id != IDHASH_NONE)
			continue;
		if (idhash_reserve(&h))
			merged = -ENOMEM;
		else
			idhash_put(&h, hash, i);
	}
	idhash_fini(&h);
	return merged;
}

static struct node node_of(const struct same *m, uint32_t stack)
{
	struct node n;
	store_stack(m->store, stack, &n.parent, &n.frame);
	return (struct node){ m->stack[n.parent], m->frame[n.frame] };
}

static bool same_stack(const void *ctx, uint32_t id, const void *key)
{
	const struct node *b = key;
	struct node a = node_of(ctx, id);
	return a.parent == b->parent && a.frame == b->frame;
}

/* A parent comes before its children. */
static int merge_stacks(struct same *m)
{
	struct idhash h = { 0 };
	int rc = 0;
	for (uint32_t i = 1; i < store_n_stacks(m->store) && !rc; i++) {
		struct node n = node_of(m, i);
		uint32_t hash = idhash_hash(&h, &n, sizeof(n)), id = idhash_find(&h, hash, same_stack, m, &n);
		m->stack[i] = id == IDHASH_NONE ? i : id;
		if (id != IDHASH_NONE)
			continue;
		rc = idhash_reserve(&h);
		if (!rc)
			idhash_put(&h, hash, i);
	}
	idhash_fini(&h);
	return rc;
}

static bool has_lines(const struct store *s)
{
	for (uint32_t i = 1; i < store_n_frames(s); i++)
		if (store_frame(s, i)->line)
			return true;
	return false;
}

int query_same_stacks(const struct query *q, uint32_t **ret)
{
	struct same m = { .store = q->store };
	*ret = NULL;
	if (!has_lines(q->store))
		return 0;
	m.frame = calloc((size_t)store_n_frames(q->store) + 1, sizeof(*m.frame));
	m.stack = calloc((size_t)store_n_stacks(q->store) + 1, sizeof(*m.stack));
	int64_t merged = m.frame && m.stack ? merge_frames(&m) : -ENOMEM;
	int rc = merged > 0 ? merge_stacks(&m) : (int)merged;
	free(m.frame);
	if (rc || !merged)
		free(m.stack);
	else
		*ret = m.stack;
	return rc;
}
