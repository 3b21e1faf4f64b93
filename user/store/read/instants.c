/* SPDX-License-Identifier: Apache-2.0 */
/* The instants of a window, of the rows that are asked for. */
#include "store/read/contents.h"
#include "store/read/rows.h"
#include "store/read/tracks.h"

#include <errno.h>
#include <stdlib.h>

#define SOME_ROWS 64

/* The rows of a window in their order. */
struct marks {
	struct store_instant_row *v;
	uint32_t *mark; /* WANTED(set), or UNWANTED */
	uint32_t n, cap;
};

static void marks_fini(struct marks *m)
{
	free(m->v);
	free(m->mark);
}

/* Look up the stack of the group at hand once one of its rows is wanted. */
static int mark_row(struct reading *r, const struct store_row *row, bool *looked, struct marks *m)
{
	uint32_t *mark = &m->mark[m->n];
	int rc = reading_find_set(r, row->set, mark);
	if (rc || *mark == UNWANTED)
		return rc;
	if (!*looked && !r->how->fold_stacks) {
		rc = reading_leaf(r, row->stack);
		if (rc)
			return reading_failed(r, rc);
	}
	*looked = true;
	m->v[m->n].row = (struct store_row){ .set = *mark - WANTED(0),
					     .stack = r->how->fold_stacks ? 0 : r->stack,
					     .event = r->event,
					     .samples = row->samples,
					     .value = row->value };
	return 0;
}

static int mark_group(struct reading *r, struct rows_reader *rows, bool wanted, struct marks *m)
{
	struct store_row some[SOME_ROWS];
	bool looked = false;
	int rc = 0, n;
	while (!rc && (n = rows_take(rows, some, SOME_ROWS))) {
		if (n < 0 || (uint32_t)n > m->cap - m->n)
			return block_damaged(r->s, r->ref, r->err);
		for (int i = 0; !rc && i < n; i++, m->n++) {
			m->mark[m->n] = UNWANTED;
			some[i].stack = rows->group.stack;
			rc = wanted ? mark_row(r, &some[i], &looked, m) : 0;
		}
	}
	return rc;
}

static int mark_rows(struct reading *r, const struct block_data *d, bool idle, struct marks *m)
{
	struct rows_reader rows;
	const unsigned what = SYMBOLS_SETS | reading_names(r);
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

static int read_marks(struct reading *r, bool idle, struct marks *m)
{
	struct block_data d;
	int rc = reading_begin_window(r, &d);
	if (rc)
		return rc;
	m->cap = d.head.info.n_rows;
	m->v = calloc(m->cap, sizeof(*m->v));
	m->mark = calloc(m->cap, sizeof(*m->mark));
	rc = m->v && m->mark ? mark_rows(r, &d, idle, m) : reading_failed(r, -ENOMEM);
	block_data_fini(&d);
	return rc;
}

/* Keep the instants of wanted rows, and count those of each row. */
static void keep_wanted_instants(struct track *t, struct marks *m)
{
	size_t n = 0;
	for (size_t i = 0; i < t->n; i++) {
		const uint32_t row = t->v[i].row;
		if (row >= m->n || m->mark[row] == UNWANTED)
			continue;
		m->v[row].instants++;
		t->v[n++] = t->v[i];
	}
	t->n = n;
}

int store_block_instants(struct store *s, const struct store_block *b,
			 const struct store_reading *how, bool idle,
			 int (*cb)(void *ctx, const struct store_instant *v,
				   const struct store_instant_row *row),
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
	if (!rc)
		keep_wanted_instants(&t, &marks);
	for (size_t i = 0; !rc && i < t.n; i++)
		rc = cb(how->ctx, &t.v[i], &marks.v[t.v[i].row]);
	reading_fini(&r);
	track_fini(&t);
	marks_fini(&marks);
	return rc;
}
