/* SPDX-License-Identifier: Apache-2.0 */
#include "export/answer_int.h"

#include "hist/prometheus.h"
#include "query/own.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct store_event *answer_event(const struct query *q)
{
	static const struct store_event none = { "", "", 0, 0 };
	const struct store_event *e = query_info(q)->event;
	return e ? e : &none;
}

double answer_seconds(const struct query *q, uint64_t samples)
{
	return (double)samples * (double)answer_event(q)->ns_per_sample / 1e9;
}

/* ---- what every answer has ---- */

json_t *answer_counts(const char *const *names, const uint64_t *counts, size_t n)
{
	json_t *o = json_object();
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = json_put(o, names[i], json_count(counts[i]));
	return json_done(o, rc);
}

static json_t *own_json(uint64_t cpu_ns, uint64_t rss)
{
	return json_pack("{s:f,s:o}", "cpu_seconds", (double)cpu_ns / 1e9, "rss_bytes",
			 json_count(rss));
}

/* What each flag is a share of. */
static json_t *bases_json(const struct store_meta *m, const uint64_t *flagged, uint64_t stored)
{
	json_t *o = json_object();
	int rc = 0;
	for (size_t i = 0; !rc && i < m->n_flagged; i++)
		rc = json_put(o, m->flagged_names[i],
			      json_count(account_base(m, flagged, stored, m->flagged_names[i])));
	return json_done(o, rc);
}

int answer_accounting(json_t *object, const struct store *s, const struct query_info *info)
{
	const struct store_meta *m = store_meta(s);
	int rc = json_put(object, "fired", json_count(info->fired));
	rc = rc ? rc : json_put(object, "stored", json_count(info->stored));
	rc = rc ? rc
		: json_put(object, "lost", answer_counts(m->lost_names, info->lost, m->n_lost));
	rc = rc ? rc
		: json_put(object, "flagged",
			   answer_counts(m->flagged_names, info->flagged, m->n_flagged));
	rc = rc ? rc : json_put(object, "flagged_of", bases_json(m, info->flagged, info->stored));
	rc = rc ? rc : json_put(object, "idle", json_count(info->idle));
	rc = rc ? rc : json_put(object, "idle_waits", json_count(info->idle_waits));
	rc = rc ? rc : json_put(object, "outside", json_count(info->outside));
	return rc ? rc : json_put(object, "own", own_json(info->own_cpu_ns, info->own_rss_max));
}

json_t *answer_key(const char *const *keys, size_t n_keys, const char *const *values,
		   const bool *present)
{
	json_t *key = json_object();
	int rc = 0;
	for (size_t i = 0; !rc && i < n_keys; i++)
		rc = json_put(key, keys[i], present[i] ? json_string_of(values[i]) : json_null());
	return json_done(key, rc);
}

static int add_asked(json_t *o, const struct answer *a, const struct query *q)
{
	int rc = json_put(o, "event", json_string_of(answer_event(q)->name));
	rc = rc ? rc : json_put(o, "unit", json_string_of(answer_event(q)->unit));
	if (a->metric)
		rc = rc ? rc : json_put(o, "metric", json_string_of(a->metric));
	return rc ? rc : json_put(o, "where", json_string_of(a->where));
}

int answer_add_read(json_t *o, const struct query_info *info)
{
	int rc = json_put(o, "blocks", json_count(info->blocks));
	rc = rc ? rc : json_put(o, "windows", json_count(info->windows));
	rc = rc ? rc : json_put(o, "coarse", json_count(info->coarse));
	if (info->bounded)
		rc = rc ? rc : json_put(o, "bounded", json_true());
	return rc ? rc : json_put(o, "gone", json_count(info->gone));
}

int answer_add_sum(json_t *o, const struct query_info *info)
{
	int rc = json_put(o, "samples", json_count(info->samples));
	return rc ? rc : json_put(o, "seconds", json_real(info->seconds));
}

/* ---- table ---- */

const struct answer_quantile answer_quantiles[ANSWER_QUANTILES] = {
	{ 0.5, "p50", "P50" },
	{ 0.9, "p90", "P90" },
	{ 0.99, "p99", "P99" },
	{ 1, "max", "MAX" },
};

/* A group that may have been cut has none of this. Times are in seconds. */
static int add_lengths(json_t *o, const struct query *q, const struct query_lengths *l,
		       const struct hist_snapshot *h)
{
	const double unit = strcmp(answer_event(q)->unit, "nanoseconds") ? 1 : 1e9;
	if (!h && query_lengths_bounded(l))
		return 0;
	int rc = json_put(o, query_lengths_what(l), json_count(h ? h->total : 0));
	for (size_t i = 0; !rc && h && h->total && i < ANSWER_QUANTILES; i++) {
		struct hist_value v = hist_snapshot_quantile(h, answer_quantiles[i].q);
		rc = json_put(o, answer_quantiles[i].name,
			      json_pack("{s:f,s:f,s:f}", "low", (double)v.low / unit, "value",
					(double)v.value / unit, "high", (double)v.high / unit));
	}
	return rc;
}

static int add_ratio(json_t *o, const struct answer_ratios *s, size_t i)
{
	const bool none = isnan(s->ratio[i]);
	int rc = json_put(o, "ratio", none ? json_null() : json_real(s->ratio[i]));
	return rc ? rc : json_put(o, "ratio_error", none ? json_null() : json_real(s->error[i]));
}

static json_t *table_row(const void *ctx, size_t i)
{
	const struct answer_table *of = ctx;
	const struct answer *a = of->a;
	const struct query *q = of->q;
	const struct query_table_row *r = &of->t->rows[i];
	const struct query_info *info = query_info(q);
	json_t *o = json_object();
	int rc = 0;
	if (a->n_keys) {
		rc = json_put(o, "key",
			      r->other ? json_null()
				       : answer_key(a->keys, a->n_keys, r->values, r->present));
	} else {
		rc = json_put(o, "function", json_string_of(r->text));
		rc = rc ? rc : json_put(o, "module", json_string_of(r->module));
		if (r->inlined)
			rc = rc ? rc : json_put(o, "inlined", json_true());
	}
	double share = info->samples ? (double)r->samples / (double)info->samples : 0;
	rc = rc ? rc : json_put(o, "samples", json_count(r->samples));
	rc = rc ? rc : json_put(o, "self", json_count(r->self));
	if (of->t->has_values)
		rc = rc ? rc : json_put(o, "value", json_count(r->value));
	rc = rc ? rc : json_put(o, "seconds", json_real(answer_seconds(q, r->samples)));
	rc = rc ? rc : json_put(o, "self_seconds", json_real(answer_seconds(q, r->self)));
	rc = rc ? rc : json_put(o, "share", json_real(share));
	rc = rc ? rc : json_put(o, "low", json_real(r->low));
	rc = rc ? rc : json_put(o, "high", json_real(r->high));
	if (r->error)
		rc = rc ? rc : json_put(o, "error", json_count(r->error));
	if (r->other)
		rc = rc ? rc : json_put(o, "other", json_true());
	if (a->ratios)
		rc = rc ? rc : add_ratio(o, a->ratios, i);
	if (a->lengths)
		rc = rc ? rc
			: add_lengths(
				  o, q, a->lengths,
				  r->other ? NULL
					   : query_lengths_of(a->lengths, r->values, r->present));
	return json_done(o, rc);
}

struct json_rows answer_table_rows(const struct answer_table *of)
{
	size_t n = of->t->n_rows;
	return (struct json_rows){ n < of->a->limit ? n : of->a->limit, table_row, of };
}

json_t *answer_table(const struct answer_table *of)
{
	const struct answer *a = of->a;
	const struct query *q = of->q;
	const struct query_info *info = query_info(q);
	json_t *o = json_object();
	int rc = json_put(o, "n_rows", json_count(of->t->n_rows + of->t->n_left));
	rc = rc ? rc : json_put(o, "exact", json_boolean(!of->t->approximate));
	rc = rc ? rc : answer_add_sum(o, info);
	rc = rc ? rc : json_put(o, "value", json_count(info->value));
	if (a->lengths)
		rc = rc ? rc : json_put(o, "quantile_error", json_real(LENGTHS_ERROR));
	if (a->lengths && query_lengths_bounded(a->lengths))
		rc = rc ? rc : json_put(o, "bounded", json_true());
	if (a->ratios)
		rc = rc ? rc : json_put(o, "per", json_string_of(a->ratios->event));
	rc = rc ? rc : add_asked(o, a, q);
	rc = rc ? rc : json_put(o, "from", json_time(info->from_ns));
	rc = rc ? rc : json_put(o, "to", json_time(info->to_ns));
	rc = rc ? rc : answer_add_read(o, info);
	rc = rc ? rc : answer_accounting(o, a->store, info);
	return json_done(o, rc);
}

/* ---- lengths of waits ---- */

json_t *answer_buckets(const struct hist_snapshot *h)
{
	json_t *v = json_array();
	uint64_t n;
	for (uint32_t i = 0; v && hist_snapshot_next(h, &i, &n); i++) {
		json_t *b = json_pack("[o,o,o]", json_count(hist_bucket_low(h->bits, i)),
				      json_count(hist_bucket_high(h->bits, i)), json_count(n));
		if (json_array_append_new(v, b))
			return json_done(v, -ENOMEM);
	}
	return v;
}

json_t *answer_quantile_values(const struct hist_snapshot *h)
{
	static const char *const names[] = { "0.5", "0.9", "0.99", "0.999", "1" };
	json_t *o = json_object();
	int rc = 0;
	for (size_t i = 0; !rc && h->total && i < sizeof(names) / sizeof(names[0]); i++)
		rc = json_put(o, names[i],
			      json_count(hist_snapshot_quantile(h, strtod(names[i], NULL)).value));
	return json_done(o, rc);
}

int answer_choose_buckets(struct answer *a, const struct query *q, const char *spec,
			  struct err *err)
{
	a->n_bounds = 0;
	return spec ? hist_bounds_parse(spec, !strcmp(answer_event(q)->unit, "nanoseconds"),
					a->bounds, &a->n_bounds, err)
		    : 0;
}

/* In the buckets that were chosen. The last one has what is above all bounds: its high is null. */
static json_t *chosen_buckets(const struct answer *a, const struct hist_snapshot *h)
{
	uint64_t count[HIST_BOUNDS_MAX + 1];
	json_t *v = json_array();
	hist_bucket_counts(h, a->bounds, a->n_bounds, count);
	for (size_t i = 0; v && i <= a->n_bounds; i++) {
		const bool last = i == a->n_bounds;
		json_t *b = json_pack("[o,o,o]", json_count(i ? a->bounds[i - 1] + 1 : 0),
				      last ? json_null() : json_count(a->bounds[i]),
				      json_count(count[i]));
		if (json_array_append_new(v, b))
			return json_done(v, -ENOMEM);
	}
	return v;
}

static json_t *lengths_row(const struct answer *a, const struct query_lengths_group *g)
{
	json_t *o = json_object();
	int rc = json_put(o, "key", answer_key(a->keys, a->n_keys, g->values, g->present));
	rc = rc ? rc : json_put(o, "count", json_count(g->hist->total));
	rc = rc ? rc : json_put(o, "mean", json_real(hist_snapshot_moments(g->hist).mean));
	rc = rc ? rc : json_put(o, "quantiles", answer_quantile_values(g->hist));
	rc = rc ? rc
		: json_put(o, "buckets",
			   a->n_bounds ? chosen_buckets(a, g->hist) : answer_buckets(g->hist));
	return json_done(o, rc);
}

json_t *answer_lengths(const struct answer *a, const struct query *q, const struct query_lengths *l)
{
	const struct query_info *info = query_info(q);
	struct query_lengths_group *groups = NULL;
	size_t n = 0;
	json_t *o = json_object(), *rows = json_array();
	int rc = o && rows ? query_lengths_groups(l, &groups, &n) : -ENOMEM;
	for (size_t i = 0; !rc && i < n && i < a->limit; i++)
		rc = json_array_append_new(rows, lengths_row(a, &groups[i])) ? -ENOMEM : 0;
	rc = rc ? rc : json_put(o, "rows", json_incref(rows));
	rc = rc ? rc : json_put(o, "n_rows", json_count(n));
	rc = rc ? rc : json_put(o, "error", json_real(LENGTHS_ERROR));
	if (a->n_bounds)
		rc = rc ? rc : json_put(o, "bound_error", json_real(LENGTHS_BOUND_ERROR));
	if (query_lengths_bounded(l))
		rc = rc ? rc : json_put(o, "bounded", json_true());
	rc = rc ? rc : answer_add_sum(o, info);
	rc = rc ? rc : add_asked(o, a, q);
	rc = rc ? rc : json_put(o, "from", json_time(info->from_ns));
	rc = rc ? rc : json_put(o, "to", json_time(info->to_ns));
	rc = rc ? rc : answer_add_read(o, info);
	rc = rc ? rc : answer_accounting(o, a->store, info);
	query_lengths_groups_free(groups);
	json_decref(rows);
	return json_done(o, rc);
}

/* ---- who was running ---- */

/* Null where it is no value. */
static int put_name(json_t *o, const char *who, const struct blame_party *p)
{
	return json_put(o, who, p->kind == BLAME_VALUE ? json_string_of(p->name) : json_null());
}

/* What it is instead; nothing for one without the label. */
static int put_kind(json_t *o, const struct blame_party *p)
{
	if (p->kind == BLAME_REST)
		return json_put(o, "rest", json_true());
	return p->kind == BLAME_IDLE || p->kind == BLAME_INTERRUPT || p->kind == BLAME_OTHER
		       ? json_put(o, "nobody", json_string_of(p->name))
		       : 0;
}

static json_t *party_json(const char *who, const struct blame_party *p)
{
	json_t *o = json_object();
	int rc = put_name(o, who, p);
	rc = rc ? rc : put_kind(o, p);
	return json_done(o, rc ? rc : json_put(o, "seconds", json_real((double)p->ns / 1e9)));
}

static json_t *parties_json(const char *who, const struct blame_party *v, size_t n)
{
	json_t *list = json_array();
	for (size_t i = 0; list && i < n; i++)
		if (json_array_append_new(list, party_json(who, &v[i])))
			return json_done(list, -ENOMEM);
	return list;
}

static json_t *cell_json(const struct query_blame *b, size_t victim, size_t occupant)
{
	uint64_t ns = query_blame_ns(b, victim, occupant), of = b->victim[victim].ns;
	json_t *o = json_object();
	int rc = json_put(o, "at", json_pack("[I,I]", (json_int_t)victim, (json_int_t)occupant));
	rc = rc ? rc : put_name(o, "victim", &b->victim[victim]);
	rc = rc ? rc : put_name(o, "occupant", &b->occupant[occupant]);
	rc = rc ? rc : put_kind(o, &b->occupant[occupant]);
	rc = rc ? rc : json_put(o, "seconds", json_real((double)ns / 1e9));
	rc = rc ? rc : json_put(o, "share", json_real(of ? (double)ns / (double)of : 0));
	return json_done(o, rc);
}

json_t *answer_blame(const struct answer *a, const char *key, const struct query_blame *b)
{
	const struct query_info *info = query_info(b->query);
	json_t *o = json_object(), *cells = json_array();
	int rc = o && cells ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < b->n_victims; i++)
		for (size_t k = 0; !rc && k < b->n_occupants; k++)
			if (query_blame_ns(b, i, k))
				rc = json_array_append_new(cells, cell_json(b, i, k)) ? -ENOMEM : 0;
	rc = rc ? rc : json_put(o, "key", json_string_of(key));
	rc = rc ? rc : json_put(o, "victims", parties_json("victim", b->victim, b->n_victims));
	rc = rc ? rc
		: json_put(o, "occupants", parties_json("occupant", b->occupant, b->n_occupants));
	rc = rc ? rc : json_put(o, "cells", json_incref(cells));
	rc = rc ? rc : json_put(o, "n_victims", json_count(b->victims));
	rc = rc ? rc : json_put(o, "n_occupants", json_count(b->occupants));
	rc = rc ? rc : json_put(o, "seconds", json_real((double)b->total / 1e9));
	rc = rc ? rc : json_put(o, "where", json_string_of(a->where));
	rc = rc ? rc : json_put(o, "from", json_time(info->from_ns));
	rc = rc ? rc : json_put(o, "to", json_time(info->to_ns));
	rc = rc ? rc : answer_add_read(o, info);
	rc = rc ? rc : answer_accounting(o, a->store, info);
	json_decref(cells);
	return json_done(o, rc);
}

/* ---- series ---- */

/* [[t, samples], ...]: a step in which nothing was recorded has no point. */
static json_t *points(const struct query_series *s, const struct query_series_row *row)
{
	json_t *v = json_array();
	for (size_t i = 0; v && i < s->n_steps; i++) {
		int64_t t = (s->from_ns + (int64_t)i * s->step_ns) / 1000000000;
		if (!s->windows[i])
			continue;
		if (json_array_append_new(
			    v, json_pack("[I,o]", (json_int_t)t, json_count(row->points[i]))))
			return json_done(v, -ENOMEM);
	}
	return v;
}

static json_t *series_row(const struct answer *a, const struct query_series *s,
			  const struct query_series_row *row)
{
	json_t *o = json_object();
	int rc = json_put(o, "key",
			  row->other ? json_null()
				     : answer_key(a->keys, a->n_keys, row->values, row->present));
	rc = rc ? rc : json_put(o, "other", json_boolean(row->other));
	rc = rc ? rc : json_put(o, "samples", json_count(row->samples));
	rc = rc ? rc : json_put(o, "seconds", json_real(answer_seconds(s->whole, row->samples)));
	rc = rc ? rc : json_put(o, "points", points(s, row));
	return json_done(o, rc);
}

static json_t *covered_json(const struct query_series *s)
{
	json_t *v = json_array();
	for (size_t i = 0; v && i < s->n_steps; i++)
		if (json_array_append_new(v, json_time(s->covered_ns[i])))
			return json_done(v, -ENOMEM);
	return v;
}

json_t *answer_series(const struct answer *a, const struct query_series *s)
{
	const struct query_info *info = query_info(s->whole);
	json_t *o = json_object(), *rows = json_array();
	int rc = o && rows ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < s->n_rows; i++)
		rc = json_array_append_new(rows, series_row(a, s, &s->rows[i])) ? -ENOMEM : 0;
	rc = rc ? rc : json_put(o, "series", json_incref(rows));
	rc = rc ? rc : json_put(o, "step", json_time(s->step_ns));
	rc = rc ? rc : json_put(o, "n_steps", json_count(s->n_steps));
	rc = rc ? rc : json_put(o, "covered", covered_json(s));
	rc = rc ? rc : json_put(o, "n_groups", json_count(s->n_groups));
	rc = rc ? rc : json_put(o, "exact", json_boolean(!s->approximate));
	if (s->bounded)
		rc = rc ? rc : json_put(o, "bounded", json_true());
	rc = rc ? rc : json_put(o, "from", json_time(s->from_ns));
	rc = rc ? rc : json_put(o, "to", json_time(s->to_ns));
	rc = rc ? rc : answer_add_sum(o, info);
	rc = rc ? rc : add_asked(o, a, s->whole);
	rc = rc ? rc : answer_add_read(o, info);
	rc = rc ? rc : answer_accounting(o, a->store, info);
	json_decref(rows);
	return json_done(o, rc);
}

/* ---- labels ---- */

static json_t *found_json(const struct found *f, bool keys)
{
	const struct label *l = &f->label;
	json_t *o = json_object();
	size_t len;
	int rc;
	if (keys) {
		rc = json_put(o, "key", json_text(l->key, l->key_len));
		rc = rc ? rc : json_put(o, "values", json_count(f->values));
		rc = rc ? rc : json_put(o, "samples", json_count(f->samples));
		return json_done(o, rc);
	}
	char *value = found_text(l, &len);
	rc = json_put(o, "value", value ? json_text(value, len) : NULL);
	free(value);
	rc = rc ? rc : json_put(o, "samples", json_count(f->samples));
	rc = rc ? rc : json_put(o, "seconds", json_real(f->seconds));
	return json_done(o, rc);
}

json_t *answer_found(const struct answer *a, const struct found_list *l)
{
	const struct query_info *info = &l->info;
	json_t *o = json_object(), *rows = json_array();
	int rc = o && rows ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < l->n && i < a->limit; i++)
		rc = json_array_append_new(rows, found_json(&l->v[i], l->keys)) ? -ENOMEM : 0;
	rc = rc ? rc : json_put(o, l->keys ? "keys" : "values", json_incref(rows));
	rc = rc ? rc : answer_add_sum(o, info);
	rc = rc ? rc : answer_add_read(o, info);
	rc = rc ? rc : answer_accounting(o, a->store, info);
	json_decref(rows);
	return json_done(o, rc);
}

/* ---- stat ---- */

static int add_totals(json_t *o, const struct store_cpu_totals *c, const struct store_meta *m)
{
	int rc = json_put(o, "fired", json_count(c->fired));
	rc = rc ? rc : json_put(o, "stored", json_count(c->stored));
	rc = rc ? rc : json_put(o, "lost", answer_counts(m->lost_names, c->lost, m->n_lost));
	rc = rc ? rc
		: json_put(o, "flagged", answer_counts(m->flagged_names, c->flagged, m->n_flagged));
	return rc ? rc : json_put(o, "flagged_of", bases_json(m, c->flagged, c->stored));
}

static json_t *cpus_json(const struct account *t, const struct store_meta *m)
{
	json_t *v = json_array();
	for (size_t i = 0; v && i < t->n_cpus; i++) {
		json_t *o = json_pack("{s:I}", "cpu", (json_int_t)t->cpu[i].cpu);
		int rc = add_totals(o, &t->cpu[i], m);
		if (json_array_append_new(v, o) || rc)
			return json_done(v, -ENOMEM);
	}
	return v;
}

/* {"ascribe_drain_seconds": {...}, ...}: values in nanoseconds where the name says seconds. */
static json_t *metrics_json(const struct hist_snapshot *own)
{
	json_t *all = json_object();
	int rc = 0;
	for (unsigned m = 0; !rc && m < N_METRICS; m++) {
		json_t *o = own[m].total ? json_object() : NULL;
		if (!own[m].total)
			continue;
		rc = json_put(o, "count", json_count(own[m].total));
		rc = rc ? rc : json_put(o, "mean", json_real(hist_snapshot_moments(&own[m]).mean));
		rc = rc ? rc : json_put(o, "quantiles", answer_quantile_values(&own[m]));
		rc = rc ? rc : json_put(o, "buckets", answer_buckets(&own[m]));
		rc = json_put(all, metric_name(m), json_done(o, rc));
	}
	return json_done(all, rc);
}

/* [{"process": "comm[tgid]", "requests": n}, ...] */
static json_t *silent_json(const struct query_own *own)
{
	json_t *all = json_array();
	for (size_t i = 0; all && i < own->n_silent; i++) {
		json_t *o = json_object();
		int rc = json_put(o, "process", json_string_of(own->silent[i].name));
		rc = rc ? rc : json_put(o, "requests", json_count(own->silent[i].requests));
		if (json_array_append_new(all, json_done(o, rc)))
			return json_done(all, -ENOMEM);
	}
	return all;
}

/* [{"runtime": "V8 without ...", "processes": n}, ...] */
static json_t *native_json(const struct query_own *own)
{
	json_t *all = json_array();
	for (size_t i = 0; all && i < own->n_native; i++) {
		json_t *o = json_object();
		int rc = json_put(o, "runtime", json_string_of(own->native[i].what));
		rc = rc ? rc : json_put(o, "processes", json_count(own->native[i].processes));
		if (json_array_append_new(all, json_done(o, rc)))
			return json_done(all, -ENOMEM);
	}
	return all;
}

json_t *answer_account(const struct store *s, const struct account *t, const struct query_own *own)
{
	const struct store_meta *m = store_meta(s);
	json_t *o = json_object();
	json_t *self = own_json(t->own_cpu_ns, t->own_rss);
	int rc = json_put(self, "metrics", metrics_json(own->metric));
	rc = rc ? rc : json_put(self, "unanswered", silent_json(own));
	rc = rc ? rc : json_put(self, "unanswered_others", json_count(own->other_requests));
	rc = rc ? rc : json_put(self, "jobs_refused", json_count(own->jobs_refused));
	rc = rc ? rc : json_put(self, "runtimes_unknown", native_json(own));
	rc = json_put(o, "own", json_done(self, rc));
	rc = rc ? rc : add_totals(o, &t->all, m);
	rc = rc ? rc : json_put(o, "outside", json_count(t->outside));
	rc = rc ? rc : json_put(o, "cpus", cpus_json(t, m));
	rc = rc ? rc : json_put(o, "from", json_time(t->from_ns));
	rc = rc ? rc : json_put(o, "to", json_time(t->to_ns));
	rc = rc ? rc : json_put(o, "blocks", json_count(t->blocks));
	rc = rc ? rc : json_put(o, "what", json_string_of(m->what));
	rc = rc ? rc : json_put(o, "host", json_string_of(m->host));
	rc = rc ? rc : json_put(o, "os", json_string_of(m->os));
	return json_done(o, rc);
}
