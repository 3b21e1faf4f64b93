/* SPDX-License-Identifier: Apache-2.0 */
#include "query/blame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX 300

/* One side of a row of the table. */
struct side {
	enum blame_kind kind;
	const char *name;
	uint64_t ns;
	size_t row;
};

/* Rows are (victim, occupant, the occupant's comm). */
static struct side victim_of(const struct query_table_row *r, size_t row)
{
	if (r->other)
		return (struct side){ BLAME_OTHER, "(other)", r->samples, row };
	return (struct side){ r->present[0] ? BLAME_VALUE : BLAME_NONE,
			      r->present[0] ? r->values[0] : "(none)", r->samples, row };
}

struct blame_party blame_occupant(const char *value, const char *comm)
{
	struct blame_party p = { BLAME_VALUE, value, 0 };
	if (value && strcmp(value, comm) != 0)
		return p;
	if (!strcmp(comm, "(idle)"))
		p.kind = BLAME_IDLE;
	else if (!strcmp(comm, "(interrupt)"))
		p.kind = BLAME_INTERRUPT;
	else if (!strcmp(comm, "(other)"))
		p.kind = BLAME_OTHER;
	else if (!value)
		p.kind = BLAME_NONE;
	if (p.kind != BLAME_VALUE)
		p.name = p.kind == BLAME_NONE ? "(none)" : comm;
	return p;
}

static struct side occupant_of(const struct query_table_row *r, size_t row)
{
	if (r->other)
		return (struct side){ BLAME_OTHER, "(other)", r->samples, row };
	struct blame_party p = blame_occupant(r->present[1] ? r->values[1] : NULL, r->values[2]);
	return (struct side){ p.kind, p.name, r->samples, row };
}

static int by_name(const void *a, const void *b)
{
	const struct side *x = a, *y = b;
	return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : strcmp(x->name, y->name);
}

static int by_ns(const void *a, const void *b)
{
	const struct side *x = a, *y = b;
	return x->ns != y->ns ? (x->ns < y->ns ? 1 : -1) : by_name(a, b);
}

/*
 * The parties of one side, at most `max` and one for the rest; of_row[i] becomes the index of that
 * of row i. `v` are the sides of all rows, in their order; what is in it is gone afterwards.
 */
static int rank(struct side *v, size_t n, size_t max, struct blame_party **ret, size_t *ret_n,
		size_t *ret_all, size_t *of_row)
{
	struct side *distinct = calloc(n + 1, sizeof(*distinct));
	/* of a row: its place among the distinct, by name */
	size_t *first = calloc(n + 1, sizeof(*first));
	size_t *place = calloc(n + 1, sizeof(*place)); /* of those: by time */
	size_t all = 0, most = max < n ? max : n;
	*ret = calloc(most + 1, sizeof(**ret));
	if (!distinct || !first || !place || !*ret) {
		free(distinct);
		free(first);
		free(place);
		return -ENOMEM;
	}
	qsort(v, n, sizeof(*v), by_name);
	for (size_t i = 0; i < n; i++) {
		if (!i || by_name(&v[i], &v[i - 1])) {
			distinct[all] = v[i];
			distinct[all].ns = 0;
			distinct[all].row = all;
			all++;
		}
		distinct[all - 1].ns += v[i].ns;
		first[v[i].row] = all - 1;
	}
	qsort(distinct, all, sizeof(*distinct), by_ns);
	for (size_t i = 0; i < all; i++) {
		size_t at = i < max ? i : max;
		place[distinct[i].row] = at;
		if (i <= max)
			(*ret)[at] = (struct blame_party){ distinct[i].kind, distinct[i].name, 0 };
		if (i == max)
			(*ret)[at] = (struct blame_party){ BLAME_REST, "(the rest)", 0 };
		(*ret)[at].ns += distinct[i].ns;
	}
	for (size_t i = 0; i < n; i++)
		of_row[i] = place[first[i]];
	*ret_all = all;
	*ret_n = all < max + 1 ? all : max + 1;
	free(distinct);
	free(first);
	free(place);
	return 0;
}

static int fill(struct query_blame *b, size_t max_victims, size_t max_occupants)
{
	const struct query_table *t = b->table;
	struct side *v = calloc(t->n_rows + 1, sizeof(*v));
	size_t *victim = calloc(t->n_rows + 1, sizeof(*victim)),
	       *occupant = calloc(t->n_rows + 1, sizeof(*occupant));
	int rc = v && victim && occupant ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < t->n_rows; i++)
		v[i] = victim_of(&t->rows[i], i);
	rc = rc ? rc
		: rank(v, t->n_rows, max_victims, &b->victim, &b->n_victims, &b->victims, victim);
	for (size_t i = 0; !rc && i < t->n_rows; i++)
		v[i] = occupant_of(&t->rows[i], i);
	rc = rc ? rc
		: rank(v, t->n_rows, max_occupants, &b->occupant, &b->n_occupants, &b->occupants,
		       occupant);
	if (!rc) {
		b->ns = calloc(b->n_victims * b->n_occupants + 1, sizeof(*b->ns));
		rc = b->ns ? 0 : -ENOMEM;
	}
	for (size_t i = 0; !rc && i < t->n_rows; i++) {
		b->ns[victim[i] * b->n_occupants + occupant[i]] += t->rows[i].samples;
		b->total += t->rows[i].samples;
	}
	free(v);
	free(victim);
	free(occupant);
	return rc;
}

int query_blame(struct query_blame **ret, struct store *s, const struct query_spec *spec,
		const char *key, size_t max_victims, size_t max_occupants, struct err *err)
{
	struct query_blame *b = calloc(1, sizeof(*b));
	struct query_spec of = *spec;
	char by[KEY_MAX];
	if (!b)
		return err_set(err, -ENOMEM, "out of memory");
	int len = snprintf(by, sizeof(by), "by.%s", key);
	const char *keys[] = { key, by, "by.comm" };
	of.metric = spec->metric == QUERY_WAKER ? QUERY_WAKER : QUERY_BLAME;
	of.event = NULL;
	of.labels = QUERY_KEYS;
	of.keys = keys;
	of.n_keys = 3;
	int rc = len < KEY_MAX ? 0 : err_set(err, -EINVAL, "the key is too long");
	rc = rc ? rc : query_open(&b->query, s, &of, err);
	rc = rc ? rc : query_table(b->query, keys, 3, &b->table, err);
	if (!rc) {
		rc = fill(b, max_victims ? max_victims : 1, max_occupants ? max_occupants : 1);
		if (rc)
			err_set(err, rc, "out of memory");
	}
	if (rc)
		query_blame_free(b);
	else
		*ret = b;
	return rc;
}

void query_blame_free(struct query_blame *b)
{
	if (!b)
		return;
	free(b->victim);
	free(b->occupant);
	free(b->ns);
	query_table_free(b->table);
	query_close(b->query);
	free(b);
}
