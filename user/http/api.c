/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/v1: the questions of the commands, answered as `--json` answers them (docs/json.md,
 * docs/http.md).
 */
#include "http/asked.h"

#include "export/findings.h"
#include "export/why.h"
#include "fleet/grown.h"
#include "http/server_int.h"
#include "query/visible.h"
#include "query/own.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SERIES_TOP 10
#define SERIES_STEPS 100 /* when no step is asked for: about so many */
#define SERIES_STEPS_MAX 2000
#define STEP_NS QUERY_WINDOW_NS

/* ---- labels ---- */

/*
 * Without a range or a selector the newest file's own list of keys will do, and no window is read.
 */
struct names {
	json_t *keys;
};

/* Add a key once: stores of a union have the same ones, and a wide key may have narrow sets. */
static int add_key(struct names *n, const char *key, uint32_t sets, bool wide)
{
	json_t *text = json_text(key, strlen(key)), *had;
	size_t i;
	bool again = false;
	json_array_foreach(n->keys, i, had) again |= json_equal(json_object_get(had, "key"), text);
	if (again) {
		json_decref(text);
		return 0;
	}
	json_t *o = json_object();
	int rc = json_put(o, "key", text);
	rc = rc ? rc : json_put(o, "sets", json_count(sets));
	rc = rc ? rc : json_put(o, "wide", json_boolean(wide));
	if (json_array_append_new(n->keys, o) || rc)
		return -ENOMEM;
	return 0;
}

static int add_narrow(void *ctx, const char *key, uint32_t sets)
{
	return add_key(ctx, key, sets, false);
}

static int add_wide(struct names *n, struct store *s)
{
	struct store_wide_key k;
	int rc = 0;
	for (size_t i = 0; !rc && store_wide_key(s, i, &k); i++)
		if (k.to_ns == INT64_MAX)
			rc = add_key(n, k.key, k.values, true);
	return rc;
}

/* The names of the events, and the units of those whose hits have values. */
static int put_events(json_t *o, const struct store *s, const bool *visible)
{
	json_t *names = json_array(), *units = json_object();
	int rc = names && units ? 0 : -ENOMEM;
	for (uint32_t i = 0; !rc && i < store_n_events(s); i++) {
		const struct store_event *e = store_event(s, i);
		bool again = !visible[i] || !query_is_profile(e);
		for (uint32_t k = 0; k < i && !again; k++) /* two rates of one event */
			again = !strcmp(store_event(s, k)->name, e->name);
		if (again)
			continue;
		json_t *name = json_text(e->name, strlen(e->name));
		if (name && query_event_has_values(e))
			rc = json_put(units, json_string_value(name), json_string_of(e->unit));
		if (json_array_append_new(names, name))
			rc = -ENOMEM;
	}
	rc = rc ? rc : json_put(o, "events", json_incref(names));
	rc = rc ? rc : json_put(o, "units", json_incref(units));
	json_decref(names);
	json_decref(units);
	return rc;
}

/*
 * The times of the first and the last window, and of the answer: a browser's own clock may be
 * wrong.
 */
static int put_times(json_t *o, struct store *s, struct err *err)
{
	struct store_cover c;
	struct timespec now;
	int rc = store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, err);
	if (rc)
		return rc;
	clock_gettime(CLOCK_REALTIME, &now);
	rc = json_put(o, "from", json_real((double)c.from_ns / 1e9));
	rc = rc ? rc : json_put(o, "to", json_real((double)c.to_ns / 1e9));
	rc = rc ? rc
		: json_put(o, "now", json_real((double)now.tv_sec + (double)now.tv_nsec / 1e9));
	store_cover_free(&c);
	return rc ? rc
		  : json_put(o, "host",
			     json_text(store_meta(s)->host, strlen(store_meta(s)->host)));
}

static int add_visible(struct names *n, struct store *s, struct err *err)
{
	struct found_list l = { 0 };
	int rc = visible_keys(s, &l, err);
	for (size_t i = 0; !rc && i < l.n; i++) {
		char key[256];
		snprintf(key, sizeof(key), "%.*s", (int)l.v[i].label.key_len, l.v[i].label.key);
		rc = add_key(n, key, (uint32_t)l.v[i].values, store_is_wide(s, key));
	}
	found_fini(&l);
	return rc;
}

static int add_names(struct names *n, struct store *s, struct err *err)
{
	if (store_scope(s))
		return add_visible(n, s, err);
	int rc = add_wide(n, s);
	return rc ? rc : store_narrow_keys(s, add_narrow, n, err);
}

static int answer_names(struct request *r, struct store *s, struct err *err)
{
	struct names n = { json_array() };
	bool *visible = NULL;
	int rc = n.keys ? add_names(&n, s, err) : -ENOMEM;
	rc = rc ? rc : visible_events(s, &visible, err);
	json_t *o = json_object();
	rc = rc ? rc : json_put(o, "keys", json_incref(n.keys));
	rc = rc ? rc : put_events(o, s, visible);
	free(visible);
	rc = rc ? rc : put_times(o, s, err);
	json_decref(n.keys);
	if (!rc)
		return request_json(r, o, err);
	json_decref(o);
	return rc == -ENOMEM ? err_set(err, rc, "out of memory") : rc;
}

static int answer_list(struct request *r, struct store *s, struct asked *a, const char *key,
		       struct err *err)
{
	struct query *q = NULL;
	struct found_list l = { 0 };
	if (key) {
		a->spec.keys = &key;
		a->spec.n_keys = 1;
	}
	a->spec.labels = key ? QUERY_KEYS : QUERY_TOTALS;
	int rc = query_open(&q, s, &a->spec, err);
	if (!rc && r->filled && !key)
		rc = found_list_keys(&l, q, r->filled->keys, r->filled->n_keys, err);
	else if (!rc)
		rc = found_collect(&l, s, q, &a->spec, key, err);
	if (!rc) {
		struct answer answer = asked_answer(a, s, &a->spec);
		rc = request_json(r, answer_found(&answer, &l), err);
	}
	found_fini(&l);
	query_close(q);
	return rc;
}

int api_labels(struct request *r, struct store *s, struct err *err)
{
	struct asked a;
	bool names = request_param(r, "names_only") != NULL;
	int rc = asked_parse(&a, r, err);
	if (!rc)
		rc = names ? answer_names(r, s, err) : answer_list(r, s, &a, NULL, err);
	asked_fini(&a);
	return rc;
}

/* ---- table ---- */

static int by_samples(const void *pa, const void *pb)
{
	const struct query_table_row *a = pa, *b = pb;
	if (a->samples != b->samples)
		return a->samples < b->samples ? 1 : -1;
	return (a->self < b->self) - (a->self > b->self);
}

/* No text asked for: all match. */
static bool matches(const struct request *r, const char *name, const char *module)
{
	const char *match = request_param(r, "match");
	return !match || !*match || strcasestr(name, match) ||
	       (module && strcasestr(module, match));
}

/*
 * Only functions with a text in their name or file; by samples instead of self. The table keeps its
 * rows, in another order.
 */
static int narrow(const struct request *r, struct query_table *t, uint64_t *ret_matched,
		  struct err *err)
{
	const char *sort = request_param(r, "sort");
	size_t n = 0;
	if (sort && strcmp(sort, "self") && strcmp(sort, "samples"))
		return err_set(err, -EINVAL, "sort: self or samples");
	for (size_t i = 0; i < t->n_rows; i++) {
		struct query_table_row row = t->rows[i];
		if (!matches(r, row.text ? row.text : "", row.module))
			continue;
		t->rows[i] = t->rows[n];
		t->rows[n++] = row;
	}
	*ret_matched = n;
	if (n && sort && !strcmp(sort, "samples"))
		qsort(t->rows, *ret_matched, sizeof(*t->rows), by_samples);
	return 0;
}

static json_t *with_matched(json_t *o, uint64_t n)
{
	return json_done(o, json_put(o, "n_matched", json_count(n)));
}

/* matched: rows that the parameter `match` names, UINT64_MAX: it is not given. */
static int answer_rows(struct request *r, const struct answer *asked, const struct query *q,
		       const struct query_table *t, uint64_t matched, struct err *err)
{
	struct answer answer = *asked;
	bool all = matched == UINT64_MAX;
	answer.limit = answer.limit < matched ? answer.limit : matched;
	const struct answer_table of = { &answer, q, t };
	const struct json_rows rows = answer_table_rows(&of);
	json_t *o = answer_table(&of);
	return request_json_rows(r, all ? o : with_matched(o, matched), &rows, err);
}

static int answer_top(struct request *r, struct store *s, struct asked *a, bool *ret_done,
		      struct err *err)
{
	struct query_spec spec = a->spec;
	struct query *q = NULL;
	struct query_table *t = NULL;
	spec.labels = QUERY_TOTALS;
	spec.keys = NULL;
	spec.n_keys = 0;
	int rc = query_open(&q, s, &spec, err);
	*ret_done = !rc && query_top_serves(q, a->keys[0]);
	if (*ret_done) {
		struct answer answer = asked_answer(a, s, &a->spec);
		rc = query_top(q, a->keys[0], &t, err);
		rc = rc ? rc : answer_rows(r, &answer, q, t, UINT64_MAX, err);
	}
	query_table_free(t);
	query_close(q);
	return rc;
}

static int table(struct request *r, struct store *s, struct asked *a, struct err *err)
{
	struct query *q = NULL;
	struct query_table *t = NULL;
	bool done = false, all = !a->spec.where || !*a->spec.where;
	int rc = 0;
	if (a->n_keys == 1 && !a->exact && !a->metric && all && store_is_wide(s, a->keys[0]))
		rc = answer_top(r, s, a, &done, err);
	if (rc || done)
		return rc;
	struct answer answer = asked_answer(a, s, &a->spec);
	struct query_lengths *lengths = NULL;
	uint64_t matched = 0;
	const bool has_lengths = query_lengths_serve(s, &a->spec);
	a->spec.parts = has_lengths ? 2 : 1;
	rc = query_open(&q, s, &a->spec, err);
	if (!rc && r->filled && r->filled->by_function)
		rc = query_table_counted(q, &r->filled->functions, &t, err);
	else if (!rc)
		rc = query_table(q, a->spec.keys, a->n_keys, &t, err);
	if (!rc && has_lengths)
		rc = query_lengths(&lengths, s, &a->spec, err);
	answer.lengths = lengths;
	rc = rc ? rc : narrow(r, t, &matched, err);
	matched = request_param(r, "match") ? matched : UINT64_MAX;
	rc = rc ? rc : answer_rows(r, &answer, q, t, matched, err);
	query_lengths_free(lengths);
	query_table_free(t);
	query_close(q);
	return rc;
}

int api_table(struct request *r, struct store *s, struct err *err)
{
	struct asked a;
	int rc = asked_parse(&a, r, err);
	rc = rc ? rc : table(r, s, &a, err);
	asked_fini(&a);
	return rc;
}

/*
 * A table has the values already, each once: for a key with many sets that is tens of times quicker
 * than going through its sets.
 */
static int list_of_table(const struct query *q, const struct query_table *t, const char *key,
			 struct found_list *l)
{
	double ns = (double)answer_event(q)->ns_per_sample;
	l->v = calloc(t->n_rows + 1, sizeof(*l->v));
	if (!l->v)
		return -ENOMEM;
	l->info = *query_info(q);
	for (size_t i = 0; i < t->n_rows; i++) {
		const struct query_table_row *row = &t->rows[i];
		if (row->other || !row->present[0])
			continue;
		l->v[l->n++] = (struct found){ { .key = key,
						 .key_len = (uint32_t)strlen(key),
						 .str = row->values[0],
						 .str_len = (uint32_t)strlen(row->values[0]),
						 .type = LABEL_STRING },
					       1,
					       row->samples,
					       (double)row->samples * ns / 1e9 };
	}
	return 0;
}

static int answer_values(struct request *r, struct store *s, struct asked *a, const char *key,
			 struct err *err)
{
	struct query *q = NULL;
	struct query_table *t = NULL;
	struct found_list l = { 0 };
	a->spec.keys = &key;
	a->spec.n_keys = 1;
	a->spec.labels = QUERY_KEYS;
	int rc = query_open(&q, s, &a->spec, err);
	rc = rc ? rc : query_table(q, &key, 1, &t, err);
	if (!rc && list_of_table(q, t, key, &l))
		rc = err_set(err, -ENOMEM, "out of memory");
	if (!rc) {
		struct answer answer = asked_answer(a, s, &a->spec);
		rc = request_json(r, answer_found(&answer, &l), err);
	}
	found_fini(&l);
	query_table_free(t);
	query_close(q);
	return rc;
}

int api_values(struct request *r, struct store *s, struct err *err)
{
	struct asked a;
	const char *key = request_param(r, "key");
	int rc = asked_parse(&a, r, err);
	if (!rc && (!key || !*key || strlen(key) > 255))
		rc = err_set(err, -EINVAL, "key: which label's values? 1 to 255 bytes");
	if (!rc && a.metric && !strcmp(key, "event"))
		rc = err_set(err, -EINVAL,
			     "key=event: the samples of each event are counted: leave metric out");
	if (!rc)
		rc = strcmp(key, "event") ? answer_values(r, s, &a, key, err)
					  : answer_list(r, s, &a, key, err);
	asked_fini(&a);
	return rc;
}

/* ---- series ---- */

/* A step that gives some hundred points of what is asked for and there. */
static int64_t choose_step(struct store *s, const struct query_spec *spec)
{
	struct store_cover c;
	int64_t from = spec->from_ns, to = spec->to_ns, span = 0;
	if (store_cover(s, from, to, STORE_FOLDED, NULL, 0, &c, NULL))
		return STEP_NS;
	from = c.from_ns > from ? c.from_ns : from;
	to = c.to_ns < to ? c.to_ns : to;
	if (c.n && to > from)
		span = to - from;
	store_cover_free(&c);
	static const int64_t steps[] = { 10,   20,   60,    120,   300,	  600,	 1200,
					 3600, 7200, 14400, 43200, 86400, 604800 };
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (span / SERIES_STEPS <= steps[i] * 1000000000)
			return steps[i] * 1000000000;
	return span / SERIES_STEPS;
}

int api_series(struct request *r, struct store *s, struct err *err)
{
	struct asked a;
	struct query_series *series = NULL;
	int rc = asked_parse(&a, r, err);
	if (!rc && !a.step_ns)
		a.step_ns = choose_step(s, &a.spec);
	struct query_series_spec spec = { .range = a.spec,
					  .keys = a.spec.keys,
					  .n_keys = a.n_keys,
					  .step_ns = a.step_ns,
					  .top = a.limit ? a.limit : SERIES_TOP,
					  .max_steps = SERIES_STEPS_MAX,
					  .exact = a.exact };
	if (!rc && a.limit > 1000)
		rc = err_set(err, -EINVAL, "limit: at most 1000 groups");
	rc = rc ? rc : query_series(&series, s, &spec, err);
	if (!rc) {
		struct answer answer = asked_answer(&a, s, &a.spec);
		rc = request_json(r, answer_series(&answer, series), err);
	}
	query_series_free(series);
	asked_fini(&a);
	return rc;
}

/* ---- diff ---- */

/* Everything was tested; what does not match is only not told. */
static int answer_difference(struct request *r, struct answer_sides *sides, struct query_diff *d,
			     struct err *err)
{
	size_t n = 0;
	for (size_t i = 0; i < d->n_rows; i++) {
		struct query_diff_row row = d->rows[i];
		if (!matches(r, row.text ? row.text : "", row.module))
			continue;
		d->rows[i] = d->rows[n];
		d->rows[n++] = row;
	}
	sides->side[0].limit = sides->side[0].limit < n ? sides->side[0].limit : n;
	const struct answer_diff of = { sides, d };
	const struct json_rows rows = answer_diff_rows(&of);
	json_t *o = answer_diff(&of);
	return request_json_rows(r, request_param(r, "match") ? with_matched(o, n) : o, &rows, err);
}

static int diff(struct request *r, struct store *s, struct asked *a, struct err *err)
{
	struct query_spec spec[2] = { a->spec };
	struct query *q[2] = { NULL, NULL };
	struct query_diff *d = NULL;
	struct query_diff_spec how = { a->spec.keys, a->n_keys, a->inclusive, a->absolute };
	struct answer_sides sides = { .inclusive = a->inclusive, .absolute = a->absolute };
	int rc = asked_against(a, r, &spec[1], err);
	spec[0].by_start = query_takes_starts(spec[0].from_ns, spec[0].to_ns);
	spec[0].parts = spec[1].parts = 3; /* and the difference */
	rc = rc ? rc : query_open(&q[0], s, &spec[0], err);
	if (!rc && query_info(q[0])->event) /* the same on both sides, whatever each would choose */
		spec[0].event = spec[1].event = query_info(q[0])->event->name;
	rc = rc ? rc : query_open(&q[1], s, &spec[1], err);
	rc = rc ? rc : query_diff(&d, q[0], q[1], &how, err);
	rc = rc ? rc : query_diff_shared(s, &spec[0], &spec[1], &sides.shared, err);
	if (!rc) {
		for (int i = 0; i < 2; i++) {
			sides.side[i] = asked_answer(a, s, &spec[i]);
			sides.query[i] = q[i];
		}
		if (a->changes && sides.side[0].limit > d->n_changed)
			sides.side[0].limit = d->n_changed;
		rc = answer_difference(r, &sides, d, err);
	}
	query_diff_free(d);
	query_close(q[0]);
	query_close(q[1]);
	return rc;
}

int api_diff(struct request *r, struct store *s, struct err *err)
{
	struct asked a;
	int rc = asked_parse(&a, r, err);
	rc = rc ? rc : diff(r, s, &a, err);
	asked_fini(&a);
	return rc;
}

/* ---- findings ---- */

#define FINDINGS 12

int api_findings(struct request *r, struct store *s, struct err *err)
{
	struct asked a;
	struct findings *f = NULL;
	int rc = asked_parse(&a, r, err);
	const struct findings_spec spec = { a.spec.where, a.spec.from_ns,
					    a.spec.to_ns, a.keys,
					    a.n_keys,	  a.limit ? a.limit : FINDINGS };
	rc = rc ? rc : query_findings(&f, s, &spec, err);
	if (!rc && r->filled)
		rc = fleet_grown(r->filled, s, spec.where, f, err);
	rc = rc ? rc : request_json(r, answer_findings(f, spec.where), err);
	query_findings_free(f);
	asked_fini(&a);
	return rc;
}

/* ---- why ---- */

int api_why(struct request *r, struct store *s, struct err *err)
{
	struct asked a;
	struct why w;
	json_t *o = NULL;
	int64_t before = INT64_MIN;
	int rc = asked_parse(&a, r, err);
	if (!rc && (!a.spec.where || !*a.spec.where))
		rc = err_set(err, -EINVAL, "where: why what? a selector");
	rc = rc ? rc : asked_time(r, "before", &before, err);
	if (rc) {
		asked_fini(&a);
		return rc;
	}
	a.spec.labels = QUERY_NO_LABELS;
	rc = why_open(&w, s, &a.spec, before, err);
	rc = rc ? rc : answer_why(&w, &o, err);
	rc = rc ? rc : request_json(r, o, err);
	why_close(&w);
	asked_fini(&a);
	return rc;
}

/* ---- stat ---- */

int api_stat(struct request *r, struct store *s, struct err *err)
{
	struct asked a;
	struct account t = { 0 };
	struct query_own own = { 0 };
	int rc = asked_parse(&a, r, err);
	rc = rc ? rc : account_sum(&t, s, a.spec.from_ns, a.spec.to_ns, err);
	rc = rc ? rc : query_own(s, a.spec.from_ns, a.spec.to_ns, &own, err);
	if (r->filled)
		account_forget_cpus(&t);
	rc = rc ? rc : request_json(r, answer_account(s, &t, &own), err);
	query_own_fini(&own);
	account_fini(&t);
	asked_fini(&a);
	return rc;
}
