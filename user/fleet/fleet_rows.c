/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/fleet_rows.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A store sums these up, and refuses what overflows: no fleet has so many, nor 300 years. */
#define SAMPLES_MAX (1ull << 48)
#define VALUE_MAX (1ull << 63)

static void skip_text(struct cursor *c)
{
	cursor_bytes(c, cursor_varint(c));
}

/* A map of texts, and a list of them. */
static void skip_labels(struct cursor *c)
{
	for (uint64_t n = cursor_varint(c); n && !c->bad; n--) {
		skip_text(c);
		skip_text(c);
	}
	for (uint64_t n = cursor_varint(c); n && !c->bad; n--)
		skip_text(c);
}

static uint32_t find_event(const struct fleet_events *e, const uint8_t *name, size_t len,
			   uint64_t ns)
{
	uint32_t i = 0;
	while (i < e->n && (e->v[i].ns_per_sample != ns || strlen(e->v[i].name) != len ||
			    memcmp(e->v[i].name, name, len)))
		i++;
	return i;
}

static int parse_row(struct cursor *c, const struct buf *text, const struct fleet_events *events,
		     struct fleet_row *ret)
{
	struct fleet_row r = { .bucket = cursor_u32(c) };
	uint64_t len = cursor_varint(c);
	const uint8_t *name = cursor_bytes(c, len);
	uint64_t ns = cursor_u64(c);
	r.labels_at = (uint32_t)(c->p - text->data);
	skip_labels(c);
	r.labels_len = (uint32_t)(c->p - text->data) - r.labels_at;
	r.stack[0] = cursor_u64(c);
	r.stack[1] = cursor_u64(c);
	r.samples = cursor_u64(c);
	r.value = cursor_u64(c);
	if (c->bad || r.samples > SAMPLES_MAX || r.value > VALUE_MAX)
		return -EPROTO;
	r.event = find_event(events, name, len, ns);
	*ret = r;
	return r.event < events->n ? 0 : -EAGAIN;
}

int fleet_rows_parse(struct fleet_rows *r, const struct fleet_events *events, struct err *err)
{
	struct cursor c = cursor_of(&r->text);
	r->n = 0;
	while (c.p < c.end) {
		struct fleet_row row;
		int rc = parse_row(&c, &r->text, events, &row);
		if (rc == -EAGAIN)
			continue; /* of an event that was new meanwhile */
		if (rc)
			return err_set(err, rc, "clickhouse: rows of another form came");
		if (ARRAY_RESERVE(r->v, r->cap, r->n + 1))
			return err_sys(err, -ENOMEM, "cannot ask ClickHouse");
		r->v[r->n++] = row;
	}
	return 0;
}

void fleet_rows_fini(struct fleet_rows *r)
{
	buf_fini(&r->text);
	free(r->v);
	*r = (struct fleet_rows){ 0 };
}

/* Bucket, labels and event: what sums are by. */
static int by_group(const struct fleet_rows *ra, const struct fleet_row *a,
		    const struct fleet_rows *rb, const struct fleet_row *b)
{
	if (a->bucket != b->bucket)
		return a->bucket < b->bucket ? -1 : 1;
	if (a->labels_len != b->labels_len)
		return a->labels_len < b->labels_len ? -1 : 1;
	int d = memcmp(ra->text.data + a->labels_at, rb->text.data + b->labels_at, a->labels_len);
	return d ? d : (a->event > b->event) - (a->event < b->event);
}

static int by_row(const void *pa, const void *pb, void *ctx)
{
	const struct fleet_row *a = pa, *b = pb;
	int d = by_group(ctx, a, ctx, b);
	if (!d && a->stack[1] != b->stack[1])
		d = a->stack[1] < b->stack[1] ? -1 : 1;
	return d ? d : (a->stack[0] > b->stack[0]) - (a->stack[0] < b->stack[0]);
}

void fleet_rows_sort(struct fleet_rows *r)
{
	if (r->n)
		qsort_r(r->v, r->n, sizeof(*r->v), by_row, r);
}

static int add_rest(struct fleet_rows *r, const struct fleet_rows *sums,
		    const struct fleet_row *sum, uint64_t samples, uint64_t value)
{
	struct fleet_row row = *sum;
	row.samples = sum->samples > samples ? sum->samples - samples : 0;
	row.value = sum->value > value ? sum->value - value : 0;
	if (!row.samples)
		return 0;
	row.other = true;
	row.labels_at = (uint32_t)r->text.len;
	int rc = buf_add(&r->text, sums->text.data + sum->labels_at, sum->labels_len);
	rc = rc ? rc : ARRAY_RESERVE(r->v, r->cap, r->n + 1);
	if (!rc)
		r->v[r->n++] = row;
	return rc;
}

int fleet_rows_add_other(struct fleet_rows *r, const struct fleet_rows *sums)
{
	const size_t n = r->n;
	size_t k = 0;
	int rc = 0;
	for (size_t i = 0; !rc && i < sums->n; i++) {
		uint64_t samples = 0, value = 0;
		while (k < n && by_group(r, &r->v[k], sums, &sums->v[i]) < 0)
			k++;
		for (; k < n && !by_group(r, &r->v[k], sums, &sums->v[i]); k++) {
			samples += r->v[k].samples;
			value += r->v[k].value;
		}
		rc = add_rest(r, sums, &sums->v[i], samples, value);
	}
	return rc;
}
