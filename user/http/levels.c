/* SPDX-License-Identifier: Apache-2.0 */
#include "http/levels.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 1100

void levels_fini(struct levels *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->level[i].v);
	for (size_t i = 0; i < l->n_names; i++)
		free(l->names[i]);
	free(l->level);
	free(l->names);
	*l = (struct levels){ 0 };
}

static int add_name(struct levels *l, const char *name, int64_t *ret)
{
	if (ARRAY_RESERVE(l->names, l->names_cap, l->n_names + 1))
		return -ENOMEM;
	l->names[l->n_names] = strdup(name);
	if (!l->names[l->n_names])
		return -ENOMEM;
	*ret = (int64_t)l->n_names++;
	return 0;
}

static struct level *level_at(struct levels *l, size_t depth)
{
	while (l->n <= depth) {
		if (ARRAY_RESERVE(l->level, l->cap, l->n + 1))
			return NULL;
		l->level[l->n++] = (struct level){ 0 };
	}
	return &l->level[depth];
}

static int add(struct levels *l, size_t depth, int sides, const int64_t *begin,
	       const int64_t *total, const int64_t *self, int64_t name)
{
	struct level *to = level_at(l, depth);
	if (!to || ARRAY_RESERVE(to->v, to->cap, to->n + 7))
		return -ENOMEM;
	for (int i = 0; i < sides; i++) {
		to->v[to->n++] = begin[i] - to->end[i];
		to->v[to->n++] = total[i];
		to->v[to->n++] = self[i];
		to->end[i] = begin[i] + total[i];
		l->max_self = self[i] > l->max_self ? self[i] : l->max_self;
	}
	to->v[to->n++] = name;
	return 0;
}

/* ---- one side: from the nodes of export_flame_data, depth first ---- */

static int64_t number(const json_t *a, size_t i)
{
	return json_integer_value(json_array_get(a, i));
}

/* The self time of every node in one pass: what its children have is taken off when they come. */
static int64_t *selves(const json_t *nodes, size_t n)
{
	int64_t *self = calloc(n + 1, sizeof(*self));
	size_t path[DEPTH_MAX];
	for (size_t i = 0; self && i < n; i++) {
		size_t depth = (size_t)number(nodes, 3 * i);
		self[i] = number(nodes, 3 * i + 1);
		if (depth >= DEPTH_MAX)
			continue;
		path[depth] = i;
		if (depth)
			self[path[depth - 1]] -= self[i];
	}
	return self;
}

static int add_nodes(struct levels *l, const json_t *data, int64_t scale)
{
	const json_t *nodes = json_object_get(data, "nodes"),
		     *frames = json_object_get(data, "frames");
	size_t n = json_array_size(nodes) / 3, n_frames = json_array_size(frames) / 3;
	int64_t at[DEPTH_MAX + 1] = { 0 }, *self = selves(nodes, n), index;
	int rc = self ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n_frames; i++)
		rc = add_name(l, i ? json_string_value(json_array_get(frames, 3 * i)) : "total",
			      &index);
	for (size_t i = 0; !rc && i < n; i++) {
		size_t depth = (size_t)number(nodes, 3 * i);
		if (depth >= DEPTH_MAX)
			continue;
		int64_t total = number(nodes, 3 * i + 1) * scale, mine = self[i] * scale;
		rc = add(l, depth, 1, &at[depth], &total, &mine, number(nodes, 3 * i + 2));
		at[depth + 1] = at[depth]; /* its children begin where it does */
		at[depth] += total;
	}
	free(self);
	return rc;
}

int levels_of_query(struct levels *l, const struct export_source *src, uint64_t max_nodes,
		    int64_t scale, struct err *err)
{
	json_t *data;
	const struct export_flame_spec how = { .max_nodes = max_nodes };
	int rc = export_flame_data(src, &how, &data, err);
	if (rc)
		return rc;
	l->total[0] = (int64_t)query_info(src->query)->samples * scale;
	rc = add_nodes(l, data, scale);
	json_decref(data);
	return rc ? err_set(err, rc, "out of memory") : 0;
}

/* ---- two sides ---- */

static int descending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x < y) - (x > y);
}

static uint64_t both(const struct query_diff_node *n)
{
	return n->total[0] + n->total[1];
}

/* A child never has more than its parent: a limit on samples keeps whole paths. */
static int choose_least(const struct query_diff_tree *t, uint64_t max_nodes, uint64_t *ret)
{
	uint64_t *v = t->n_nodes > max_nodes ? calloc(t->n_nodes, sizeof(*v)) : NULL;
	*ret = 0;
	if (t->n_nodes <= max_nodes)
		return 0;
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_nodes; i++)
		v[i] = both(&t->nodes[i]);
	qsort(v, t->n_nodes, sizeof(*v), descending);
	*ret = v[max_nodes] + 1;
	free(v);
	return 0;
}

struct sides {
	struct levels *l;
	const struct query_diff_tree *t;
	const int64_t *scale;
	uint64_t least;
	int64_t other; /* its name */
};

static int add_side_node(struct sides *s, uint32_t i, size_t depth, int64_t begin[2])
{
	const struct query_diff_node *n = &s->t->nodes[i];
	int64_t total[2], self[2], name, child[2] = { begin[0], begin[1] }, rest[2] = { 0, 0 };
	if (depth >= DEPTH_MAX)
		return 0;
	for (int k = 0; k < 2; k++) {
		total[k] = (int64_t)n->total[k] * s->scale[k];
		self[k] = (int64_t)n->self[k] * s->scale[k];
	}
	int rc = i ? add_name(s->l, n->text, &name) : add_name(s->l, "total", &name);
	rc = rc ? rc : add(s->l, depth, 2, begin, total, self, name);
	for (uint32_t c = n->first_child; !rc && c; c = s->t->nodes[c].next_sibling) {
		const struct query_diff_node *x = &s->t->nodes[c];
		if (both(x) >= s->least) {
			rc = add_side_node(s, c, depth + 1, child);
			continue;
		}
		for (int k = 0; k < 2; k++)
			rest[k] += (int64_t)x->total[k] * s->scale[k];
	}
	if (!rc && (rest[0] || rest[1]) && depth + 1 < DEPTH_MAX)
		rc = add(s->l, depth + 1, 2, child, rest, rest, s->other);
	for (int k = 0; k < 2; k++)
		begin[k] += total[k];
	return rc;
}

int levels_of_diff(struct levels *l, struct query *a, struct query *b, uint64_t max_nodes,
		   const int64_t scale[2], struct err *err)
{
	struct query_diff_tree *t = NULL;
	struct sides s = { .l = l, .scale = scale };
	int64_t begin[2] = { 0, 0 };
	int rc = query_diff_tree(&t, a, b, err);
	if (rc)
		return rc;
	s.t = t;
	rc = choose_least(t, max_nodes, &s.least);
	rc = rc ? rc : add_name(l, "(other)", &s.other);
	rc = rc ? rc : add_side_node(&s, 0, 0, begin);
	l->total[0] = (int64_t)query_info(a)->samples * scale[0];
	l->total[1] = (int64_t)query_info(b)->samples * scale[1];
	query_diff_tree_free(t);
	return rc ? err_set(err, rc, "out of memory") : 0;
}
