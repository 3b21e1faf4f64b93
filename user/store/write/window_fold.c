/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keep the open window within a number of rows: of each label set and event the rows with the
 * smallest values become one row. Sums of label sets stay exact. The sets with the most rows lose
 * theirs first.
 */
#include "store/block/rows.h"

#include "store/writer.h"
#include "util/bisect.h"
#include "store/write/writer_int.h"

#include <errno.h>
#include <stdlib.h>

static bool is_pinned(const struct store_folding_rule *f, const struct store_row *row)
{
	bool event = false;
	for (size_t i = 0; i < f->n_events; i++)
		event |= f->events[i] == row->event;
	return !event || row->stack == f->pinned;
}

/* By label set and event; then the largest first, but the row to fold into before all. */
struct by_size {
	struct store_row row;
	bool is_other;
};

static int by_size(const void *pa, const void *pb)
{
	const struct by_size *a = pa, *b = pb;
	if (a->row.set != b->row.set)
		return a->row.set < b->row.set ? -1 : 1;
	if (a->row.event != b->row.event)
		return a->row.event < b->row.event ? -1 : 1;
	if (a->is_other != b->is_other)
		return a->is_other ? -1 : 1;
	if (a->row.value != b->row.value)
		return a->row.value > b->row.value ? -1 : 1;
	if (a->row.samples != b->row.samples)
		return a->row.samples > b->row.samples ? -1 : 1;
	return a->row.stack < b->row.stack ? -1 : a->row.stack > b->row.stack;
}

static size_t group_end(const struct by_size *v, size_t n, size_t from)
{
	size_t end = from + 1;
	while (end < n && v[end].row.set == v[from].row.set &&
	       v[end].row.event == v[from].row.event)
		end++;
	return end;
}

/* How many rows stay when each group keeps `most` and one for the others. */
static size_t rows_left(const struct by_size *v, size_t n, size_t most)
{
	size_t left = 0;
	for (size_t i = 0, end; i < n; i = end) {
		end = group_end(v, n, i);
		left += end - i <= most + 1 ? end - i : most + 1;
	}
	return left;
}

/*
 * The most rows that each group may keep so that no more than `target` stay; 0: one row for all of
 * them.
 */
static size_t choose_most(const struct by_size *v, size_t n, size_t target)
{
	return bisect(most, 1, n + 1, rows_left(v, n, most) <= target) - 1;
}

/* Put the groups back into the window's rows, which end at *n. */
static uint64_t put_groups(struct store_row *rows, size_t *n, const struct by_size *v, size_t n_v,
			   size_t most, uint32_t other)
{
	uint64_t folded = 0;
	for (size_t i = 0, end; i < n_v; i = end) {
		end = group_end(v, n_v, i);
		if (end - i <= most + 1) {
			for (size_t k = i; k < end; k++)
				rows[(*n)++] = v[k].row;
			continue;
		}
		size_t first = v[i].is_other ? i + 1 : i;
		struct store_row sum = { v[i].row.set, other, v[i].row.event, 0, 0 };
		for (size_t k = i; k < end; k++) {
			if (k >= first && k < first + most) {
				rows[(*n)++] = v[k].row;
				continue;
			}
			sum.samples += v[k].row.samples;
			sum.value += v[k].row.value;
			folded += v[k].is_other ? 0 : v[k].row.samples;
		}
		if (sum.samples)
			rows[(*n)++] = sum;
	}
	return folded;
}

/*
 * No row is found by its content until this is done; there is room, since rows only became fewer.
 */
static void hash_rows(struct store_writer *w)
{
	idhash_clear(&w->row_hash);
	for (size_t i = 0; i < w->rows.n; i++)
		writer_put_row_hash(w, (uint32_t)i);
}

int store_fold_small_rows(struct store_writer *w, const struct store_folding_rule *f,
			  uint64_t *ret_samples)
{
	struct rows *r = &w->rows;
	*ret_samples = 0;
	if (r->n <= f->max)
		return 0;
	struct by_size *v = malloc(r->n * sizeof(*v));
	if (!v)
		return -ENOMEM;
	size_t n = 0, kept = 0;
	for (size_t i = 0; i < r->n; i++) {
		if (is_pinned(f, &r->v[i]))
			r->v[kept++] = r->v[i];
		else if (r->v[i].samples)
			v[n++] = (struct by_size){ r->v[i], r->v[i].stack == f->other };
	}
	qsort(v, n, sizeof(*v), by_size);
	size_t target = f->max / 2 > kept ? f->max / 2 - kept : 0;
	*ret_samples = put_groups(r->v, &kept, v, n, choose_most(v, n, target), f->other);
	r->n = kept;
	free(v);
	hash_rows(w);
	return 0;
}

size_t store_n_rows(const struct store_writer *w)
{
	return w->rows.n;
}

void store_writer_memory(const struct store_writer *w, struct store_memory *ret)
{
	size_t dictionaries = w->has_before ? dicts_bytes(&w->before) : 0;
	for (int k = 0; k < N_SEGMENT_LEVELS; k++)
		dictionaries += dicts_bytes(&w->out[k].d);
	*ret = (struct store_memory){
		.dictionaries = dictionaries,
		.window = w->rows.cap * sizeof(*w->rows.v) +
			  w->row_hash.cap * sizeof(*w->row_hash.slots) + setpool_bytes(&w->sets),
	};
}

void store_give_back(struct store_writer *w)
{
	if (w->rows.n)
		return;
	rows_fini(&w->rows);
	idhash_fini(&w->row_hash);
}
