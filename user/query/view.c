/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node of a view stands for places in the merged tree, each with the samples that came by there.
 * One step takes every place to its parent, or to its children, and groups what is found by
 * function. Places that meet in one are one from then on, so a view from the leaves gets smaller
 * with every step. Places wait on a stack: a node's are taken off before those of its children are
 * put there.
 */
#include "query/view.h"

#include "query/query_int.h"
#include "util/array.h"
#include "util/idhash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 4096

struct place {
	uint32_t name; /* of its function */
	uint32_t node; /* in the merged tree */
	uint64_t samples;
};

struct slice {
	size_t from;
	uint32_t node; /* of the view */
};

struct name {
	char *text;
	uint32_t module;
};

struct view {
	struct query *q;
	const struct query_node *tree;
	size_t n_tree;
	bool up;
	uint64_t least;
	uint32_t *name_of; /* store frame -> name + 1, 0: not looked at */
	struct name *names;
	size_t n_names, names_cap;
	struct idhash hash;
	struct place *places, *next; /* the stack; what one step leads to */
	size_t n_places, places_cap, n_next, next_cap;
	struct slice *slices;
	size_t n_slices, slices_cap;
	struct query_node *nodes;
	size_t n_nodes, nodes_cap;
};

static bool same_name(const void *ctx, uint32_t id, const void *key)
{
	const struct name *a = &((const struct view *)ctx)->names[id], *b = key;
	return a->module == b->module && !strcmp(a->text, b->text);
}

static int intern(struct view *v, const char *text, uint32_t module, uint32_t *ret)
{
	struct name n = { .text = (char *)(uintptr_t)text, .module = module };
	uint32_t hash = idhash_hash(&v->hash, text, strlen(text)) ^ module * 2654435761u;
	*ret = idhash_find(&v->hash, hash, same_name, v, &n);
	if (*ret != IDHASH_NONE)
		return 0;
	int rc = ARRAY_RESERVE(v->names, v->names_cap, v->n_names + 1);
	rc = rc ? rc : idhash_reserve(&v->hash);
	if (rc || !(n.text = strdup(text)))
		return -ENOMEM;
	*ret = (uint32_t)v->n_names++;
	v->names[*ret] = n;
	idhash_put(&v->hash, hash, *ret);
	return 0;
}

/* The function of a node; an inlined call of it is not the same as one that is none. */
static int name_of(struct view *v, uint32_t node, uint32_t *ret)
{
	const struct store *s = v->q->store;
	uint32_t parent, frame;
	store_stack(s, v->tree[node].stack, &parent, &frame);
	if (!v->name_of[frame]) {
		const struct store_frame *f = store_frame(s, frame);
		char text[NAME_MAX_BYTES + 1];
		uint32_t id;
		query_name(v->q, frame, text + 1, NAME_MAX_BYTES);
		text[0] = f && (f->flags & FRAME_INLINED) ? 'i' : 'c';
		int rc = intern(v, text, f ? f->module : 0, &id);
		if (rc)
			return rc;
		v->name_of[frame] = id + 1;
	}
	*ret = v->name_of[frame] - 1;
	return 0;
}

static int add_next(struct view *v, uint32_t node, uint64_t samples)
{
	struct place p = { .node = node, .samples = samples };
	int rc = name_of(v, node, &p.name);
	rc = rc ? rc : ARRAY_RESERVE(v->next, v->next_cap, v->n_next + 1);
	if (!rc)
		v->next[v->n_next++] = p;
	return rc;
}

/* From one place to the next ones; samples that go no further are the node's own. */
static int step(struct view *v, const struct place *p, struct query_node *node)
{
	const struct query_node *at = &v->tree[p->node];
	int rc = 0;
	if (v->up && at->parent)
		return add_next(v, at->parent, p->samples);
	if (v->up) {
		node->self += p->samples;
		return 0;
	}
	node->self += at->self;
	for (uint32_t c = at->first_child; c && !rc; c = v->tree[c].next_sibling)
		rc = add_next(v, c, v->tree[c].total);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

struct group {
	size_t from, to;
	uint64_t samples;
};

/* Ties by name. */
static int by_samples(const void *a, const void *b, void *ctx)
{
	const struct view *v = ctx;
	const struct group *x = a, *y = b;
	if (x->samples != y->samples)
		return x->samples < y->samples ? 1 : -1;
	const struct name *n = &v->names[v->next[x->from].name],
			  *m = &v->names[v->next[y->from].name];
	int d = strcmp(n->text, m->text);
	return d ? d
		 : strcmp(store_string(v->q->store, n->module, NULL),
			  store_string(v->q->store, m->module, NULL));
}

/* Places that are one, and where each function's begin. */
static size_t group(struct view *v, struct group *g)
{
	size_t n = 0, n_groups = 0;
	if (v->n_next)
		qsort(v->next, v->n_next, sizeof(*v->next), by_name);
	for (size_t i = 0; i < v->n_next; i++) {
		struct place *p = &v->next[i], *last = n ? &v->next[n - 1] : NULL;
		if (last && last->node == p->node) {
			last->samples += p->samples;
		} else {
			if (!last || last->name != p->name)
				g[n_groups++] = (struct group){ .from = n };
			v->next[n++] = *p;
		}
		g[n_groups - 1].samples += p->samples;
		g[n_groups - 1].to = n;
	}
	v->n_next = n;
	qsort_r(g, n_groups, sizeof(*g), by_samples, v);
	return n_groups;
}

static int push(struct view *v, const struct group *g, uint32_t node)
{
	size_t n = g->to - g->from;
	int rc = ARRAY_RESERVE(v->places, v->places_cap, v->n_places + n);
	rc = rc ? rc : ARRAY_RESERVE(v->slices, v->slices_cap, v->n_slices + 1);
	if (rc)
		return rc;
	v->slices[v->n_slices++] = (struct slice){ v->n_places, node };
	memcpy(v->places + v->n_places, v->next + g->from, n * sizeof(*v->next));
	v->n_places += n;
	return 0;
}

/* The children of a node from v->next. */
static int add_children(struct view *v, uint32_t parent)
{
	struct group *g = calloc(v->n_next + 1, sizeof(*g));
	size_t n = g ? group(v, g) : 0;
	int rc = g ? ARRAY_RESERVE(v->nodes, v->nodes_cap, v->n_nodes + n) : -ENOMEM;
	for (size_t i = 0; i < n && !rc; i++) {
		uint32_t id = (uint32_t)v->n_nodes++;
		v->nodes[id] = (struct query_node){ .stack = v->tree[v->next[g[i].from].node].stack,
						    .parent = parent,
						    .next_sibling = i + 1 < n ? id + 1 : 0,
						    .total = g[i].samples };
		if (!i)
			v->nodes[parent].first_child = id;
		if (g[i].samples >= v->least)
			rc = push(v, &g[i], id);
	}
	free(g);
	v->n_next = 0;
	return rc;
}

static int grow(struct view *v)
{
	int rc = 0;
	while (v->n_slices && !rc) {
		struct slice s = v->slices[--v->n_slices];
		for (size_t i = s.from; i < v->n_places && !rc; i++)
			rc = step(v, &v->places[i], &v->nodes[s.node]);
		v->n_places = s.from;
		rc = rc ? rc : add_children(v, s.node);
	}
	return rc;
}

/* ---- where a view begins ---- */

static int begin_leaves(struct view *v)
{
	int rc = 0;
	v->nodes[0].self = v->tree[0].self; /* of no frame at all */
	for (uint32_t i = 1; i < v->n_tree && !rc; i++)
		if (v->tree[i].self)
			rc = add_next(v, i, v->tree[i].self);
	return rc;
}

static bool is_function(const struct view *v, uint32_t name, const struct query_view_spec *spec)
{
	const struct name *n = &v->names[name];
	return !strcmp(n->text + 1, spec->function) &&
	       (!spec->module || !strcmp(store_string(v->q->store, n->module, NULL), spec->module));
}

/*
 * Where the function is called first; nodes come with parents before children, so what is below one
 * of those is known.
 */
static int begin_function(struct view *v, const struct query_view_spec *spec)
{
	bool *below = calloc(v->n_tree + 1, sizeof(*below));
	int rc = below ? 0 : -ENOMEM;
	for (uint32_t i = 1; i < v->n_tree && !rc; i++) {
		uint32_t name;
		below[i] = below[v->tree[i].parent];
		rc = below[i] ? 0 : name_of(v, i, &name);
		if (rc || below[i] || !is_function(v, name, spec))
			continue;
		below[i] = true;
		rc = add_next(v, i, v->tree[i].total);
	}
	free(below);
	/* One node, though some of the calls may be inlined. */
	for (size_t i = 1; i < v->n_next && !rc; i++)
		v->next[i].name = v->next[0].name;
	return rc;
}

static int build(struct view *v, const struct query_view_spec *spec)
{
	v->name_of = calloc((size_t)store_n_frames(v->q->store) + 1, sizeof(*v->name_of));
	int rc = v->name_of ? ARRAY_RESERVE(v->nodes, v->nodes_cap, 1) : -ENOMEM;
	if (rc)
		return rc;
	v->nodes[0] = (struct query_node){ 0 };
	v->n_nodes = 1;
	v->up = spec->view != QUERY_VIEW_CALLEES;
	rc = spec->view == QUERY_VIEW_INVERTED ? begin_leaves(v) : begin_function(v, spec);
	v->nodes[0].total = v->nodes[0].self;
	for (size_t i = 0; i < v->n_next; i++)
		v->nodes[0].total += v->next[i].samples;
	v->least = v->nodes[0].total / QUERY_VIEW_MIN_SHARE + 1;
	rc = rc ? rc : add_children(v, 0);
	return rc ? rc : grow(v);
}

static void view_fini(struct view *v)
{
	for (size_t i = 0; i < v->n_names; i++)
		free(v->names[i].text);
	free(v->names);
	free(v->name_of);
	free(v->places);
	free(v->next);
	free(v->slices);
	idhash_fini(&v->hash);
}

int query_view(struct query_view_tree *ret, struct query *q, const struct query_view_spec *spec,
	       struct err *err)
{
	struct view v = { .q = q };
	struct query_view_tree t = { 0 };
	int rc = query_tree(q, &t.nodes, &t.n, err);
	if (rc)
		return rc;
	if (spec && spec->view != QUERY_VIEW_DOWN) {
		v.tree = t.nodes;
		v.n_tree = t.n;
		rc = build(&v, spec);
		view_fini(&v);
		if (rc) {
			free(v.nodes);
			return err_sys(err, rc, "cannot build the view");
		}
		t = (struct query_view_tree){ v.nodes, v.n_nodes, v.nodes };
	}
	*ret = t;
	return 0;
}

void query_view_free(struct query_view_tree *t)
{
	free(t->owned);
}
