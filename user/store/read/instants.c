/* SPDX-License-Identifier: Apache-2.0 */
/* The instants of a window, of the rows that are asked for. */
#include "store/read/contents.h"
#include "store/read/rows.h"
#include "store/read/tracks.h"

#include <errno.h>
#include <stdlib.h>

#define SOME_ROWS 64

/* Of the rows of a window in their order: WANTED(set), or UNWANTED. */
struct marks {
	uint32_t *v;
	uint32_t n, cap;
};

static int mark_group(struct reading *r, struct rows_reader *rows, bool wanted, struct marks *m)
{
	struct store_row some[SOME_ROWS];
	int rc = 0, n;
	while (!rc && (n = rows_take(rows, some, SOME_ROWS))) {
		if (n < 0 || (uint32_t)n > m->cap - m->n)
			return block_damaged(r->s, r->ref, r->err);
		for (int i = 0; !rc && i < n; i++) {
			m->v[m->n] = UNWANTED;
			rc = wanted ? reading_find_set(r, some[i].set, &m->v[m->n]) : 0;
			m->n++;
		}
	}
	return rc;
}

static int mark_rows(struct reading *r, const struct block_data *d, bool idle, struct marks *m)
{
	struct rows_reader rows;
	const unsigned what = SYMBOLS_SETS | SYMBOLS_NAMES;
	int more, rc = contents_rows(r->s, r->ref, d, what, &rows, r->err);
	if (!rc)
		rc = store_translation(r->s, r->ref, what, &r->to, r->err);
	while (!rc && (more = rows_next_group(&rows))) {
		if (more < 0)
			return block_damaged(r->s, r->ref, r->err);
		rc = translate_event(r->to, rows.group.event, &r->event);
		if (rc)
			return reading_failed(r, rc);
		bool wanted = reading_wants_event(r) &&
			      (idle || !reading_leaf_is_idle(&r->ref->b, r->d, rows.group.stack));
		rc = mark_group(r, &rows, wanted, m);
	}
	return rc;
}

static int read_marks(struct reading *r, bool idle, struct marks *ret)
{
	struct block_data d;
	int rc = reading_begin_window(r, &d);
	if (rc)
		return rc;
	*ret = (struct marks){ .cap = d.head.info.n_rows };
	ret->v = calloc((size_t)ret->cap + 1, sizeof(*ret->v));
	rc = ret->v ? mark_rows(r, &d, idle, ret) : reading_failed(r, -ENOMEM);
	block_data_fini(&d);
	return rc;
}

int store_block_instants(struct store *s, const struct store_block *b,
			 const struct store_reading *how, bool idle,
			 int (*cb)(void *ctx, const struct store_instant *v, uint32_t set),
			 struct err *err)
{
	struct marks marks = { 0 };
	struct track t = { 0 };
	struct reading r;
	if (b->level || store_ref(b)->whole)
		return -ENODATA;
	int rc = reading_begin(&r, s, b, how, err);
	rc = rc ? rc : tracks_read(r.s, r.ref, &t, err);
	rc = rc == -ENOENT ? -ENODATA : rc ? rc : read_marks(&r, idle, &marks);
	for (size_t i = 0; !rc && i < t.n; i++) {
		const uint32_t mark = t.v[i].row < marks.n ? marks.v[t.v[i].row] : UNWANTED;
		if (mark != UNWANTED)
			rc = cb(how->ctx, &t.v[i], mark - WANTED(0));
	}
	reading_fini(&r);
	track_fini(&t);
	free(marks.v);
	return rc;
}
