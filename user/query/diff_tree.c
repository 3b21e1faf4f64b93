/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trees of two queries as one. Frames become names first, so that a node is found by (parent,
 * name); the nodes of each side are then walked parents first.
 */
#include "query/diff.h"

#include "query/query_int.h"
#include "query/stats.h"
#include "util/array.h"
#include "util/idhash.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 4096

struct name {
	char *text; /* "function\0module" */
	size_t len;
};

/* query_diff_tree must stay the first member. */
struct tree {
	struct query_diff_tree tree;
	size_t cap;
	struct name *names;
	size_t n_names, names_cap;
	uint32_t *name_of; /* [nodes]: 0 for the root */
	size_t name_of_cap;
	struct idhash names_hash, nodes_hash;
};

struct place {
	uint32_t parent, name;
};

void query_diff_tree_free(struct query_diff_tree *pub)
{
	struct tree *t = (struct tree *)pub;
	if (!t)
		return;
	for (size_t i = 0; i < t->n_names; i++)
		free(t->names[i].text);
	free(t->names);
	free(t->name_of);
	idhash_fini(&t->names_hash);
	idhash_fini(&t->nodes_hash);
	free(t->tree.nodes);
	free(t);
}

static bool same_name(const void *ctx, uint32_t id, const void *key)
{
	const struct name *x = &((const struct tree *)ctx)->names[id], *y = key;
	return x->len == y->len && !memcmp(x->text, y->text, x->len);
}

/* The name of a frame, from 1. */
static int intern(struct tree *t, const struct query *q, const struct store *s, uint32_t frame,
		  uint32_t *ret)
{
	char text[2 * NAME_MAX_BYTES];
	struct name n = { .text = text };
	const struct store_frame *f = store_frame(s, frame);
	query_name(q, frame, text, NAME_MAX_BYTES);
	n.len = strlen(text) + 1;
	n.len += (size_t)snprintf(text + n.len, NAME_MAX_BYTES, "%s",
				  f ? store_string(s, f->module, NULL) : "") +
		 1;
	if (n.len > sizeof(text))
		n.len = sizeof(text);
	uint32_t hash = idhash_hash(&t->names_hash, n.text, n.len);
	uint32_t id = idhash_find(&t->names_hash, hash, same_name, t, &n);
	if (id == IDHASH_NONE) {
		int rc = ARRAY_RESERVE(t->names, t->names_cap, t->n_names + 1);
		rc = rc ? rc : idhash_reserve(&t->names_hash);
		n.text = rc ? NULL : malloc(n.len);
		if (!n.text)
			return -ENOMEM;
		memcpy(n.text, text, n.len);
		id = (uint32_t)t->n_names++;
		t->names[id] = n;
		idhash_put(&t->names_hash, hash, id);
	}
	*ret = id + 1;
	return 0;
}

static bool same_place(const void *ctx, uint32_t id, const void *key)
{
	const struct tree *t = ctx;
	const struct place *p = key;
	return t->tree.nodes[id].parent == p->parent && t->name_of[id] == p->name;
}

static int add_node(struct tree *t, uint32_t parent, uint32_t name, uint32_t frame, uint32_t *ret)
{
	uint32_t id = (uint32_t)t->tree.n_nodes;
	int rc = ARRAY_RESERVE(t->tree.nodes, t->cap, (size_t)id + 1);
	rc = rc ? rc : ARRAY_RESERVE(t->name_of, t->name_of_cap, (size_t)id + 1);
	if (rc)
		return rc;
	const char *text = name ? t->names[name - 1].text : "";
	t->tree.nodes[id] = (struct query_diff_node){ .text = text,
						      .module = name ? text + strlen(text) + 1 : "",
						      .parent = parent,
						      .frame = frame };
	t->name_of[id] = name;
	t->tree.n_nodes++;
	*ret = id;
	return 0;
}

static int child(struct tree *t, uint32_t parent, uint32_t name, uint32_t frame, uint32_t *ret)
{
	struct place p = { parent, name };
	uint32_t hash = idhash_hash(&t->nodes_hash, &p, sizeof(p));
	*ret = idhash_find(&t->nodes_hash, hash, same_place, t, &p);
	if (*ret != IDHASH_NONE)
		return 0;
	int rc = idhash_reserve(&t->nodes_hash);
	rc = rc ? rc : add_node(t, parent, name, frame, ret);
	if (!rc)
		idhash_put(&t->nodes_hash, hash, *ret);
	return rc;
}

static int add_nodes(struct tree *t, struct query *q, const struct query_node *nodes, size_t n,
		     int side)
{
	const struct store *s = q->store;
	size_t n_frames = store_n_frames(s);
	uint32_t *at = calloc(n + !n, sizeof(*at)), *known = calloc(n_frames + 1, sizeof(*known));
	int rc = at && known ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++) {
		uint32_t up, frame;
		store_stack(s, nodes[i].stack, &up, &frame);
		if (i && !known[frame])
			rc = intern(t, q, s, frame, &known[frame]);
		if (i && !rc)
			rc = child(t, at[nodes[i].parent], known[frame], frame, &at[i]);
		if (rc)
			break;
		t->tree.nodes[at[i]].self[side] += nodes[i].self;
		t->tree.nodes[at[i]].total[side] += nodes[i].total;
	}
	free(at);
	free(known);
	return rc;
}

static int add_side(struct tree *t, struct query *q, const struct query_view_spec *spec, int side,
		    struct err *err)
{
	struct query_view_tree v;
	int rc = query_view(&v, q, spec, err);
	if (rc)
		return rc;
	rc = add_nodes(t, q, v.nodes, v.n, side);
	query_view_free(&v);
	return rc;
}

/* Ascending, so that putting each in front of its siblings leaves them descending; ties by name. */
static int by_total(const void *a, const void *b, void *ctx)
{
	const struct query_diff_node *nodes = ctx;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	uint64_t x = nodes[i].total[0] + nodes[i].total[1],
		 y = nodes[j].total[0] + nodes[j].total[1];
	if (x != y)
		return x < y ? -1 : 1;
	int d = strcmp(nodes[j].text, nodes[i].text);
	d = d ? d : strcmp(nodes[j].module, nodes[i].module);
	return d ? d : (i < j) - (i > j);
}

static int link_children(struct query_diff_node *nodes, size_t n)
{
	uint32_t *order = malloc(n * sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, n, sizeof(*order), by_total, nodes);
	for (size_t i = 0; i < n; i++) {
		struct query_diff_node *node = &nodes[order[i]];
		if (!order[i])
			continue;
		node->next_sibling = nodes[node->parent].first_child;
		nodes[node->parent].first_child = order[i];
	}
	free(order);
	return 0;
}

int query_diff_view(struct query_diff_tree **ret, struct query *a, struct query *b,
		    const struct query_view_spec *spec, struct err *err)
{
	struct tree *t = calloc(1, sizeof(*t));
	uint32_t root;
	int rc = t ? add_node(t, 0, 0, 0, &root) : -ENOMEM;
	rc = rc ? rc : add_side(t, a, spec, 0, err);
	rc = rc ? rc : add_side(t, b, spec, 1, err);
	rc = rc ? rc : link_children(t->tree.nodes, t->tree.n_nodes);
	if (!rc) {
		*ret = &t->tree;
		return 0;
	}
	query_diff_tree_free(t ? &t->tree : NULL);
	return err_sys(err, rc, "cannot build the tree of the difference");
}

int query_diff_tree(struct query_diff_tree **ret, struct query *a, struct query *b, struct err *err)
{
	return query_diff_view(ret, a, b, NULL, err);
}

/* What no outcome could tell from chance is not tested (diff.h). */
int query_diff_verdicts(const uint64_t (*counts)[2], size_t n, const uint64_t all[2], uint8_t *ret)
{
	double *p = calloc(2 * n + 1, sizeof(*p)), *q = p ? p + n : p;
	size_t *at = calloc(n + 1, sizeof(*at)), n_tested = 0;
	int rc = p && at ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++) {
		const uint64_t *k = counts[i];
		ret[i] = DIFF_NOISE;
		if (k[0] > all[0] || k[1] > all[1] ||
		    stats_share_least_p(k[0] + k[1], all[0], all[1]) >= QUERY_DIFF_RATE)
			continue;
		at[n_tested] = i;
		p[n_tested++] = stats_share_p(k[0], all[0], k[1], all[1]);
	}
	rc = rc ? rc : stats_adjust(p, n_tested, q);
	for (size_t i = 0; !rc && i < n_tested; i++) {
		const uint64_t *k = counts[at[i]];
		if (q[i] < QUERY_DIFF_RATE)
			ret[at[i]] = (double)k[0] / (double)all[0] > (double)k[1] / (double)all[1]
					     ? DIFF_MORE
					     : DIFF_LESS;
	}
	free(p);
	free(at);
	return rc;
}
