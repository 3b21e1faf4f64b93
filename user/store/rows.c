/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rows.h"

#include "util/array.h"

int rows_add(struct rows *r, const struct store_row *row)
{
	int rc = ARRAY_RESERVE(r->v, r->cap, r->n + 1);
	if (!rc)
		r->v[r->n++] = *row;
	return rc;
}

static int by_key(const void *pa, const void *pb)
{
	const struct store_row *a = pa, *b = pb;
	if (a->set != b->set)
		return a->set < b->set ? -1 : 1;
	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	return a->event < b->event ? -1 : a->event > b->event;
}

void rows_sort(struct rows *r)
{
	size_t to = 0;
	if (!r->n)
		return;
	qsort(r->v, r->n, sizeof(*r->v), by_key);
	for (size_t i = 1; i < r->n; i++) {
		if (by_key(&r->v[to], &r->v[i])) {
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

static bool values_implied(const struct rows *r, const struct store_event *events)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].value != r->v[i].samples * events[r->v[i].event].period)
			return false;
	return true;
}

int rows_encode(struct block *b, const struct rows *r, bool folded, const struct store_event *events)
{
	struct buf *c = b->column + (folded ? COLUMN_FOLDED_STACK - COLUMN_STACK : 0);
	bool implied = values_implied(r, events);
	struct store_row last = { 0 };
	int rc = 0;
	for (size_t i = 0; !rc && i < r->n; i++) {
		const struct store_row *row = &r->v[i];
		if (!folded)
			rc = buf_add_varint(&c[COLUMN_SET], row->set - last.set);
		if (!rc)
			rc = buf_add_varint(&c[COLUMN_STACK],
					    row->set == last.set ? row->stack - last.stack : row->stack);
		if (!rc)
			rc = buf_add_varint(&c[COLUMN_EVENT], row->event);
		if (!rc)
			rc = buf_add_varint(&c[COLUMN_SAMPLES], row->samples);
		if (!rc && !implied)
			rc = buf_add_varint(&c[COLUMN_VALUE], row->value);
		last = *row;
	}
	uint32_t has = (folded ? 0 : 1u << COLUMN_SET) | 1u << COLUMN_STACK | 1u << COLUMN_EVENT | 1u << COLUMN_SAMPLES |
		       (implied ? 0 : 1u << COLUMN_VALUE);
	b->has |= folded ? has << (COLUMN_FOLDED_STACK - COLUMN_STACK) : has;
	return rc;
}

/* Most varints have one byte. */
static inline uint64_t next(struct cursor *c)
{
	if (c->p < c->end && *c->p < 0x80)
		return *c->p++;
	return cursor_varint(c);
}

static int decode_row(struct cursor *c, bool has_value, const struct store_row *last, const struct rows_limits *l,
		      struct store_row *ret)
{
	uint64_t set = next(&c[0]), stack = next(&c[1]), event = next(&c[2]);
	bool same_set = last && !set;
	if (set > UINT32_MAX || stack > UINT32_MAX)
		return -EBADMSG;
	if (last)
		set += last->set;
	if (same_set) {
		stack += last->stack;
		if (stack == last->stack && event <= last->event)
			return -EBADMSG;
	}
	if (set >= l->n_sets || stack >= l->n_stacks || event >= l->n_events)
		return -EBADMSG;
	*ret = (struct store_row){ (uint32_t)set, (uint32_t)stack, (uint32_t)event, next(&c[3]), 0 };
	ret->value = has_value ? next(&c[4]) : ret->samples * l->events[event].period;
	return 0;
}

int rows_decode(struct rows *r, const struct buf *raw, bool has_value, size_t n, bool folded,
		const struct rows_limits *l)
{
	enum { N = COLUMN_VALUE - COLUMN_SET + 1 };
	struct cursor c[N];
	if (n > raw[1].len) /* a row takes a byte at least: no more is allocated than that allows */
		return -EBADMSG;
	uint8_t *zeros = folded ? calloc(n + 1, 1) : NULL;
	int rc = folded && !zeros ? -ENOMEM : ARRAY_RESERVE(r->v, r->cap, r->n + n);
	for (int i = 0; i < N; i++)
		c[i] = (struct cursor){ raw[i].data, raw[i].data + raw[i].len, 0 };
	if (folded)
		c[0] = (struct cursor){ zeros, zeros + n, 0 };
	for (size_t i = 0; !rc && i < n; i++) {
		rc = decode_row(c, has_value, i ? &r->v[r->n - 1] : NULL, l, &r->v[r->n]);
		r->n += !rc;
	}
	for (int i = 0; !rc && i < (has_value ? N : N - 1); i++)
		rc = c[i].bad || cursor_left(&c[i]) ? -EBADMSG : 0;
	free(zeros);
	return rc;
}
