/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of a comparison: rows with both sides, what changed, and how sure that is. */
#include "export/answer_int.h"

#include <errno.h>
#include <math.h>

const char *const answer_verdicts[] = {
	[DIFF_NOISE] = "noise", [DIFF_MORE] = "more", [DIFF_LESS] = "less"
};

static json_t *pair(json_t *a, json_t *b)
{
	return a && b ? json_pack("[o,o]", a, b) : NULL;
}

static json_t *reals(double a, double b)
{
	return pair(json_real(a), json_real(b));
}

/* CPUs in use, or events per second. */
static double amount(const struct answer_sides *s, int side, const struct query_diff_row *r)
{
	double ns = (double)answer_event(s->query[side])->ns_per_sample;
	return ns > 0 ? r->rate[side] * ns / 1e9 : r->rate[side];
}

static int add_name(json_t *o, const struct answer *a, const struct query_diff_row *r)
{
	if (a->n_keys)
		return json_put(o, "key",
				r->other ? json_null()
					 : answer_key(a->keys, a->n_keys, r->values, r->present));
	int rc = json_put(o, "function", json_string_of(r->text));
	return rc ? rc : json_put(o, "module", json_string_of(r->module));
}

static json_t *diff_row(const void *ctx, size_t i)
{
	const struct answer_diff *of = ctx;
	const struct answer_sides *s = of->s;
	const struct query_diff_row *r = &of->d->rows[i];
	const struct query *a = s->query[0], *b = s->query[1];
	json_t *o = json_object();
	int rc = add_name(o, &s->side[0], r);
	rc = rc ? rc
		: json_put(o, "samples",
			   pair(json_count(r->samples[0]), json_count(r->samples[1])));
	rc = rc ? rc : json_put(o, "self", pair(json_count(r->self[0]), json_count(r->self[1])));
	rc = rc ? rc
		: json_put(o, "seconds",
			   reals(answer_seconds(a, r->samples[0]),
				 answer_seconds(b, r->samples[1])));
	rc = rc ? rc
		: json_put(o, "self_seconds",
			   reals(answer_seconds(a, r->self[0]), answer_seconds(b, r->self[1])));
	rc = rc ? rc : json_put(o, "share", reals(r->share[0], r->share[1]));
	rc = rc ? rc : json_put(o, "rate", reals(amount(s, 0, r), amount(s, 1, r)));
	rc = rc ? rc : json_put(o, "change", json_real(r->change));
	rc = rc ? rc : json_put(o, "low", json_real(r->low));
	rc = rc ? rc : json_put(o, "high", json_real(r->high));
	rc = rc ? rc : json_put(o, "ratio", isfinite(r->ratio) ? json_real(r->ratio) : json_null());
	rc = rc ? rc : json_put(o, "p", json_real(r->p));
	rc = rc ? rc : json_put(o, "q", json_real(r->q));
	rc = rc ? rc : json_put(o, "tested", json_boolean(r->tested));
	rc = rc ? rc : json_put(o, "verdict", json_string(answer_verdicts[r->verdict]));
	if (r->other)
		rc = rc ? rc : json_put(o, "other", json_true());
	return json_done(o, rc);
}

static json_t *side_json(const struct answer *a, const struct query *q)
{
	const struct query_info *info = query_info(q);
	json_t *o = json_object();
	int rc = json_put(o, "store", json_string_of(a->dir));
	rc = rc ? rc : json_put(o, "where", json_string_of(a->where));
	rc = rc ? rc : json_put(o, "from", json_time(info->from_ns));
	rc = rc ? rc : json_put(o, "to", json_time(info->to_ns));
	rc = rc ? rc : json_put(o, "covered", json_time(info->covered_ns));
	rc = rc ? rc : answer_add_sum(o, info);
	rc = rc ? rc : answer_add_read(o, info);
	rc = rc ? rc : answer_accounting(o, a->store, info);
	return json_done(o, rc);
}

struct json_rows answer_diff_rows(const struct answer_diff *of)
{
	size_t n = of->d->n_rows, limit = of->s->side[0].limit;
	return (struct json_rows){ n < limit ? n : limit, diff_row, of };
}

json_t *answer_diff(const struct answer_diff *of)
{
	const struct answer_sides *s = of->s;
	const struct query_diff *d = of->d;
	const struct store_event *event = answer_event(s->query[0]);
	const struct answer *a = &s->side[0];
	json_t *o = json_object();
	int rc = json_put(o, "n_rows", json_count(d->n_rows));
	rc = rc ? rc : json_put(o, "n_tested", json_count(d->n_tested));
	rc = rc ? rc : json_put(o, "n_changed", json_count(d->n_changed));
	rc = rc ? rc : json_put(o, "compared", json_string(s->absolute ? "rate" : "share"));
	rc = rc ? rc
		: json_put(o, "of", json_string(a->n_keys || s->inclusive ? "samples" : "self"));
	rc = rc ? rc : json_put(o, "threshold", json_real(QUERY_DIFF_RATE));
	rc = rc ? rc : json_put(o, "shared", json_count(s->shared));
	rc = rc ? rc : json_put(o, "event", json_string_of(event->name));
	rc = rc ? rc : json_put(o, "unit", json_string_of(event->unit));
	if (query_info(s->query[0])->bounded || query_info(s->query[1])->bounded)
		rc = rc ? rc : json_put(o, "bounded", json_true());
	rc = rc ? rc : json_put(o, "a", side_json(a, s->query[0]));
	rc = rc ? rc : json_put(o, "b", side_json(&s->side[1], s->query[1]));
	return json_done(o, rc);
}
