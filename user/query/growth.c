/* SPDX-License-Identifier: Apache-2.0 */
#include "query/growth.h"

#include "util/array.h"
#include "util/idhash.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDS 6 /* an end is at most this part of the range */

/* Bytes of a value and a stack at both ends. */
struct cell {
	uint32_t row, stack;
	uint64_t bytes[2];
};

struct growing {
	struct growth *g;
	const char *key;
	size_t cap_rows;
	struct cell *cells;
	size_t n_cells, cap_cells;
	struct idhash values, by_stack;
};

/* A label's value; text NULL: without the label. */
struct text {
	const char *text;
	size_t len;
	char room[32];
};

static void value_of(const struct growing *b, const struct query *q, uint32_t set, struct text *ret)
{
	const struct label *l;
	const size_t n = query_set(q, set, &l), key_len = strlen(b->key);
	size_t i = 0;
	while (i < n && (l[i].key_len != key_len || memcmp(l[i].key, b->key, key_len) != 0))
		i++;
	*ret = (struct text){ 0 };
	if (i < n && l[i].type == LABEL_STRING) {
		ret->text = l[i].str;
		ret->len = l[i].str_len;
	} else if (i < n) {
		ret->len =
			(size_t)snprintf(ret->room, sizeof(ret->room), "%lld", (long long)l[i].num);
		ret->text = ret->room;
	}
}

static bool same_value(const void *ctx, uint32_t id, const void *key)
{
	const char *have = ((const struct growth *)ctx)->rows[id].value;
	const struct text *t = key;
	return have && t->text ? !strncmp(have, t->text, t->len) && !have[t->len]
			       : !have && !t->text;
}

static int find_row(struct growing *b, const struct text *value, uint32_t *ret)
{
	struct growth *g = b->g;
	const uint32_t hash = idhash_hash(&b->values, value->text ? value->text : "", value->len);
	*ret = idhash_find(&b->values, hash, same_value, g, value);
	if (*ret != IDHASH_NONE)
		return 0;
	char *copy = value->text ? strndup(value->text, value->len) : NULL;
	if ((value->text && !copy) || ARRAY_RESERVE(g->rows, b->cap_rows, g->n_rows + 1) ||
	    idhash_reserve(&b->values)) {
		free(copy);
		return -ENOMEM;
	}
	*ret = (uint32_t)g->n_rows++;
	g->rows[*ret] = (struct growth_row){ .value = copy };
	idhash_put(&b->values, hash, *ret);
	return 0;
}

static bool same_cell(const void *ctx, uint32_t id, const void *key)
{
	const struct cell *a = &((const struct growing *)ctx)->cells[id], *c = key;
	return a->row == c->row && a->stack == c->stack;
}

static int add_cell(struct growing *b, const struct cell *c)
{
	const uint32_t key[] = { c->row, c->stack };
	const uint32_t hash = idhash_hash(&b->by_stack, key, sizeof(key));
	const uint32_t id = idhash_find(&b->by_stack, hash, same_cell, b, c);
	if (id != IDHASH_NONE) {
		b->cells[id].bytes[0] += c->bytes[0];
		b->cells[id].bytes[1] += c->bytes[1];
		return 0;
	}
	if (ARRAY_RESERVE(b->cells, b->cap_cells, b->n_cells + 1) || idhash_reserve(&b->by_stack))
		return -ENOMEM;
	b->cells[b->n_cells] = *c;
	idhash_put(&b->by_stack, hash, (uint32_t)b->n_cells++);
	return 0;
}

static int add_end(struct growing *b, int end)
{
	size_t n;
	const struct query *q = b->g->ends[end];
	const struct store_row *rows = query_rows(q, &n);
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		struct cell c = { .stack = rows[i].stack };
		struct text value;
		c.bytes[end] = rows[i].samples;
		value_of(b, q, rows[i].set, &value);
		rc = find_row(b, &value, &c.row);
		rc = rc ? rc : add_cell(b, &c);
		if (!rc)
			*(end ? &b->g->rows[c.row].last : &b->g->rows[c.row].first) +=
				rows[i].samples;
	}
	return rc;
}

/* Keep the stacks of a row that grew most. */
static void keep_stack(struct growth_row *r, const struct cell *c)
{
	struct growth_stack s = { c->stack, (int64_t)(c->bytes[1] - c->bytes[0]) };
	for (unsigned i = 0; i < GROWTH_STACKS; i++)
		if (s.bytes > r->stacks[i].bytes) {
			struct growth_stack less = r->stacks[i];
			r->stacks[i] = s;
			s = less;
		}
}

static void judge(struct growth *g, struct growth_row *r)
{
	const uint64_t first = query_info(g->ends[0])->grain, last = query_info(g->ends[1])->grain;
	const double grown = (double)r->last - (double)r->first,
		     seconds = (double)(g->to_ns - g->from_ns) / 1e9 - g->end_s,
		     /* The variance of a sum of B bytes is at most B times the mean distance */
		deviation = sqrt((double)r->first * (double)first + (double)r->last * (double)last);
	r->bytes_per_s = seconds > 0 ? grown / seconds : 0;
	r->chance = deviation > 0 ? erfc(grown / deviation / M_SQRT2) / 2 * (double)g->n_rows : 1;
	r->grows = grown > 0 && r->chance < GROWTH_CHANCE;
}

static int by_growth(const void *pa, const void *pb)
{
	const struct growth_row *a = pa, *b = pb;
	return a->bytes_per_s != b->bytes_per_s ? (a->bytes_per_s < b->bytes_per_s ? 1 : -1) : 0;
}

static int build(struct growing *b)
{
	struct growth *g = b->g;
	int rc = add_end(b, 0);
	rc = rc ? rc : add_end(b, 1);
	for (size_t i = 0; !rc && i < b->n_cells; i++)
		keep_stack(&g->rows[b->cells[i].row], &b->cells[i]);
	for (size_t i = 0; !rc && i < g->n_rows; i++) {
		judge(g, &g->rows[i]);
		g->first += g->rows[i].first;
		g->last += g->rows[i].last;
	}
	if (!rc && g->n_rows)
		qsort(g->rows, g->n_rows, sizeof(*g->rows), by_growth);
	return rc;
}

/* Find the range in whole windows. */
static int find_range(struct growth *g, struct store *s, struct query_spec spec, struct err *err)
{
	struct query *whole = NULL;
	spec.labels = QUERY_TOTALS;
	int rc = query_open(&whole, s, &spec, err);
	if (!rc) {
		g->from_ns = query_info(whole)->from_ns;
		g->to_ns = query_info(whole)->to_ns;
	}
	query_close(whole);
	int64_t end = (g->to_ns - g->from_ns) / ENDS;
	end = end > QUERY_WINDOW_NS ? end - end % QUERY_WINDOW_NS : QUERY_WINDOW_NS;
	g->end_s = (double)end / 1e9;
	if (!rc && g->to_ns - g->from_ns < 2 * end)
		return err_set(err, -ENODATA,
			       "growth needs a range of two windows of 10 s at least");
	return rc;
}

int growth_open(struct growth *ret, struct store *s, const struct query_spec *spec, const char *key,
		struct err *err)
{
	struct growing b = { .g = ret, .key = key };
	struct query_spec of = *spec;
	*ret = (struct growth){ 0 };
	of.metric = QUERY_INUSE_SPACE;
	of.keys = &key;
	of.n_keys = 1;
	of.parts = 2;
	int rc = find_range(ret, s, of, err);
	const int64_t end = (int64_t)(ret->end_s * 1e9);
	of.labels = QUERY_KEYS_STACKS;
	of.by_start = true;
	of.from_ns = ret->from_ns;
	of.to_ns = ret->from_ns + end;
	rc = rc ? rc : query_open(&ret->ends[0], s, &of, err);
	of.from_ns = ret->to_ns - end;
	of.to_ns = ret->to_ns;
	rc = rc ? rc : query_open(&ret->ends[1], s, &of, err);
	if (!rc && build(&b))
		rc = err_sys(err, -ENOMEM, "cannot compare");
	free(b.cells);
	idhash_fini(&b.values);
	idhash_fini(&b.by_stack);
	return rc;
}

void growth_close(struct growth *g)
{
	for (size_t i = 0; i < g->n_rows; i++)
		free(g->rows[i].value);
	free(g->rows);
	query_close(g->ends[0]);
	query_close(g->ends[1]);
	*g = (struct growth){ 0 };
}
