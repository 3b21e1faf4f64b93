/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of windows. A question may be about less than a window; where the window has a track, the
 * rows are cut to the samples of that time. Whoever reads a part finds a window with these rows.
 */
#include "store/read/contents.h"
#include "store/read/cover.h"
#include "store/read/tracks.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- ranges ---- */

/* Do windows lie across t, and do all of them have tracks? */
static int is_tracked(struct store *s, int64_t t, bool *ret, struct err *err)
{
	struct store_cover c;
	bool any = false, all = true;
	int rc = cover_rows(s, t, t + 1, STORE_FOLDED, NULL, 0, &c, err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && all && i < c.n; i++) {
		if (c.blocks[i]->t0_ns >= t)
			continue;
		any = true;
		rc = tracks_has(s, store_ref(c.blocks[i]), &all, err);
	}
	store_cover_free(&c);
	*ret = any && all;
	return rc;
}

int tracks_round(struct store *s, int64_t *from_ns, int64_t *to_ns, struct err *err)
{
	const int64_t from = *from_ns, to = *to_ns;
	bool at_from = false, at_to = false;
	int rc = store_round(s, from_ns, to_ns, err);
	if (rc || from <= INT64_MIN / 2 || to >= INT64_MAX / 2 || to - from >= STORE_CUT_NS)
		return rc;
	rc = is_tracked(s, from, &at_from, err);
	rc = rc ? rc : is_tracked(s, to, &at_to, err);
	if (rc)
		return rc;
	int64_t start = at_from ? from : *from_ns, end = at_to ? to : *to_ns;
	if (start < end) {
		*from_ns = start;
		*to_ns = end;
	}
	return 0;
}

static struct block_ref *add_part(struct store_cover *c, const struct block_ref *window)
{
	struct store_part *p = malloc(sizeof(*p) + sizeof(struct block_ref));
	if (!p)
		return NULL;
	p->next = c->parts;
	c->parts = p;
	struct block_ref *r = (struct block_ref *)(p + 1);
	*r = *window;
	r->whole = window;
	return r;
}

int tracks_cut(struct store *s, int64_t from_ns, int64_t to_ns, struct store_cover *c,
	       struct err *err)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct block_ref *w = store_ref(c->blocks[i]);
		bool has;
		if (w->b.t0_ns >= from_ns && w->b.t1_ns <= to_ns)
			continue;
		int rc = tracks_has(s, w, &has, err);
		if (rc)
			return rc;
		if (!has)
			continue;
		struct block_ref *r = add_part(c, w);
		if (!r)
			return err_sys(err, -ENOMEM, "cannot query %s", s->dir);
		r->b.t0_ns = w->b.t0_ns > from_ns ? w->b.t0_ns : from_ns;
		r->b.t1_ns = w->b.t1_ns < to_ns ? w->b.t1_ns : to_ns;
		c->blocks[i] = &r->b;
	}
	for (size_t i = 0; i < c->n; i++) {
		c->from_ns =
			!i || c->blocks[i]->t0_ns < c->from_ns ? c->blocks[i]->t0_ns : c->from_ns;
		c->to_ns = !i || c->blocks[i]->t1_ns > c->to_ns ? c->blocks[i]->t1_ns : c->to_ns;
	}
	return 0;
}

/* ---- rows ---- */

/* Of a row of the window: its instants in the part, and all of them. */
struct share {
	uint64_t in, all;	/* instants */
	uint64_t us_in, us_all; /* of waits: their time */
};

/* The part of a wait that lies between two times. */
static uint64_t overlap_us(const struct store_instant *v, int64_t t0_ns, int64_t t1_ns)
{
	int64_t begin = v->at_ns - (int64_t)v->length_us * 1000, end = v->at_ns;
	begin = begin > t0_ns ? begin : t0_ns;
	end = end < t1_ns ? end : t1_ns;
	return begin < end ? (uint64_t)(end - begin) / 1000 : 0;
}

static struct share *make_shares(const struct track *t, const struct store_block *part)
{
	struct share *v = calloc(t->n_rows, sizeof(*v));
	for (size_t i = 0; v && i < t->n; i++) {
		const struct store_instant *n = &t->v[i];
		struct share *s = &v[n->row];
		s->all++;
		s->in += n->at_ns >= part->t0_ns && n->at_ns < part->t1_ns;
		s->us_all += n->length_us;
		s->us_in += overlap_us(n, part->t0_ns, part->t1_ns);
	}
	return v;
}

static uint64_t scale(uint64_t n, uint64_t part, uint64_t whole)
{
	return whole ? (uint64_t)((__uint128_t)n * part / whole) : 0;
}

/*
 * What the part has of a row. Samples are counted where they were taken. Of waits the time is
 * shared, and one that ended later counts as one all the same.
 */
static void cut_row(struct store_row *row, const struct share *s)
{
	const uint64_t samples = row->samples;
	row->samples = s->us_all && s->us_in && !s->in ? 1 : scale(samples, s->in, s->all);
	row->value = s->us_all ? scale(row->value, s->us_in, s->us_all)
			       : scale(row->value, row->samples, samples);
}

struct cutting {
	struct rows_reader rows;
	struct rows_writer out;
	struct share *shares;
	struct rows group;
	uint32_t n; /* rows so far */
	uint32_t n_rows;
};

static int cut_group(struct cutting *c)
{
	struct store_row some[64];
	int rc = 0, n;
	c->group.n = 0;
	while (!rc && (n = rows_take(&c->rows, some, 64))) {
		if (n < 0 || (uint32_t)n > c->n_rows - c->n)
			return -EBADMSG;
		for (int i = 0; !rc && i < n; i++) {
			cut_row(&some[i], &c->shares[c->n++]);
			rc = some[i].samples ? rows_add(&c->group, &some[i]) : 0;
		}
	}
	return rc || !c->group.n ? rc : rows_put(&c->out, c->group.v, c->group.n);
}

/* The columns of d that have rows become those of the part. */
static int cut_columns(struct cutting *c, struct block_data *d)
{
	struct block b = { 0 };
	int more, rc = 0;
	while (!rc && (more = rows_next_group(&c->rows)))
		rc = more < 0 ? -EBADMSG : cut_group(c);
	if (rc)
		return rc;
	rows_finish(&c->out, &b);
	for (int i = COLUMN_LEAF; i <= COLUMN_SET_VALUE; i++) {
		buf_fini(&d->column[i]);
		d->column[i] = b.column[i];
		d->head.has &= ~(1u << i);
		d->head.has |= b.has & 1u << i;
	}
	d->head.info.n_rows = b.info.n_rows;
	d->head.info.n_folded = b.info.n_folded;
	return 0;
}

static int cut_rows(struct store *s, const struct block_ref *part, const struct track *t,
		    struct block_data *d, struct err *err)
{
	struct cutting c = { .n_rows = t->n_rows, .shares = make_shares(t, &part->b) };
	int rc = c.shares ? contents_rows(s, part->whole, d, SYMBOLS_SETS | SYMBOLS_NAMES, &c.rows,
					  err)
			  : err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	if (!rc) {
		c.out.events = c.rows.limits.events;
		rc = block_failed(s, part->whole, cut_columns(&c, d), err);
	}
	rows_writer_fini(&c.out);
	rows_fini(&c.group);
	free(c.shares);
	return rc;
}

void part_scale(const struct block_ref *part, struct totals *t)
{
	const struct store_block *w = &part->whole->b;
	const uint64_t in = (uint64_t)(part->b.t1_ns - part->b.t0_ns),
		       all = (uint64_t)(w->t1_ns - w->t0_ns);
	for (size_t i = 0; i < t->t.n_cpus; i++) {
		struct store_cpu_totals *c = &t->t.cpu[i];
		c->fired = c->stored = scale(c->stored, in, all);
		for (size_t k = 0; k < t->n_lost; k++) {
			c->lost[k] = scale(c->lost[k], in, all);
			c->fired += c->lost[k];
		}
		for (size_t k = 0; k < t->n_flagged; k++)
			c->flagged[k] = scale(c->flagged[k], in, all);
	}
	t->t.outside = scale(t->t.outside, in, all);
	t->t.own_cpu_ns = scale(t->t.own_cpu_ns, in, all);
}

int part_read(struct store *s, const struct block_ref *part, uint32_t wanted,
	      struct block_data *ret, struct err *err)
{
	struct track t = { 0 };
	const bool rows = wanted & WANT_ROWS;
	int rc = block_read(s, part->whole, rows ? wanted | WANT_ROWS : wanted, ret, err);
	if (rc || !rows)
		return rc;
	rc = tracks_read(s, part->whole, &t, err);
	if (rc == -ENOENT)
		rc = err_set(err, -ESTALE,
			     "when the samples of this time were taken is not kept "
			     "any more");
	rc = rc ? rc : cut_rows(s, part, &t, ret, err);
	track_fini(&t);
	if (rc)
		block_data_fini(ret);
	return rc;
}
