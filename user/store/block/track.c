/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block/track.h"

#include "store/file/columns.h"
#include "store/file/format.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS 1000 /* of the times in a track */

enum { TIME, ROW, CPU, LENGTH, N_LISTS };

static int put_lists(struct buf lists[N_LISTS], const struct track *t)
{
	uint64_t before = 0;
	int rc = 0;
	for (size_t i = 0; !rc && i < t->n; i++) {
		const struct store_instant *v = &t->v[i];
		uint64_t at = (uint64_t)(v->at_ns - t->t0_ns) / TICK_NS;
		const uint64_t values[N_LISTS] = { at - before, v->row, v->cpu, v->length_us };
		for (int k = 0; k < N_LISTS; k++)
			rc |= buf_add_varint(&lists[k], values[k]);
		before = at;
	}
	return rc;
}

int track_encode(struct buf *out, const struct track *t)
{
	struct buf lists[N_LISTS] = { BUF_INIT };
	const uint64_t head[] = { zigzag((uint64_t)t->t0_ns), (uint64_t)(t->t1_ns - t->t0_ns),
				  t->n_rows, t->n };
	int rc = put_lists(lists, t);
	for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
		rc |= buf_add_varint(out, head[i]);
	for (int k = 0; k < N_LISTS; k++)
		rc |= buf_add_varint(out, lists[k].len);
	for (int k = 0; k < N_LISTS; k++)
		rc |= buf_add(out, lists[k].data, lists[k].len);
	for (int k = 0; k < N_LISTS; k++)
		buf_fini(&lists[k]);
	return rc;
}

/* The instants of a track whose head was read. */
static int take_instants(struct track *t, struct cursor lists[N_LISTS], size_t n)
{
	const uint64_t span = (uint64_t)(t->t1_ns - t->t0_ns);
	uint64_t at = 0;
	for (size_t i = 0; i < n; i++) {
		at += cursor_varint32(&lists[TIME]);
		struct store_instant v = { .row = cursor_varint32(&lists[ROW]),
					   .cpu = cursor_varint32(&lists[CPU]),
					   .length_us = cursor_varint32(&lists[LENGTH]) };
		if (at > span / TICK_NS || v.row >= t->n_rows || v.cpu >= CPUS_MAX)
			return -EBADMSG;
		v.at_ns = t->t0_ns + (int64_t)(at * TICK_NS);
		t->v[t->n++] = v;
	}
	for (int k = 0; k < N_LISTS; k++)
		if (lists[k].bad || cursor_left(&lists[k]))
			return -EBADMSG;
	return 0;
}

int track_decode(struct track *ret, const uint8_t *data, size_t len)
{
	struct cursor c = { data, data + len, 0 }, lists[N_LISTS];
	uint64_t lens[N_LISTS];
	*ret = (struct track){ .t0_ns = (int64_t)unzigzag(cursor_varint(&c)) };
	uint64_t span = cursor_varint(&c), rows = cursor_varint(&c), n = cursor_varint(&c);
	for (int k = 0; k < N_LISTS; k++)
		lens[k] = cursor_varint(&c);
	for (int k = 0; k < N_LISTS; k++)
		lists[k] = cursor_part(&c, lens[k]);
	/* Each instant has a byte of each list at least */
	if (c.bad || cursor_left(&c) || !span || span > TRACK_SPAN_MAX || rows > ROWS_MAX ||
	    n > TRACK_MAX || n > lens[TIME] || ret->t0_ns > INT64_MAX - (int64_t)TRACK_SPAN_MAX)
		return -EBADMSG;
	ret->t1_ns = ret->t0_ns + (int64_t)span;
	ret->n_rows = (uint32_t)rows;
	if (ARRAY_RESERVE(ret->v, ret->cap, (size_t)n + 1))
		return -ENOMEM;
	return take_instants(ret, lists, (size_t)n);
}

void track_fini(struct track *t)
{
	free(t->v);
	*t = (struct track){ 0 };
}
