/* SPDX-License-Identifier: Apache-2.0 */
#include "query/findings.h"

#include "query/account.h"
#include "query/change.h"
#include "query/findings_int.h"
#include "query/scope.h"
#include "query/stats.h"
#include "util/array.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS 1e9
#define DAY_NS (86400 * 1000000000ll)
#define VALUES 50	 /* of a key, those with the most time */
#define WAITS 4		 /* classes of waits that a value has */
#define STEPS 60	 /* of the range */
#define USUAL 0.8	 /* of the rate: so much of it a day before makes it usual */
#define SATURATED 0.95	 /* of all CPUs */
#define LEAST_SHARE 0.02 /* of the CPUs: the least change, */
#define LEAST 0.05	 /* within these bounds */
#define LEAST_MOST 0.5
#define LEAST_BURST 0.25
#define LEAST_WAIT 0.1
#define WAIT_GRAIN 1e7 /* ns: waits are tested as samples so far apart would be */

const char *const finding_names[FINDING_KINDS] = {
	[FINDING_SATURATED] = "saturated", [FINDING_BUILD] = "build", [FINDING_MORE] = "more",
	[FINDING_BURST] = "burst",	   [FINDING_RUNQ] = "runq",   [FINDING_OFF] = "blocked",
	[FINDING_LESS] = "less",
};

/* ---- texts and rows ---- */

int findings_keep(struct looking *l, const char *text, const char **ret)
{
	char *copy = text ? strdup(text) : NULL;
	int rc = !text || copy ? 0 : -ENOMEM;
	rc = rc || !text ? rc : ARRAY_RESERVE(l->texts, l->cap_texts, l->n_texts + 1);
	if (rc) {
		free(copy);
		return err_set(l->err, -ENOMEM, "out of memory");
	}
	if (text)
		l->texts[l->n_texts++] = copy;
	*ret = copy;
	return 0;
}

int findings_add(struct looking *l, const struct finding *f)
{
	if (ARRAY_RESERVE(l->v, l->cap, l->n + 1))
		return err_set(l->err, -ENOMEM, "out of memory");
	l->v[l->n++] = *f;
	return 0;
}

/* ---- the range ---- */

/* Cut the range to the windows that were recorded, and choose the step. */
static int find_range(struct looking *l)
{
	struct store_cover c;
	int rc = store_cover(l->store, l->spec->from_ns, l->spec->to_ns, STORE_FOLDED, NULL, 0, &c,
			     l->err);
	if (rc)
		return rc;
	l->to_ns = c.to_ns < l->spec->to_ns ? c.to_ns : l->spec->to_ns;
	l->from_ns =
		l->spec->from_ns == INT64_MIN ? l->to_ns - FINDINGS_RANGE_NS : l->spec->from_ns;
	if (l->spec->from_ns == INT64_MIN && l->from_ns < c.from_ns)
		l->from_ns = c.from_ns;
	if (!c.n)
		l->from_ns = l->to_ns = 0;
	store_cover_free(&c);
	int64_t length = l->to_ns - l->from_ns;
	l->step_ns = (length / STEPS + QUERY_WINDOW_NS - 1) / QUERY_WINDOW_NS * QUERY_WINDOW_NS;
	if (l->step_ns < QUERY_WINDOW_NS)
		l->step_ns = QUERY_WINDOW_NS;
	l->from_ns -= l->from_ns % l->step_ns;
	l->before_ns = l->from_ns - (l->to_ns - l->from_ns);
	return 0;
}

/* ---- rates over time ---- */

static struct query_series_spec series_spec(const struct looking *l, enum query_metric metric,
					    const char *const *key, int64_t from_ns, int64_t to_ns)
{
	/* Blocks keep the most frequent values of a key for samples, not for times. */
	bool cpu = metric == QUERY_CPU, off = metric == QUERY_OFF;
	return (struct query_series_spec){
		.range = { .where = l->spec->where,
			   .from_ns = from_ns,
			   .to_ns = to_ns,
			   .event = cpu ? l->cpu_event : NULL,
			   .metric = cpu ? QUERY_SAMPLES : metric,
			   .idle = off /* of who is there */ },
		.keys = key,
		.n_keys = off ? 2 : 1,
		.step_ns = l->step_ns,
		.top = off ? VALUES * WAITS : VALUES,
	};
}

/* Return the nanoseconds that a point counts. */
static double unit_of(const struct query_series *s)
{
	const struct store_event *e = s->whole ? query_info(s->whole)->event : NULL;
	return e ? (double)e->ns_per_sample : 1;
}

/* Write the rate of a row in each step, NAN where nothing was recorded. */
static void read_rates(const struct query_series *s, const struct query_series_row *row,
		       double *ret)
{
	for (size_t i = 0; i < s->n_steps; i++)
		ret[i] = s->covered_ns[i] > 0
				 ? (double)row->points[i] * unit_of(s) / (double)s->covered_ns[i]
				 : NAN;
}

/* The mean rate of a value in [from, to); NAN: nothing was recorded then. */
static double mean_rate(const struct query_series *s, const struct query_series_row *row,
			int64_t from_ns, int64_t to_ns)
{
	double sum = 0, covered = 0;
	for (size_t i = 0; i < s->n_steps; i++) {
		int64_t at = s->from_ns + (int64_t)i * s->step_ns;
		if (at < from_ns || at >= to_ns)
			continue;
		sum += row ? (double)row->points[i] : 0;
		covered += (double)s->covered_ns[i];
	}
	return covered > 0 ? sum * unit_of(s) / covered : NAN;
}

static const struct query_series_row *row_of(const struct query_series *s, const struct finding *f)
{
	for (size_t i = 0; i < s->n_rows; i++)
		if (!s->rows[i].other && s->rows[i].present[0] &&
		    !strcmp(s->rows[i].values[0], f->value) &&
		    (!f->wait || !strcmp(s->rows[i].values[1], f->wait)))
			return &s->rows[i];
	return NULL;
}

/* ---- what changed ---- */

static double least_change(const struct looking *l, enum query_metric metric)
{
	double least = fmin(fmax(LEAST_SHARE * (double)l->n_cpus, LEAST), LEAST_MOST);
	return metric == QUERY_CPU ? least : fmax(least, LEAST_WAIT);
}

static enum finding_kind kind_of(enum query_metric metric, enum change_kind c)
{
	return metric == QUERY_RUNQ  ? FINDING_RUNQ
	       : metric == QUERY_OFF ? FINDING_OFF
	       : c == CHANGE_MORE    ? FINDING_MORE
	       : c == CHANGE_BURST   ? FINDING_BURST
				     : FINDING_LESS;
}

static int add_change(struct looking *l, enum query_metric metric, const char *key,
		      const struct query_series_row *row, const struct query_series *s,
		      const struct change *c)
{
	int64_t since = s->from_ns + (int64_t)c->begin * s->step_ns,
		end = s->from_ns + (int64_t)c->end * s->step_ns;
	struct finding f = {
		.kind = kind_of(metric, c->kind),
		.now = c->inside,
		.before = c->outside,
		.day = NAN,
		.since_ns = since,
		.span_ns = (end > l->to_ns ? l->to_ns : end) - since,
		.q = c->p,
	};
	int rc = findings_keep(l, key, &f.key);
	rc = rc ? rc : findings_keep(l, row->values[0], &f.value);
	if (metric == QUERY_OFF)
		rc = rc ? rc : findings_keep(l, row->values[1], &f.wait);
	return rc ? rc : findings_add(l, &f);
}

/* Note the p-value of a test: the adjustment needs those of values without a change, too. */
static int note_test(struct looking *l, double p, bool told)
{
	if (ARRAY_RESERVE(l->p, l->cap_p, l->n_p + 1) ||
	    ARRAY_RESERVE(l->told, l->cap_told, l->n_p + 1))
		return err_set(l->err, -ENOMEM, "out of memory");
	l->told[l->n_p] = told ? l->n : 0; /* the last one */
	l->p[l->n_p++] = p;
	return 0;
}

/* Is a wait of this class a cause, rather than what follows from one elsewhere? */
static bool is_cause(const char *wait)
{
	return !strcmp(wait, "lock") || !strcmp(wait, "io");
}

/* Was the value there before a step? Whoever is new waits, too. */
static bool was_there(const struct query_series *s, const char *value, size_t step)
{
	for (size_t i = 0; i < s->n_rows; i++)
		for (size_t k = 0; k + 1 < step && !s->rows[i].other; k++)
			if (s->rows[i].points[k] && !strcmp(s->rows[i].values[0], value))
				return true;
	return false;
}

/* Is a change of waits no news? Others than causes are told where they go on. */
static bool is_dull(enum query_metric metric, const struct query_series *s,
		    const struct query_series_row *row, const struct change *c)
{
	bool waits = metric == QUERY_OFF;
	return c->kind == CHANGE_LESS ||
	       (c->kind == CHANGE_BURST && !(waits && is_cause(row->values[1]))) ||
	       (waits && !was_there(s, row->values[0], c->begin));
}

static int test_value(struct looking *l, enum query_metric metric, const char *key,
		      const struct query_series *s, const struct query_series_row *row,
		      double *rates)
{
	bool cpu = metric == QUERY_CPU;
	double least = least_change(l, metric);
	struct change_spec spec = {
		.from = l->from_ns > s->from_ns ? (size_t)((l->from_ns - s->from_ns) / s->step_ns)
						: 0,
		.least = least,
		.least_burst = fmax(LEAST_BURST, least),
		.per_step = (double)s->step_ns / (cpu ? unit_of(s) : WAIT_GRAIN),
	};
	struct change c;
	read_rates(s, row, rates);
	if (change_find(&c, rates, s->n_steps, &spec))
		return err_set(l->err, -ENOMEM, "out of memory");
	if (!cpu && is_dull(metric, s, row, &c))
		c.kind = CHANGE_NONE;
	bool told = c.kind != CHANGE_NONE;
	int rc = told ? add_change(l, metric, key, row, s, &c) : 0;
	return rc ? rc : note_test(l, c.p, told);
}

/*
 * Is a wait of this class worth a look? Others are what the thread itself chose. Of unknown ones
 * there are more when the recorder takes fewer stacks.
 */
static bool is_told(const char *wait)
{
	static const char *const not[] = { "idle", "sleep", "child", "unknown" };
	for (size_t i = 0; i < sizeof(not) / sizeof(not[0]); i++)
		if (!strcmp(wait, not[i]))
			return false;
	return true;
}

static int test_key(struct looking *l, enum query_metric metric, const char *key)
{
	struct query_series *s = NULL;
	const char *const keys[] = { key, "wait" };
	struct query_series_spec spec = series_spec(l, metric, keys, l->before_ns, l->to_ns);
	int rc = query_series(&s, l->store, &spec, l->err);
	double *rates = rc ? NULL : malloc((s->n_steps + 1) * sizeof(*rates));
	if (!rc && !rates)
		rc = err_set(l->err, -ENOMEM, "out of memory");
	for (size_t i = 0; !rc && i < s->n_rows; i++) {
		const struct query_series_row *row = &s->rows[i];
		if (!row->other && row->present[0] &&
		    (metric != QUERY_OFF || is_told(row->values[1])))
			rc = test_value(l, metric, key, s, row, rates);
	}
	if (!rc) {
		l->bounded |= s->bounded;
		l->has_before |= s->n_steps && s->from_ns < l->from_ns;
	}
	free(rates);
	bool all = metric == QUERY_CPU && key == l->keys[0] && !(l->spec->where && *l->spec->where);
	if (!rc && all)
		l->cpu = s;
	else
		query_series_free(s);
	return rc;
}

/* Keep the findings whose q, adjusted over all tests, is small enough. */
static int keep_significant(struct looking *l)
{
	double *q = malloc((l->n_p + 1) * sizeof(*q));
	size_t n = 0;
	int rc = q ? stats_adjust(l->p, l->n_p, q) : -ENOMEM;
	for (size_t i = 0; !rc && i < l->n_p; i++) {
		if (!l->told[i] || q[i] > FINDINGS_RATE)
			continue;
		l->v[n] = l->v[l->told[i] - 1];
		l->v[n++].q = q[i];
	}
	if (!rc)
		l->n = n;
	free(q);
	return rc ? err_set(l->err, -ENOMEM, "out of memory") : 0;
}

/* ---- the day before ---- */

static bool is_of(const struct finding *f, enum query_metric metric, const char *key)
{
	enum query_metric own = f->kind == FINDING_RUNQ	 ? QUERY_RUNQ
				: f->kind == FINDING_OFF ? QUERY_OFF
							 : QUERY_CPU;
	return own == metric && !strcmp(f->key, key);
}

/* Set the rates of the day before, of findings of one key and metric. */
static int compare_key(struct looking *l, enum query_metric metric, const char *key)
{
	struct query_series *day = NULL;
	int64_t from = INT64_MAX, to = INT64_MIN;
	for (size_t i = 0; i < l->n; i++) {
		const struct finding *f = &l->v[i];
		if (!is_of(f, metric, key))
			continue;
		from = f->since_ns < from ? f->since_ns : from;
		to = f->since_ns + f->span_ns > to ? f->since_ns + f->span_ns : to;
	}
	if (from >= to)
		return 0;
	const char *const keys[] = { key, "wait" };
	struct query_series_spec spec = series_spec(l, metric, keys, from - DAY_NS, to - DAY_NS);
	int rc = query_series(&day, l->store, &spec, l->err);
	for (size_t i = 0; !rc && day->n_steps && i < l->n; i++) {
		struct finding *f = &l->v[i];
		if (!is_of(f, metric, key))
			continue;
		f->day = mean_rate(day, row_of(day, f), f->since_ns - DAY_NS,
				   f->since_ns + f->span_ns - DAY_NS);
		f->usual = f->kind == FINDING_LESS ? f->day <= f->now / USUAL
						   : f->day >= USUAL * f->now;
	}
	query_series_free(day);
	return rc;
}

/* Mark what is usual. Only what was found is compared: a quiet host has nothing to read. */
static int compare_day(struct looking *l)
{
	static const enum query_metric metrics[] = { QUERY_CPU, QUERY_RUNQ, QUERY_OFF };
	struct store_cover c;
	int rc = store_cover(l->store, l->from_ns - DAY_NS, l->to_ns - DAY_NS, STORE_FOLDED, NULL,
			     0, &c, l->err);
	if (rc)
		return rc;
	l->has_day = c.n > 0;
	store_cover_free(&c);
	for (size_t k = 0; l->has_day && k < l->n_keys; k++)
		for (size_t m = 0; !rc && m < 3; m++)
			rc = compare_key(l, metrics[m], l->keys[k]);
	return rc;
}

/* ---- all CPUs at once ---- */

/* Find who waited most for a CPU in the range. */
static int find_waiter(struct looking *l, struct finding *f)
{
	struct query_series *s = NULL;
	struct query_series_spec spec =
		series_spec(l, QUERY_RUNQ, &l->keys[0], l->from_ns, l->to_ns);
	int rc = l->has_waits ? query_series(&s, l->store, &spec, l->err) : 0;
	for (size_t i = 0; !rc && s && i < s->n_rows && !f->value; i++) {
		if (s->rows[i].other || !s->rows[i].present[0] || !s->rows[i].samples)
			continue;
		rc = findings_keep(l, l->keys[0], &f->key);
		rc = rc ? rc : findings_keep(l, s->rows[i].values[0], &f->value);
	}
	query_series_free(s);
	return rc;
}

/* Return the CPUs that all values used in a step; 0 where nothing was recorded. */
static double used_in(const struct query_series *s, size_t step)
{
	double sum = 0;
	for (size_t i = 0; i < s->n_rows; i++)
		sum += (double)s->rows[i].points[step];
	return s->covered_ns[step] > 0 ? sum * unit_of(s) / (double)s->covered_ns[step] : 0;
}

/* Sum the values of a key: unlike totals, sums by key need no stacks. */
static int test_saturation(struct looking *l)
{
	struct query_series_spec spec =
		series_spec(l, QUERY_CPU, &l->keys[0], l->before_ns, l->to_ns);
	struct finding f = { .kind = FINDING_SATURATED, .day = NAN };
	double sum[2] = { 0, 0 }, covered[2] = { 0, 0 };
	spec.range.where = NULL;
	spec.top = 1;
	int rc = l->cpu ? 0 : query_series(&l->cpu, l->store, &spec, l->err);
	const struct query_series *s = l->cpu;
	for (size_t i = 0; !rc && i < s->n_steps; i++) {
		int64_t at = s->from_ns + (int64_t)i * s->step_ns;
		bool before = at < l->from_ns;
		sum[before] += used_in(s, i) * (double)s->covered_ns[i];
		covered[before] += (double)s->covered_ns[i];
		if (before || !l->n_cpus || used_in(s, i) < SATURATED * (double)l->n_cpus)
			continue;
		f.span_ns += s->covered_ns[i];
		f.since_ns = f.since_ns ? f.since_ns : at;
	}
	f.now = sum[0] / covered[0];
	f.before = sum[1] / covered[1]; /* NAN: there is none */
	if (!rc && f.span_ns && f.span_ns * 10 >= l->to_ns - l->from_ns) {
		rc = find_waiter(l, &f);
		rc = rc ? rc : findings_add(l, &f);
	}
	return rc;
}

/* ---- in order ---- */

/* What is usual comes last; else causes before what follows from them. */
static int place(const struct finding *f)
{
	static const int places[FINDING_KINDS] = {
		[FINDING_SATURATED] = 0, [FINDING_MORE] = 1,  [FINDING_BURST] = 1,
		[FINDING_RUNQ] = 2,	 [FINDING_BUILD] = 3, [FINDING_OFF] = 4,
		[FINDING_LESS] = 5
	};
	bool cause = f->wait && is_cause(f->wait);
	return f->usual ? FINDING_KINDS : cause ? places[FINDING_MORE] : places[f->kind];
}

static double weight(const struct finding *f)
{
	return fabs(f->now - f->before) * (double)f->span_ns;
}

static int by_weight(const void *pa, const void *pb)
{
	const struct finding *a = pa, *b = pb;
	if (place(a) != place(b))
		return place(a) - place(b);
	double x = weight(a), y = weight(b);
	if (a->kind != FINDING_BUILD && x != y)
		return x < y ? 1 : -1;
	return strcmp(a->value ? a->value : "", b->value ? b->value : "");
}

static int look(struct looking *l)
{
	static const enum query_metric metrics[] = { QUERY_CPU, QUERY_RUNQ, QUERY_OFF };
	struct account t = { 0 };
	int rc = find_range(l);
	if (rc || l->from_ns == l->to_ns)
		return rc;
	rc = account_sum(&t, l->store, l->from_ns, l->to_ns, l->err);
	l->n_cpus = t.n_cpus;
	if (!rc)
		l->without_waits_ns = (int64_t)((double)(l->to_ns - l->from_ns) *
						account_without_waits(store_meta(l->store),
								      t.all.flagged, t.all.stored));
	account_fini(&t);
	l->cpu_event = query_cpu_event(l->store);
	if (!rc && !*l->cpu_event)
		rc = err_set(l->err, -EINVAL, "no event of the store stands for CPU time");
	l->has_wakers = scope_has_wakers(l->store);
	for (uint32_t i = 0; i < store_n_events(l->store); i++)
		l->has_waits |= !strcmp(store_event(l->store, i)->name, "runq");
	if (!rc && !l->n_keys)
		rc = findings_choose_keys(l);
	for (size_t k = 0; k < l->n_keys; k++)
		for (size_t m = 0; !rc && m < (l->has_waits && !k ? 3 : 1);
		     m++) /* waits: of who it is alone */
			rc = test_key(l, metrics[m], l->keys[k]);
	rc = rc ? rc : keep_significant(l);
	rc = rc ? rc : findings_merge(l);
	rc = rc ? rc : compare_day(l);
	rc = rc ? rc : test_saturation(l);
	rc = rc ? rc : findings_builds(l);
	if (!rc && l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_weight);
	return rc ? rc : findings_explain(l);
}

int query_findings(struct findings **ret, struct store *s, const struct findings_spec *spec,
		   struct err *err)
{
	struct kept *k = calloc(1, sizeof(*k));
	if (!k)
		return err_set(err, -ENOMEM, "out of memory");
	struct looking *l = &k->l;
	*l = (struct looking){ .store = s, .spec = spec, .err = err };
	for (; l->n_keys < spec->n_keys && l->n_keys < FINDINGS_KEYS_MAX; l->n_keys++)
		l->keys[l->n_keys] = spec->keys[l->n_keys];
	int rc = look(l);
	query_series_free(l->cpu);
	k->f = (struct findings){
		l->v,	    spec->limit && l->n > spec->limit ? spec->limit : l->n,
		l->n,	    l->from_ns,
		l->to_ns,   l->before_ns,
		l->step_ns, l->has_before,
		l->has_day, l->has_waits,
		l->n_cpus,  l->n_p,
		{ NULL },   l->n_keys,
		l->bounded, l->without_waits_ns
	};
	memcpy(k->f.keys, l->keys, sizeof(k->f.keys));
	if (rc)
		query_findings_free(&k->f);
	else
		*ret = &k->f;
	return rc;
}

void query_findings_free(struct findings *f)
{
	struct kept *k = (struct kept *)f; /* its first member */
	if (!k)
		return;
	for (size_t i = 0; i < k->l.n_texts; i++)
		free(k->l.texts[i]);
	free(k->l.texts);
	free(k->l.v);
	free(k->l.p);
	free(k->l.told);
	free(k);
}
