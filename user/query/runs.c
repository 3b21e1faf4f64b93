/* SPDX-License-Identifier: Apache-2.0 */
#include "query/runs.h"

#include "util/array.h"
#include "util/radix.h"

#include <errno.h>

static uint64_t key(const struct store_row *r)
{
	return (uint64_t)r->set << 32 | r->stack;
}

int runs_add(struct runs *r, const struct store_row *row)
{
	int rc = ARRAY_RESERVE(r->open.rows, r->open.cap, r->open.n + 1);
	if (rc)
		return rc;
	if (r->open.n && key(&r->open.rows[r->open.n - 1]) >= key(row))
		r->unsorted = true;
	r->has_sets |= row->set != 0;
	r->open.rows[r->open.n++] = *row;
	return 0;
}

static int merge(const struct run *a, const struct run *b, struct run *ret)
{
	struct run out = { .cap = a->n + b->n };
	size_t i = 0, j = 0;
	out.rows = malloc(out.cap * sizeof(*out.rows));
	if (!out.rows)
		return -ENOMEM;
	while (i < a->n && j < b->n) {
		uint64_t x = key(&a->rows[i]), y = key(&b->rows[j]);
		struct store_row *to = &out.rows[out.n++];
		*to = x <= y ? a->rows[i++] : b->rows[j++];
		if (x == y) {
			to->samples += b->rows[j].samples;
			to->value += b->rows[j++].value;
		}
	}
	for (; i < a->n; i++)
		out.rows[out.n++] = a->rows[i];
	for (; j < b->n; j++)
		out.rows[out.n++] = b->rows[j];
	*ret = out;
	return 0;
}

static int merge_last_two(struct runs *r)
{
	struct run *a = &r->done[r->n_done - 2], *b = a + 1, out;
	int rc = merge(a, b, &out);
	if (rc)
		return rc;
	free(a->rows);
	free(b->rows);
	*a = out;
	*b = (struct run){ 0 };
	r->n_done--;
	/* Where windows repeat each other half of the room is free. */
	struct store_row *fit = realloc(a->rows, a->n * sizeof(*fit));
	if (fit) {
		a->rows = fit;
		a->cap = a->n;
	}
	return 0;
}

int runs_sort_rows(struct store_row **io_rows, size_t n, bool by_set)
{
	const struct store_row *rows = *io_rows;
	if (!n)
		return 0;
	struct store_row *sorted = malloc(n * sizeof(*sorted));
	uint32_t *order = malloc(2 * n * sizeof(*order)), *keys = order ? order + n : order;
	int rc = sorted && order ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++) {
		order[i] = (uint32_t)i;
		keys[i] = rows[i].stack;
	}
	if (!rc)
		rc = radix_sort(order, n, keys);
	for (size_t i = 0; !rc && by_set && i < n; i++)
		keys[i] = rows[i].set;
	if (!rc && by_set)
		rc = radix_sort(order, n, keys);
	for (size_t i = 0; !rc && i < n; i++)
		sorted[i] = rows[order[i]];
	free(order);
	if (rc) {
		free(sorted);
		return rc;
	}
	free(*io_rows);
	*io_rows = sorted;
	return 0;
}

static int sort_open(struct run *o, bool has_sets)
{
	int rc = runs_sort_rows(&o->rows, o->n, has_sets);
	if (!rc)
		o->cap = o->n;
	return rc;
}

static void sum_equal(struct run *o)
{
	size_t to = 0;
	for (size_t i = 1; i < o->n; i++) {
		if (key(&o->rows[to]) != key(&o->rows[i])) {
			o->rows[++to] = o->rows[i];
			continue;
		}
		o->rows[to].samples += o->rows[i].samples;
		o->rows[to].value += o->rows[i].value;
	}
	o->n = to + 1;
}

int runs_close(struct runs *r)
{
	int rc = 0;
	if (!r->open.n)
		return 0;
	if (r->unsorted) {
		rc = sort_open(&r->open, r->has_sets);
		if (rc)
			return rc;
		sum_equal(&r->open);
	}
	r->unsorted = false;
	r->done[r->n_done++] = r->open;
	r->open = (struct run){ 0 };
	while (!rc && r->n_done >= 2 && r->done[r->n_done - 2].n / 2 <= r->done[r->n_done - 1].n)
		rc = merge_last_two(r);
	return rc;
}

int runs_finish(struct runs *r, struct store_row **ret_rows, size_t *ret_n)
{
	int rc = 0;
	while (!rc && r->n_done >= 2)
		rc = merge_last_two(r);
	if (rc)
		return rc;
	*ret_rows = r->done[0].rows;
	*ret_n = r->done[0].n;
	r->done[0] = (struct run){ 0 };
	return 0;
}

size_t runs_bytes(const struct runs *r)
{
	size_t n = r->open.cap;
	for (size_t i = 0; i < r->n_done; i++)
		n += r->done[i].cap;
	return n * sizeof(*r->open.rows);
}

void runs_fini(struct runs *r)
{
	for (size_t i = 0; i < r->n_done; i++)
		free(r->done[i].rows);
	free(r->open.rows);
	memset(r, 0, sizeof(*r));
}
