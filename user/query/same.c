/* SPDX-License-Identifier: Apache-2.0 */
#include "query/same.h"

#include "util/idhash.h"

#include <errno.h>
#include <stdlib.h>

struct merging {
	const struct store *store;
	struct query_same *same;
	uint32_t *frame; /* [store_n_frames]: which stands for it; 0: not looked at */
	bool lines;	 /* a frame stands for another one */
};

struct node {
	uint32_t parent, frame;
};

static bool same_frame(const void *ctx, uint32_t id, const void *key)
{
	return store_same_function(store_frame(((const struct merging *)ctx)->store, id), key);
}

static int merge_frame(struct merging *m, struct idhash *h, uint32_t frame)
{
	const struct store_frame *f = store_frame(m->store, frame);
	if (!f || m->frame[frame])
		return 0;
	const struct store_function_key key = store_function_key(f);
	uint32_t hash = idhash_hash(h, &key, sizeof(key)),
		 id = idhash_find(h, hash, same_frame, m, f);
	m->frame[frame] = id == IDHASH_NONE ? frame : id;
	m->lines |= id != IDHASH_NONE;
	if (id != IDHASH_NONE)
		return 0;
	int rc = idhash_reserve(h);
	if (!rc)
		idhash_put(h, hash, frame);
	return rc;
}

static int merge_frames(struct merging *m)
{
	struct idhash h = { 0 };
	int rc = 0;
	for (size_t i = 1; !rc && i < m->same->t.n; i++) {
		uint32_t parent, frame;
		store_stack(m->store, m->same->stack[i], &parent, &frame);
		rc = merge_frame(m, &h, frame);
	}
	idhash_fini(&h);
	return rc;
}

static struct node node_of(const struct merging *m, uint32_t number)
{
	uint32_t parent, frame;
	store_stack(m->store, m->same->stack[number], &parent, &frame);
	return (struct node){ m->same->parent[number], m->frame[frame] };
}

static bool same_stack(const void *ctx, uint32_t number, const void *key)
{
	const struct node *b = key;
	struct node a = node_of(ctx, number);
	return a.parent == b->parent && a.frame == b->frame;
}

/* A parent comes before its children. */
static int merge_stacks(struct merging *m)
{
	struct idhash h = { 0 };
	int rc = 0;
	for (uint32_t i = 1; i < m->same->t.n && !rc; i++) {
		m->same->parent[i] = m->same->first[m->same->parent[i]];
		struct node n = node_of(m, i);
		uint32_t hash = idhash_hash(&h, &n, sizeof(n)),
			 id = idhash_find(&h, hash, same_stack, m, &n);
		m->same->first[i] = id == IDHASH_NONE ? i : id;
		if (id != IDHASH_NONE)
			continue;
		rc = idhash_reserve(&h);
		if (!rc)
			idhash_put(&h, hash, i);
	}
	idhash_fini(&h);
	return rc;
}

/* Number the stacks of the answer; each stands for itself. */
static int number_stacks(struct query_same *s, const struct query *q)
{
	int rc = subtree_init(&s->t, q->store);
	if (rc)
		return rc;
	for (size_t i = 0; i < q->n_rows; i++)
		if (q->rows[i].stack != QUERY_OTHER_STACK)
			subtree_add(&s->t, q->store, q->rows[i].stack);
	subtree_number(&s->t);
	s->stack = malloc(s->t.n * sizeof(*s->stack));
	s->first = malloc(s->t.n * sizeof(*s->first));
	s->parent = malloc(s->t.n * sizeof(*s->parent));
	if (!s->stack || !s->first || !s->parent)
		return -ENOMEM;
	uint32_t n = 0;
	for (size_t i = 0; i < s->t.n_words; i++)
		for (uint64_t left = s->t.bits[i]; left; left &= left - 1, n++) {
			uint32_t parent, frame;
			s->stack[n] = (uint32_t)(64 * i) + (uint32_t)__builtin_ctzll(left);
			s->first[n] = n;
			store_stack(q->store, s->stack[n], &parent, &frame);
			s->parent[n] = subtree_index(&s->t, parent);
		}
	return 0;
}

int query_same_new(struct query_same **ret, const struct query *q)
{
	struct query_same *s = calloc(1, sizeof(*s));
	struct merging m = { .store = q->store, .same = s };
	int rc = s ? number_stacks(s, q) : -ENOMEM;
	if (!rc) {
		m.frame = calloc((size_t)store_n_frames(q->store) + 1, sizeof(*m.frame));
		rc = m.frame ? merge_frames(&m) : -ENOMEM;
	}
	if (!rc && m.lines)
		rc = merge_stacks(&m);
	free(m.frame);
	if (rc)
		query_same_free(s);
	else
		*ret = s;
	return rc;
}

void query_same_free(struct query_same *s)
{
	if (!s)
		return;
	subtree_fini(&s->t);
	free(s->stack);
	free(s->first);
	free(s->parent);
	free(s);
}

uint32_t query_same_stack(const struct query_same *s, uint32_t stack)
{
	return stack == QUERY_OTHER_STACK ? stack : s->stack[same_number(s, stack)];
}
