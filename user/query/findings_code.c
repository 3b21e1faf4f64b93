/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is behind a growth: the function whose calls have more than half of it, and who started what
 * is new.
 */
#include "query/diff.h"
#include "query/findings_int.h"
#include "query/selector.h"
#include "util/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS 1e9
#define EXPLAINED 6 /* findings, as the page shows at first: each takes reading the range again */
#define NEW 0.1	    /* of the rate: who had no more before is new */

/* Append a text in quotes. */
static int add_quoted(struct buf *b, const char *text)
{
	int rc = buf_add_u8(b, '"');
	for (const char *p = text; *p; p++)
		rc |= buf_printf(
			b, (unsigned char)*p < ' ' || *p == '"' || *p == '\\' ? "\\x%02x" : "%c",
			(unsigned char)*p);
	return rc | buf_add_u8(b, '"');
}

char *findings_where(const char *where, const char *key, const char *value)
{
	struct buf b = BUF_INIT;
	int rc = buf_add_u8(&b, '{');
	rc |= selector_add_matchers(&b, where);
	rc |= add_quoted(&b, key);
	rc |= buf_add_u8(&b, '=');
	rc |= add_quoted(&b, value);
	rc |= buf_add(&b, "}", sizeof("}"));
	if (rc)
		buf_fini(&b);
	return (char *)b.data;
}

static int open_side(struct looking *l, const char *where, int64_t from_ns, int64_t to_ns,
		     struct query **ret)
{
	struct query_spec spec = { .where = where,
				   .from_ns = from_ns,
				   .to_ns = to_ns,
				   .labels = QUERY_NO_LABELS,
				   .by_start = true,
				   .parts = 3 };
	return query_open(ret, l->store, &spec, l->err);
}

static double growth(const struct query_diff_node *n, const double covered_s[2])
{
	return (double)n->total[0] / covered_s[0] - (double)n->total[1] / covered_s[1];
}

/* The function nearest to the leaf that has more than half of what grew; NULL: there is none. */
static const struct query_diff_node *heart(const struct looking *l, const struct query_diff_tree *t,
					   const double covered_s[2])
{
	const struct query_diff_node *at = t->nodes, *found = NULL;
	double half = growth(at, covered_s) / 2;
	while (at) {
		const struct query_diff_node *next = NULL;
		for (uint32_t c = at->first_child; c; c = t->nodes[c].next_sibling)
			if (growth(&t->nodes[c], covered_s) > half)
				next = &t->nodes[c];
		const struct store_frame *f = next ? store_frame(l->store, next->frame) : NULL;
		if (f && f->kind == FRAME_USER)
			found = next;
		at = next;
	}
	return found;
}

static int find_function(struct looking *l, struct finding *f, const char *where)
{
	struct query *q[2] = { NULL, NULL };
	struct query_diff_tree *t = NULL;
	double covered[2] = { 1, 1 };
	int rc = open_side(l, where, f->since_ns, f->since_ns + f->span_ns, &q[0]);
	rc = rc ? rc : open_side(l, where, l->before_ns, f->since_ns, &q[1]);
	for (int i = 0; !rc && i < 2; i++)
		if (query_info(q[i])->covered_ns)
			covered[i] = (double)query_info(q[i])->covered_ns / NS;
	rc = rc ? rc : query_diff_tree(&t, q[0], q[1], l->err);
	const struct query_diff_node *n = rc ? NULL : heart(l, t, covered);
	if (n) {
		double each = (double)query_info(q[0])->event->ns_per_sample / NS;
		f->function_now = (double)n->total[0] * each / covered[0];
		f->function_before = (double)n->total[1] * each / covered[1];
		rc = findings_keep(l, n->text, &f->function);
		rc = rc ? rc : findings_keep(l, n->module, &f->module);
	}
	query_diff_tree_free(t);
	query_close(q[0]);
	query_close(q[1]);
	return rc;
}

/* Name the program that has more than half of it, and who started that. */
static int find_parent(struct looking *l, struct finding *f, const char *where)
{
	static const char *const keys[] = { "comm", "parent" };
	struct query *q = NULL;
	struct query_table *t = NULL;
	struct query_spec spec = { .where = where,
				   .from_ns = f->since_ns,
				   .to_ns = f->since_ns + f->span_ns,
				   .labels = QUERY_KEYS,
				   .keys = keys,
				   .n_keys = 2,
				   .by_start = true };
	int rc = query_open(&q, l->store, &spec, l->err);
	rc = rc ? rc : query_table(q, keys, 2, &t, l->err);
	const struct query_table_row *r = rc || !t->n_rows || t->rows[0].other ? NULL : t->rows;
	if (r && r->samples * 2 > query_info(q)->samples && r->present[1] &&
	    strcmp(r->values[1], f->value) != 0) {
		rc = findings_keep(l, r->values[1], &f->parent);
		if (strcmp(r->values[0], f->value) != 0)
			rc = rc ? rc : findings_keep(l, r->values[0], &f->comm);
	}
	query_table_free(t);
	query_close(q);
	return rc;
}

static int explain(struct looking *l, struct finding *f)
{
	bool cpu = f->kind != FINDING_OFF;
	char *where = findings_where(l->spec->where, f->key, f->value);
	int rc = where ? 0 : err_set(l->err, -ENOMEM, "out of memory");
	if (!rc && cpu)
		rc = find_function(l, f, where);
	if (!rc && cpu && !strcmp(f->key, l->keys[0]) && f->before < NEW * f->now)
		rc = find_parent(l, f, where);
	if (!rc && !cpu)
		rc = findings_explain_wait(l, f, where);
	free(where);
	return rc;
}

int findings_explain(struct looking *l)
{
	int rc = 0;
	for (size_t i = 0, n = 0; !rc && i < l->n && n < EXPLAINED; i++)
		if (l->v[i].kind == FINDING_MORE || l->v[i].kind == FINDING_BURST ||
		    l->v[i].kind == FINDING_OFF) {
			rc = explain(l, &l->v[i]);
			n++;
		}
	return rc;
}
