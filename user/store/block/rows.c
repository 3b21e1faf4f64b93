/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block/rows.h"

#include "util/array.h"
#include "util/radix.h"

#include <errno.h>

/* By the place in column[]. */
enum { LEAF, EVENT, SAMPLES, VALUE, COUNT, SET, SET_SAMPLES, SET_VALUE, N };
_Static_assert(N == COLUMN_SET_VALUE - COLUMN_LEAF + 1, "columns of rows");

int rows_add(struct rows *r, const struct store_row *row)
{
	int rc = ARRAY_RESERVE(r->v, r->cap, r->n + 1);
	if (!rc)
		r->v[r->n++] = *row;
	return rc;
}

int rows_compare(const struct store_row *a, const struct store_row *b)
{
	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	if (a->event != b->event)
		return a->event < b->event ? -1 : 1;
	return a->set < b->set ? -1 : a->set > b->set;
}

static int by_key(const void *a, const void *b)
{
	return rows_compare(a, b);
}

/* Stable, by each key in turn, the least first. */
static int sort_many(struct rows *r)
{
	struct store_row *sorted = malloc(r->n * sizeof(*sorted));
	uint32_t *order = malloc(2 * r->n * sizeof(*order)), *keys = order ? order + r->n : order;
	int rc = sorted && order ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < r->n; i++)
		order[i] = (uint32_t)i;
	for (int k = 0; !rc && k < 3; k++) {
		for (size_t i = 0; i < r->n; i++)
			keys[i] = k == 0 ? r->v[i].set : k == 1 ? r->v[i].event : r->v[i].stack;
		rc = radix_sort(order, r->n, keys);
	}
	for (size_t i = 0; !rc && i < r->n; i++)
		sorted[i] = r->v[order[i]];
	if (!rc)
		memcpy(r->v, sorted, r->n * sizeof(*sorted));
	free(sorted);
	free(order);
	return rc;
}

static void sort_few(struct rows *r)
{
	for (size_t i = 1; i < r->n; i++) {
		struct store_row row = r->v[i];
		size_t k = i;
		for (; k && rows_compare(&row, &r->v[k - 1]) < 0; k--)
			r->v[k] = r->v[k - 1];
		r->v[k] = row;
	}
}

#define FEW 32

void rows_sort(struct rows *r)
{
	size_t to = 0;
	if (!r->n)
		return;
	if (r->n <= FEW)
		sort_few(r);
	else if (r->n < 16 * FEW || sort_many(r))
		qsort(r->v, r->n, sizeof(*r->v), by_key);
	for (size_t i = 1; i < r->n; i++) {
		if (rows_compare(&r->v[to], &r->v[i])) {
			r->v[++to] = r->v[i];
			continue;
		}
		r->v[to].samples += r->v[i].samples;
		r->v[to].value += r->v[i].value;
	}
	r->n = to + 1;
}

void rows_fini(struct rows *r)
{
	free(r->v);
	*r = (struct rows){ 0 };
}

/* ---- writing ---- */

static int put_sets(struct rows_writer *w, const struct store_row *v, size_t n, uint64_t samples)
{
	int rc = 0;
	if (samples > 1) /* else there is one row */
		rc = buf_add_varint(&w->column[COUNT], n);
	for (size_t i = 0; !rc && i < n; i++) {
		rc = buf_add_varint(&w->column[SET], i ? v[i].set - v[i - 1].set - 1 : v[i].set);
		if (i + 1 == n) /* the last has what is left */
			break;
		rc |= buf_add_varint(&w->column[SET_SAMPLES], v[i].samples - 1);
		rc |= buf_add_varint(&w->column[SET_VALUE], v[i].value);
	}
	return rc;
}

int rows_put(struct rows_writer *w, const struct store_row *group, size_t n)
{
	uint64_t samples = 0, value = 0, period = w->events[group->event].period;
	for (size_t i = 0; i < n; i++) {
		samples += group[i].samples;
		value += group[i].value;
		w->explicit |= group[i].value != group[i].samples * period;
	}
	if (w->n_groups >= ROWS_MAX || (!w->folded && n > ROWS_MAX - w->n_rows))
		return -E2BIG;
	const uint64_t v[] = { group->stack - w->leaf, group->event, samples, value };
	int rc = 0;
	for (size_t i = 0; !rc && i < sizeof(v) / sizeof(v[0]); i++)
		rc = buf_add_varint(&w->column[LEAF + i], v[i]);
	if (!rc && !w->folded)
		rc = put_sets(w, group, n, samples);
	w->leaf = group->stack;
	w->n_groups++;
	w->n_rows += w->folded ? 0 : (uint32_t)n;
	return rc;
}

void rows_finish(struct rows_writer *w, struct block *b)
{
	for (int i = 0; i < N; i++) {
		bool value = i == VALUE || i == SET_VALUE;
		if ((value && !w->explicit) || (w->folded && i >= COUNT))
			continue;
		b->column[COLUMN_LEAF + i] = w->column[i];
		b->has |= 1u << (COLUMN_LEAF + i);
		w->column[i] = (struct buf)BUF_INIT;
	}
	b->info.n_folded = w->n_groups;
	b->info.n_rows = w->folded ? 0 : w->n_rows;
	rows_writer_fini(w);
}

void rows_writer_fini(struct rows_writer *w)
{
	for (int i = 0; i < N; i++)
		buf_fini(&w->column[i]);
}

/* ---- reading ---- */

void rows_begin(struct rows_reader *r, const struct block_head *h, const struct buf *raw, bool sets,
		const struct rows_limits *l)
{
	*r = (struct rows_reader){ .limits = *l,
				   .has_value = block_has(h, COLUMN_VALUE),
				   .groups_left = h->info.n_folded };
	r->has_sets = sets && !h->info.level;
	r->rows_left = r->has_sets ? h->info.n_rows : 0;
	for (int i = 0; i < N; i++)
		r->column[i] = cursor_of(&raw[i]);
}

/* Everything that was read is whole, and nothing is left. */
static int end(const struct rows_reader *r)
{
	int n = r->has_sets ? N : COUNT;
	if (r->rows_left)
		return -EBADMSG;
	for (int i = 0; i < n; i++)
		if (r->column[i].bad || cursor_left(&r->column[i]))
			return -EBADMSG;
	return 0;
}

static int begin_sets(struct rows_reader *r)
{
	uint64_t n = r->group.samples > 1 ? cursor_varint(&r->column[COUNT]) : 1;
	if (!n || n > r->rows_left || n > r->group.samples)
		return -EBADMSG;
	r->left = (uint32_t)n;
	r->next_set = 0;
	r->samples_left = r->group.samples;
	r->value_left = r->group.value;
	return 0;
}

int rows_next_group(struct rows_reader *r)
{
	struct cursor *c = r->column;
	while (r->left) {
		int rc = rows_next(r);
		if (rc < 0)
			return rc;
	}
	if (!r->groups_left--)
		return r->groups_left = 0, end(r);
	uint64_t step = cursor_varint(&c[LEAF]), event = cursor_varint(&c[EVENT]),
		 samples = cursor_varint(&c[SAMPLES]);
	if (step >= r->limits.n_leaves - r->group.stack || event >= r->limits.n_events ||
	    !samples || (r->begun && !step && event <= r->group.event))
		return -EBADMSG;
	r->group.stack += (uint32_t)step;
	r->group.event = (uint32_t)event;
	r->group.samples = samples;
	r->group.value =
		r->has_value ? cursor_varint(&c[VALUE]) : samples * r->limits.events[event].period;
	r->begun = true;
	if (r->has_sets && begin_sets(r))
		return -EBADMSG;
	return 1;
}

int rows_take(struct rows_reader *r, struct store_row *out, unsigned cap)
{
	unsigned n = r->left < cap ? r->left : cap;
	uint64_t period = r->limits.events[r->group.event].period, samples_left = r->samples_left,
		 set = r->next_set;
	struct cursor sets = r->column[SET], samples = r->column[SET_SAMPLES];
	for (unsigned i = 0; i < n; i++) {
		uint64_t step = cursor_varint(&sets);
		if (step > UINT32_MAX || (set += step) >= r->limits.n_sets)
			return -EBADMSG;
		out[i] = (struct store_row){ (uint32_t)set++, r->group.stack, r->group.event,
					     samples_left, r->value_left };
		if (!--r->left)
			break;
		uint64_t less = cursor_varint(&samples);
		if (less >= samples_left - r->left) /* each of those to come has one at least */
			return -EBADMSG;
		out[i].samples = less + 1;
		out[i].value =
			r->has_value ? cursor_varint(&r->column[SET_VALUE]) : (less + 1) * period;
		samples_left -= out[i].samples;
		r->value_left -= out[i].value;
	}
	r->column[SET] = sets;
	r->column[SET_SAMPLES] = samples;
	r->samples_left = samples_left;
	r->next_set = set;
	r->rows_left -= n;
	return (int)n;
}

int rows_next(struct rows_reader *r)
{
	return rows_take(r, &r->row, 1);
}

/* As rows_take, which would write each row and have it read again. */
int rows_sum(struct rows_reader *r, struct rows_sum *by_set)
{
	uint64_t period = r->limits.events[r->group.event].period, samples_left = r->samples_left,
		 set = r->next_set;
	struct cursor sets = r->column[SET], samples = r->column[SET_SAMPLES];
	uint32_t n_sets = r->limits.n_sets;
	for (r->rows_left -= r->left; r->left;) {
		uint64_t step = cursor_varint(&sets), n = samples_left, value = r->value_left;
		if (step > UINT32_MAX || (set += step) >= n_sets)
			return -EBADMSG;
		if (--r->left) {
			n = cursor_varint(&samples) + 1;
			if (n > samples_left - r->left || !n)
				return -EBADMSG;
			value = r->has_value ? cursor_varint(&r->column[SET_VALUE]) : n * period;
			samples_left -= n;
			r->value_left -= value;
		}
		by_set[set].samples += n;
		by_set[set++].value += value;
	}
	r->column[SET] = sets;
	r->column[SET_SAMPLES] = samples;
	return 0;
}
