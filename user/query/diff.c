/* SPDX-License-Identifier: Apache-2.0 */
#include "query/diff.h"

#include "query/selector.h"
#include "query/stats.h"
#include "query/table_int.h"
#include "util/array.h"
#include "util/buf.h"
#include "util/idhash.h"

#include <math.h>

/* query_diff must stay the first member. */
struct diff {
	struct query_diff diff;
	struct query_table *tables[2]; /* what the rows' texts belong to */
};

struct builder {
	struct diff *d;
	const struct query_diff_spec *spec;
	const struct query_info *info[2];
	size_t cap;
	struct idhash hash;
	struct buf name;
};

void query_diff_free(struct query_diff *pub)
{
	struct diff *d = (struct diff *)pub;
	if (!d)
		return;
	query_table_free(d->tables[0]);
	query_table_free(d->tables[1]);
	free(d->diff.rows);
	free(d);
}

/* ---- matching ---- */

static bool same_row(const void *ctx, uint32_t row, const void *key)
{
	const struct builder *b = ctx;
	const struct query_diff_row *x = &b->d->diff.rows[row];
	const struct query_table_row *y = key;
	if (x->other != y->other)
		return false;
	if (!b->spec->keys)
		return !strcmp(x->text, y->text) && !strcmp(x->module, y->module);
	return table_row_has_values(y, x->values, x->present, b->spec->n_keys);
}

static int hash_row(struct builder *b, const struct query_table_row *r, uint32_t *ret)
{
	int rc = 0;
	b->name.len = 0;
	if (!b->spec->keys) {
		rc = buf_add(&b->name, r->text, strlen(r->text));
		rc = rc ? rc : buf_add(&b->name, r->module, strlen(r->module));
	} else {
		rc = table_row_add_values(&b->name, r, b->spec->n_keys);
	}
	if (!rc)
		*ret = idhash_hash(&b->hash, b->name.data ? b->name.data : (const uint8_t *)"",
				   b->name.len);
	return rc;
}

static int find_row(struct builder *b, const struct query_table_row *r, uint32_t *ret)
{
	struct query_diff *d = &b->d->diff;
	uint32_t hash = 0;
	int rc = hash_row(b, r, &hash);
	if (rc)
		return rc;
	*ret = idhash_find(&b->hash, hash, same_row, b, r);
	if (*ret != IDHASH_NONE)
		return 0;
	rc = ARRAY_RESERVE(d->rows, b->cap, d->n_rows + 1);
	rc = rc ? rc : idhash_reserve(&b->hash);
	if (rc)
		return rc;
	*ret = (uint32_t)d->n_rows++;
	d->rows[*ret] = (struct query_diff_row){ .text = r->text,
						 .module = r->module,
						 .values = r->values,
						 .present = r->present,
						 .other = r->other,
						 .p = 1,
						 .q = 1 };
	idhash_put(&b->hash, hash, *ret);
	return 0;
}

static int add_side(struct builder *b, int side)
{
	const struct query_table *t = b->d->tables[side];
	for (size_t i = 0; i < t->n_rows; i++) {
		uint32_t at;
		int rc = find_row(b, &t->rows[i], &at);
		if (rc)
			return rc;
		struct query_diff_row *r = &b->d->diff.rows[at];
		r->samples[side] += t->rows[i].samples;
		r->self[side] += t->rows[i].self;
	}
	return 0;
}

/* Of one tenant and another one, or all the others, nothing needs to be read. */
static int are_apart(const struct query_spec *a, const struct query_spec *b, bool *ret,
		     struct err *err)
{
	struct selector *x = NULL, *y = NULL;
	int rc = selector_parse(&x, a->where, NULL, err);
	rc = rc ? rc : selector_parse(&y, b->where, NULL, err);
	*ret = !rc && !a->rest && !b->rest && selector_excludes(x, y);
	selector_free(x);
	selector_free(y);
	return rc;
}

int query_diff_shared(struct store *s, const struct query_spec *a, const struct query_spec *b,
		      uint64_t *ret, struct err *err)
{
	struct query_spec both = *a;
	struct query *q = NULL;
	struct buf where = BUF_INIT;
	both.from_ns = a->from_ns > b->from_ns ? a->from_ns : b->from_ns;
	both.to_ns = a->to_ns < b->to_ns ? a->to_ns : b->to_ns;
	both.labels = QUERY_TOTALS;
	bool apart = both.from_ns >= both.to_ns;
	int rc = apart ? 0 : are_apart(a, b, &apart, err);
	if (rc || apart) {
		*ret = 0;
		return rc;
	}
	rc = selector_add_matchers(&where, a->where);
	rc = rc ? rc : selector_add_matchers(&where, b->where);
	rc = rc ? rc : buf_add_u8(&where, 0);
	both.where = (const char *)where.data;
	rc = rc ? err_sys(err, rc, "cannot compare") : query_open(&q, s, &both, err);
	if (!rc)
		*ret = query_info(q)->samples;
	query_close(q);
	buf_fini(&where);
	return rc;
}

/* ---- comparing ---- */

/* What a count is out of: samples that the side's windows would have had from one CPU at work. */
static double exposure(const struct builder *b, int side)
{
	const struct query_info *info = b->info[side];
	uint64_t ns = info->event ? info->event->ns_per_sample : 0;
	return (double)info->covered_ns / (ns ? (double)ns : 1e9);
}

static void measure(const struct builder *b, struct query_diff_row *r)
{
	const struct query_diff *d = &b->d->diff;
	for (int side = 0; side < 2; side++) {
		r->count[side] =
			b->spec->inclusive || b->spec->keys ? r->samples[side] : r->self[side];
		r->share[side] =
			d->samples[side] ? (double)r->count[side] / (double)d->samples[side] : 0;
		r->rate[side] =
			d->covered_s[side] > 0 ? (double)r->count[side] / d->covered_s[side] : 0;
	}
	double x = b->spec->absolute ? r->rate[0] : r->share[0],
	       y = b->spec->absolute ? r->rate[1] : r->share[1];
	r->change = r->share[0] - r->share[1];
	r->ratio = y > 0 ? x / y : x > 0 ? INFINITY : 1;
	stats_change_interval(r->count[0], d->samples[0], r->count[1], d->samples[1], STATS_Z95,
			      &r->low, &r->high);
}

/* A side that was cut may have what it does not show. */
static bool may_be_cut(const struct builder *b, const struct query_diff_row *r)
{
	return r->other || (b->info[0]->bounded && !r->samples[0]) ||
	       (b->info[1]->bounded && !r->samples[1]);
}

static void test(const struct builder *b, struct query_diff_row *r)
{
	const uint64_t *k = r->count, *n = b->d->diff.samples;
	double e0 = exposure(b, 0), e1 = exposure(b, 1), least;
	if (b->spec->absolute) {
		least = stats_rate_least_p(k[0] + k[1], e0, e1);
		r->p = stats_rate_p(k[0], e0, k[1], e1);
	} else {
		least = stats_share_least_p(k[0] + k[1], n[0], n[1]);
		r->p = stats_share_p(k[0], n[0], k[1], n[1]);
	}
	r->tested = least < QUERY_DIFF_RATE && !may_be_cut(b, r);
}

static double size_of_change(const struct query_diff_row *r, bool absolute)
{
	return fabs(absolute ? r->rate[0] - r->rate[1] : r->change);
}

static int judge(struct query_diff *d)
{
	double *p = calloc(2 * d->n_rows + 1, sizeof(*p)), *q = p ? p + d->n_rows : p;
	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < d->n_rows; i++)
		if (d->rows[i].tested)
			p[d->n_tested++] = d->rows[i].p;
	int rc = stats_adjust(p, d->n_tested, q);
	for (size_t i = 0, k = 0; !rc && i < d->n_rows; i++) {
		struct query_diff_row *r = &d->rows[i];
		if (r->tested)
			r->q = q[k++];
		if (r->q >= QUERY_DIFF_RATE)
			continue;
		r->verdict = r->ratio > 1 ? DIFF_MORE : DIFF_LESS;
		d->n_changed++;
	}
	free(p);
	return rc;
}

static int by_change(const void *pa, const void *pb, void *ctx)
{
	const struct query_diff_row *a = pa, *b = pb;
	bool absolute = *(const bool *)ctx;
	double x = size_of_change(a, absolute), y = size_of_change(b, absolute);
	if (!a->verdict != !b->verdict)
		return a->verdict ? -1 : 1;
	if (x != y)
		return x > y ? -1 : 1;
	int c = strcmp(a->text, b->text);
	return c || !a->module ? c : strcmp(a->module, b->module);
}

static int build(struct builder *b)
{
	struct query_diff *d = &b->d->diff;
	bool absolute = b->spec->absolute;
	int rc = 0;
	for (int side = 0; side < 2; side++) {
		d->samples[side] = b->info[side]->samples;
		d->covered_s[side] = (double)b->info[side]->covered_ns / 1e9;
		rc = rc ? rc : add_side(b, side);
	}
	for (size_t i = 0; !rc && i < d->n_rows; i++) {
		measure(b, &d->rows[i]);
		test(b, &d->rows[i]);
	}
	rc = rc ? rc : judge(d);
	if (!rc && d->n_rows)
		qsort_r(d->rows, d->n_rows, sizeof(*d->rows), by_change, &absolute);
	return rc;
}

int query_diff(struct query_diff **ret, struct query *qa, struct query *qb,
	       const struct query_diff_spec *spec, struct err *err)
{
	struct diff *d = calloc(1, sizeof(*d));
	struct builder b = { .d = d, .spec = spec, .info = { query_info(qa), query_info(qb) } };
	int rc = d ? 0 : -ENOMEM;
	if (!rc)
		rc = query_table(qa, spec->keys, spec->n_keys, &d->tables[0], err);
	if (!rc)
		rc = query_table(qb, spec->keys, spec->n_keys, &d->tables[1], err);
	if (!rc)
		rc = build(&b);
	idhash_fini(&b.hash);
	buf_fini(&b.name);
	if (!rc) {
		*ret = &d->diff;
		return 0;
	}
	query_diff_free(d ? &d->diff : NULL);
	return err_sys(err, rc, "cannot compare");
}
