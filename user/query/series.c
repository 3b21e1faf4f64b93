/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A query of the whole range says which groups are worth a series; then one query per step fills
 * the points. A step is an aligned range, which a store answers with few blocks however long it is.
 */
#include "query/series.h"

#include "query/account.h"
#include "query/query_int.h"
#include "query/table_int.h"
#include "query/values.h"
#include "util/buf.h"
#include "util/idhash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* query_series must stay the first member. */
struct series {
	struct query_series series;
	struct query_table *groups; /* of the whole range: what the rows' texts belong to */
};

struct builder {
	struct query_series *s;
	const struct query_series_spec *spec;
	struct store *store;
	struct idhash hash;
	struct buf name;
};

void query_series_free(struct query_series *pub)
{
	struct series *own = (struct series *)pub;
	if (!own)
		return;
	for (size_t i = 0; i < pub->n_rows; i++)
		free(pub->rows[i].points);
	free(pub->rows);
	free(pub->windows);
	free(pub->covered_ns);
	query_table_free(own->groups);
	query_close(pub->whole);
	free(own);
}

/* ---- the steps ---- */

/* Multiples of step at or below, and at or above. */
static int64_t step_down(int64_t t, int64_t step)
{
	return t - ((t % step) + step) % step;
}

static int64_t step_up(int64_t t, int64_t step)
{
	int64_t down = step_down(t, step);
	return down == t ? t : down + step;
}

/*
 * From the beginning of the first window that begins in [from, to) to the end of the last; both 0
 * when there is none.
 */
static int reach(struct store *s, int64_t from, int64_t to, int64_t *ret_from, int64_t *ret_to,
		 struct err *err)
{
	struct store_cover c;
	int64_t first = 0, last = 0;
	int rc = store_cover(s, from, to, STORE_FOLDED, NULL, 0, &c, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < c.n; i++) {
		if (c.blocks[i]->t0_ns < from)
			continue;
		first = first == last || c.blocks[i]->t0_ns < first ? c.blocks[i]->t0_ns : first;
		last = c.blocks[i]->t1_ns > last ? c.blocks[i]->t1_ns : last;
	}
	store_cover_free(&c);
	*ret_from = first;
	*ret_to = last;
	return 0;
}

/* The part of the asked range that has data, in whole steps. */
static int extent(struct store *s, const struct query_spec *range, int64_t step, int64_t *ret_from,
		  int64_t *ret_to, struct err *err)
{
	int64_t first, last, from, to;
	int rc = reach(s, INT64_MIN, INT64_MAX, &first, &last, err);
	if (rc)
		return rc;
	*ret_from = *ret_to = 0;
	if (range->to_ns <= first || range->from_ns >= last)
		return 0;
	from = step_down(range->from_ns > first ? range->from_ns : first, step);
	to = step_up(range->to_ns < last ? range->to_ns : last, step);
	/* The last window ends there, but may begin a step earlier. */
	if (from < to && range->to_ns > last) {
		rc = reach(s, to - step, to, &first, &last, err);
		to -= !rc && first == last ? step : 0;
	}
	*ret_from = from;
	*ret_to = to;
	return rc;
}

static int choose_steps(struct builder *b, struct err *err)
{
	struct query_series *s = b->s;
	int64_t begin, end;
	if (b->spec->step_ns < 1 || b->spec->step_ns > INT64_MAX / 4)
		return err_set(err, -EINVAL, "a step of %" PRId64 " ns", b->spec->step_ns);
	s->step_ns = step_up(b->spec->step_ns, QUERY_WINDOW_NS);
	int rc = extent(b->store, &b->spec->range, s->step_ns, &begin, &end, err);
	if (rc || begin >= end)
		return rc;
	uint64_t n = (uint64_t)(end - begin) / (uint64_t)s->step_ns;
	uint64_t most = b->spec->max_steps ? b->spec->max_steps : QUERY_STEPS_MAX;
	if (n > most)
		return err_set(err, -E2BIG,
			       "%" PRIu64 " steps of %" PRId64 " s, at most %" PRIu64
			       ": a step of %" PRId64 " s would do",
			       n, s->step_ns / 1000000000, most,
			       step_up((end - begin) / (int64_t)most, QUERY_WINDOW_NS) /
				       1000000000);
	s->from_ns = begin;
	s->to_ns = end;
	s->n_steps = (size_t)n;
	return 0;
}

/*
 * Of one wide key blocks above the windows keep the most frequent values: enough for a chart, and
 * windows need not be read.
 */
static bool by_top(const struct builder *b, int64_t from, int64_t to)
{
	const struct query_spec *r = &b->spec->range;
	return b->spec->n_keys == 1 && !b->spec->exact && !r->metric && !(r->where && *r->where) &&
	       values_kept(b->store, b->spec->keys[0], from, to);
}

/* A query of [from, to) and its table by the keys; both are the caller's, also after a failure. */
static int open_table(struct builder *b, int64_t from, int64_t to, struct query **ret_q,
		      struct query_table **ret_t, struct err *err)
{
	static const char *const none[1];
	const struct query_series_spec *asked = b->spec;
	struct query_spec spec = asked->range;
	bool top = by_top(b, from, to);
	/* Half for the whole range, a quarter for a step, and one for the points. */
	spec.parts = b->s->whole ? 4 : 2;
	spec.from_ns = from;
	spec.to_ns = to;
	spec.by_start = true;
	if (b->s->whole && !asked->range.metric && query_info(b->s->whole)->event)
		spec.ns_per_sample = query_info(b->s->whole)->event->ns_per_sample;
	spec.keys = asked->keys;
	spec.n_keys = asked->n_keys;
	spec.labels = asked->keys && !top ? QUERY_KEYS : QUERY_TOTALS;
	int rc = query_open(ret_q, b->store, &spec, err);
	if (!rc && top && !query_top_serves(*ret_q, asked->keys[0])) {
		query_close(*ret_q);
		*ret_q = NULL;
		top = false;
		spec.labels = QUERY_KEYS;
		rc = query_open(ret_q, b->store, &spec, err);
	}
	if (rc)
		return rc;
	rc = top ? query_top(*ret_q, asked->keys[0], ret_t, err)
		 : query_table(*ret_q, asked->keys ? asked->keys : none, asked->n_keys, ret_t, err);
	if (!rc)
		b->s->approximate |= (*ret_t)->approximate;
	b->s->bounded |= query_info(*ret_q)->bounded;
	return rc;
}

/* ---- the groups ---- */

static bool same_group(const void *ctx, uint32_t id, const void *key)
{
	const struct builder *b = ctx;
	const struct query_series_row *x = &b->s->rows[id];
	const struct query_table_row *y = key;
	return table_row_has_values(y, x->values, x->present, b->spec->n_keys);
}

static int hash_group(struct builder *b, const struct query_table_row *r, uint32_t *ret)
{
	b->name.len = 0;
	int rc = table_row_add_values(&b->name, r, b->spec->n_keys);
	if (!rc)
		*ret = idhash_hash(&b->hash, b->name.data ? b->name.data : (const uint8_t *)"",
				   b->name.len);
	return rc;
}

static int add_group(struct builder *b, const struct query_table_row *r)
{
	uint32_t hash = 0, id = (uint32_t)b->s->n_rows;
	int rc = hash_group(b, r, &hash);
	rc = rc ? rc : idhash_reserve(&b->hash);
	if (rc)
		return rc;
	b->s->rows[id] = (struct query_series_row){ .values = r->values, .present = r->present };
	b->s->n_rows++;
	idhash_put(&b->hash, hash, id);
	return 0;
}

static int choose_groups(struct builder *b, const struct query_table *t)
{
	struct query_series *s = b->s;
	int rc = 0;
	for (size_t i = 0; i < t->n_rows; i++)
		s->n_groups += !t->rows[i].other;
	const struct query_spec quarter = { .labels = QUERY_KEYS, .parts = 4 };
	size_t room = query_budget(b->store, &quarter) /
		      ((s->n_steps + 1) * sizeof(uint64_t) + sizeof(*s->rows));
	size_t shown = b->spec->top && s->n_groups > b->spec->top ? b->spec->top : s->n_groups;
	if (shown > room) {
		shown = room;
		s->bounded = true;
	}
	s->other_groups = s->n_groups - shown;
	s->rows = calloc(shown + 1, sizeof(*s->rows));
	if (!s->rows)
		return -ENOMEM;
	for (size_t i = 0; !rc && s->n_rows < shown; i++)
		rc = t->rows[i].other ? 0 : add_group(b, &t->rows[i]);
	if (!rc)
		s->rows[s->n_rows++].other = true;
	for (size_t i = 0; !rc && i < s->n_rows; i++) {
		s->rows[i].points = calloc(s->n_steps + 1, sizeof(*s->rows[i].points));
		rc = s->rows[i].points ? 0 : -ENOMEM;
	}
	return rc;
}

/* ---- the points ---- */

static int add_points(struct builder *b, size_t step, const struct query_table *t)
{
	struct query_series *s = b->s;
	struct query_series_row *other = &s->rows[s->n_rows - 1];
	for (size_t i = 0; i < t->n_rows; i++) {
		uint32_t hash = 0;
		int rc = hash_group(b, &t->rows[i], &hash);
		if (rc)
			return rc;
		uint32_t id = t->rows[i].other
				      ? IDHASH_NONE
				      : idhash_find(&b->hash, hash, same_group, b, &t->rows[i]);
		struct query_series_row *to = id == IDHASH_NONE ? other : &s->rows[id];
		to->points[step] += t->rows[i].samples;
		to->samples += t->rows[i].samples;
	}
	return 0;
}

/* Note how much of a step was recorded: of waits, no window whose waits were given up. */
static void cover_step(struct builder *b, size_t step, const struct query_info *info)
{
	enum query_metric metric = b->spec->range.metric;
	bool waits = metric && metric != QUERY_CPU && metric != QUERY_WALL &&
		     metric != QUERY_VALUE && !query_metric_is_heap(metric);
	double without =
		waits ? account_without_waits(store_meta(b->store), info->flagged, info->stored)
		      : 0;
	if (without >= 1)
		return;
	b->s->windows[step] = info->windows;
	b->s->covered_ns[step] = info->covered_ns - (int64_t)((double)info->covered_ns * without);
}

/* Of averages: that of a row is the one over all steps. */
static void average_rows(struct query_series *s)
{
	for (size_t r = 0; r < s->n_rows; r++) {
		double sum = 0, covered = 0;
		for (size_t i = 0; i < s->n_steps; i++) {
			sum += (double)s->rows[r].points[i] * (double)s->covered_ns[i];
			covered += (double)s->covered_ns[i];
		}
		s->rows[r].samples = covered > 0 ? (uint64_t)(sum / covered + 0.5) : 0;
	}
}

static int fill_step(struct builder *b, size_t step, struct err *err)
{
	struct query *q = NULL;
	struct query_table *t = NULL;
	int64_t from = b->s->from_ns + (int64_t)step * b->s->step_ns;
	int rc = open_table(b, from, from + b->s->step_ns, &q, &t, err);
	if (!rc)
		rc = add_points(b, step, t);
	if (!rc)
		cover_step(b, step, query_info(q));
	query_table_free(t);
	query_close(q);
	return rc;
}

static int build(struct builder *b, struct series *own, struct err *err)
{
	struct query_series *s = b->s;
	int rc = choose_steps(b, err);
	if (!rc)
		rc = open_table(b, s->from_ns, s->to_ns, &s->whole, &own->groups, err);
	if (!rc)
		rc = choose_groups(b, own->groups);
	s->windows = calloc(s->n_steps + 1, sizeof(*s->windows));
	s->covered_ns = calloc(s->n_steps + 1, sizeof(*s->covered_ns));
	if (!rc && (!s->windows || !s->covered_ns))
		rc = -ENOMEM;
	for (size_t i = 0; !rc && i < s->n_steps; i++)
		rc = fill_step(b, i, err);
	if (!rc && query_metric_is_stock(b->spec->range.metric))
		average_rows(s);
	if (!rc && !s->other_groups && !s->rows[s->n_rows - 1].samples)
		free(s->rows[--s->n_rows].points);
	return rc;
}

int query_series(struct query_series **ret, struct store *store,
		 const struct query_series_spec *spec, struct err *err)
{
	struct series *own = calloc(1, sizeof(*own));
	struct err local = { 0 };
	if (!own)
		return err_sys(err, -ENOMEM, "cannot make a series");
	struct builder b = { .s = &own->series, .spec = spec, .store = store };
	int rc = build(&b, own, &local);
	idhash_fini(&b.hash);
	buf_fini(&b.name);
	if (!rc) {
		*ret = &own->series;
		return 0;
	}
	query_series_free(&own->series);
	return local.code ? err_set(err, rc, "%s", local.text)
			  : err_sys(err, rc, "cannot make a series");
}
