/* SPDX-License-Identifier: Apache-2.0 */
#include "query/why.h"

#include "query/holder.h"
#include "query/scope.h"

#include <errno.h>
#include <string.h>

/*
 * Parts of the memory. The waits of all sides are kept: a third of it is for them; totals and
 * lengths take little. Of the rest there are six tables at a time, or two sides of a comparison and
 * their difference.
 */
#define OPEN_PARTS 3 /* of what one side has */
#define TABLE_PARTS 9
#define CHANGE_PARTS 5

static const enum query_metric metrics[] = {
	[WHY_CPU] = QUERY_CPU, [WHY_RUNQ] = QUERY_RUNQ, [WHY_OFF] = QUERY_OFF
};

static bool has_event(const struct store *s, const char *name)
{
	for (uint32_t i = 0; i < store_n_events(s); i++)
		if (!strcmp(store_event(s, i)->name, name))
			return true;
	return false;
}

int why_side_open(struct why_side *ret, struct store *s, const struct query_spec *spec,
		  bool lengths, struct err *err)
{
	*ret = (struct why_side){ .waits = has_event(s, "runq") };
	int rc = 0;
	for (int i = 0; !rc && i < WHY_PARTS && (i == WHY_CPU || ret->waits); i++) {
		struct query_spec of = *spec;
		of.metric = metrics[i];
		of.labels = i == WHY_OFF
				    ? QUERY_NO_LABELS
				    : QUERY_TOTALS; /* where it was blocked is asked for, too */
		of.rows_alone = true;
		of.parts = (spec->parts ? spec->parts : 1) * OPEN_PARTS;
		rc = query_open(&ret->part[i], s, &of, err);
		if (rc)
			break;
		const struct query_info *info = query_info(ret->part[i]);
		ret->there = info->blocks > 0;
		ret->bounded |= info->bounded;
		ret->seconds[i] = info->seconds;
		if (i == WHY_OFF)
			ret->idle_s = (double)info->idle_waits / 1e9;
		ret->from_ns = info->from_ns;
		ret->to_ns = info->to_ns;
		ret->covered_s = (double)info->covered_ns / 1e9;
		if (i == WHY_CPU)
			ret->cpu_samples = info->grain ? info->samples / info->grain : 0;
		of.keys = NULL;
		of.n_keys = 0;
		of.parts = spec->parts; /* it is over before the next begins */
		if (lengths && i != WHY_CPU && ret->there)
			rc = query_lengths(&ret->lengths[i], s, &of, err);
		ret->bounded |= ret->lengths[i] && query_lengths_bounded(ret->lengths[i]);
	}
	return rc;
}

void why_side_close(struct why_side *s)
{
	for (int i = 0; i < WHY_PARTS; i++) {
		query_close(s->part[i]);
		query_lengths_free(s->lengths[i]);
		s->part[i] = NULL;
		s->lengths[i] = NULL;
	}
}

double why_wall(const struct why_side *s)
{
	double sum = 0;
	for (int i = 0; i < WHY_PARTS; i++)
		sum += s->seconds[i];
	return sum;
}

double why_share(const struct why_side *s, enum why_part part)
{
	double all = why_wall(s);
	return all > 0 ? s->seconds[part] / all : 0;
}

const struct hist_snapshot *why_lengths(const struct why_side *s, enum why_part part)
{
	return s->lengths[part] ? query_lengths_of(s->lengths[part], NULL, NULL) : NULL;
}

/* ---- the sides together ---- */

const char *const why_occupant_keys[1] = { "by.comm" };

static int open_before(struct why *w, struct query_spec *spec, int64_t before_ns, struct err *err)
{
	const struct why_side *it = &w->side[WHY_THIS];
	int64_t length = it->to_ns - it->from_ns;
	/* a window that reaches into the range from before belongs to what was before */
	spec->by_start = false;
	spec->to_ns = it->from_ns;
	spec->from_ns = it->from_ns - length;
	if (before_ns != INT64_MIN) {
		spec->from_ns = before_ns;
		if (__builtin_add_overflow(spec->from_ns, length, &spec->to_ns) ||
		    spec->to_ns > it->from_ns)
			spec->to_ns = it->from_ns;
	}
	return spec->from_ns < spec->to_ns
		       ? why_side_open(&w->side[WHY_BEFORE], w->store, spec, w->by_work, err)
		       : 0;
}

int why_open(struct why *ret, struct store *s, const struct query_spec *spec, int64_t before_ns,
	     struct err *err)
{
	*ret = (struct why){ .store = s,
			     .spec = *spec,
			     .wakers = scope_has_wakers(s),
			     .by_work = !query_of_threads(spec->where, NULL, 0) };
	struct query_spec of = *spec;
	of.parts = WHY_SIDES;
	of.by_start = true; /* so that no window is in two ranges */
	int rc = why_side_open(&ret->side[WHY_THIS], s, &of, ret->by_work, err);
	struct query_spec rest = of;
	rest.rest = true;
	rc = rc ? rc : why_side_open(&ret->side[WHY_REST], s, &rest, ret->by_work, err);
	return rc || !ret->side[WHY_THIS].there ? rc : open_before(ret, &of, before_ns, err);
}

void why_close(struct why *w)
{
	for (int i = 0; i < WHY_SIDES; i++)
		why_side_close(&w->side[i]);
}

bool why_bounded(const struct why *w)
{
	bool any = false;
	for (int i = 0; i < WHY_SIDES; i++)
		any |= w->side[i].bounded;
	return any;
}

/* A question about one side, which has such a part of the memory. */
static struct query_spec side_spec(const struct why *w, int side, unsigned parts)
{
	struct query_spec spec = w->spec;
	spec.parts = parts;
	spec.by_start = side != WHY_BEFORE;
	spec.rest = side == WHY_REST;
	spec.from_ns = w->side[side].from_ns;
	spec.to_ns = w->side[side].to_ns;
	return spec;
}

static int make_tables(struct why_tables *t, struct query *const q[WHY_SIDES],
		       const char *const *keys, size_t n_keys, struct err *err)
{
	int rc = 0;
	for (int i = 0; !rc && i < WHY_SIDES; i++) {
		t->query[i] = q[i];
		if (q[i])
			rc = query_table(q[i], keys, n_keys, &t->table[i], err);
	}
	return rc;
}

int why_blocked(const struct why *w, struct why_tables *ret, struct err *err)
{
	struct query *q[WHY_SIDES];
	*ret = (struct why_tables){ 0 };
	if (!w->side[WHY_THIS].part[WHY_OFF] || w->side[WHY_THIS].seconds[WHY_OFF] <= 0)
		return 0;
	for (int i = 0; i < WHY_SIDES; i++)
		q[i] = w->side[i].part[WHY_OFF];
	return make_tables(ret, q, holder_waits_keys, 2, err);
}

/* Ask each side anew, by other keys. */
static int ask_sides(const struct why *w, enum query_metric metric, const char *const *keys,
		     size_t n_keys, struct why_tables *ret, struct err *err)
{
	int rc = 0;
	for (int i = 0; !rc && i < WHY_SIDES; i++) {
		struct query_spec spec = side_spec(w, i, TABLE_PARTS);
		spec.labels = QUERY_KEYS;
		spec.metric = metric;
		spec.keys = keys;
		spec.n_keys = n_keys;
		if (w->side[i].there)
			rc = query_open(&ret->own[i], w->store, &spec, err);
	}
	return rc ? rc : make_tables(ret, ret->own, keys, n_keys, err);
}

int why_occupants(const struct why *w, struct why_tables *ret, struct err *err)
{
	const struct why_side *it = &w->side[WHY_THIS];
	*ret = (struct why_tables){ 0 };
	if (!w->by_work || !it->part[WHY_RUNQ] || it->seconds[WHY_RUNQ] <= 0)
		return 0;
	return ask_sides(w, QUERY_BLAME, why_occupant_keys, 1, ret, err);
}

int why_wakers(const struct why *w, struct why_tables *ret, struct err *err)
{
	const struct why_side *it = &w->side[WHY_THIS];
	*ret = (struct why_tables){ 0 };
	if (!w->wakers || !it->part[WHY_OFF] || it->seconds[WHY_OFF] <= 0)
		return 0;
	return ask_sides(w, QUERY_WAKER, holder_wakers_keys, 2, ret, err);
}

const struct query_table_row *why_holder(const struct why_tables *blocked,
					 const struct why_tables *wakers)
{
	return blocked->table[WHY_THIS] && wakers->table[WHY_THIS]
		       ? query_holder(blocked->table[WHY_THIS], wakers->table[WHY_THIS])
		       : NULL;
}

void why_tables_free(struct why_tables *t)
{
	for (int i = 0; i < WHY_SIDES; i++) {
		query_table_free(t->table[i]);
		query_close(t->own[i]);
	}
}

double why_row_share(const struct why_tables *t, int side, const struct query_table_row *of)
{
	const struct query_table *in = t->table[side];
	const char *module = of->module ? of->module : "";
	uint64_t all = in ? query_info(t->query[side])->samples : 0;
	for (size_t i = 0; all && i < in->n_rows; i++)
		if (!strcmp(in->rows[i].text, of->text) &&
		    !strcmp(in->rows[i].module ? in->rows[i].module : "", module))
			return (double)in->rows[i].self / (double)all;
	return 0;
}

/* Samples are what the tests are about, not nanoseconds. */
int why_changes(const struct why *w, int against, bool inclusive, struct why_changes *ret,
		struct err *err)
{
	const struct query_diff_spec how = { .inclusive = inclusive };
	*ret = (struct why_changes){ 0 };
	if (!w->side[against].there)
		return 0;
	struct query_spec a = side_spec(w, WHY_THIS, CHANGE_PARTS);
	struct query_spec b = side_spec(w, against, CHANGE_PARTS);
	int rc = query_open(&ret->q[0], w->store, &a, err);
	rc = rc ? rc : query_open(&ret->q[1], w->store, &b, err);
	return rc ? rc : query_diff(&ret->diff, ret->q[0], ret->q[1], &how, err);
}

void why_changes_free(struct why_changes *c)
{
	query_diff_free(c->diff);
	query_close(c->q[0]);
	query_close(c->q[1]);
}
