/* SPDX-License-Identifier: Apache-2.0 */
/* Judge the growth of rows, and of all of a side, between A and the baseline B. */
#include "query/gate_int.h"
#include "query/stats.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IS_TOTAL(r) ((r)->name && !strcmp((r)->name, "total"))

/* ---- what rules are allowed ---- */

static bool has_key(const char *const *keys, size_t n_keys, const char *key)
{
	for (size_t i = 0; i < n_keys; i++)
		if (!strcmp(keys[i], key))
			return true;
	return !n_keys && (!strcmp(key, "function") || !strcmp(key, "module"));
}

static int not_a_key(size_t n_keys, const char *key, struct err *err)
{
	if (!n_keys)
		return err_set(err, -EINVAL,
			       "%s: rows are by function: function, module or total are allowed, "
			       "or choose --by %s",
			       key, key);
	return err_set(err, -EINVAL, "%s: rows are by the keys of --by: these or total are allowed",
		       key);
}

int gate_check_diff(const struct gate_rule *r, const char *const *keys, size_t n_keys,
		    struct err *err)
{
	struct selector_matcher m;
	if (!keys)
		n_keys = 0;
	if (r->name && !IS_TOTAL(r) &&
	    (!has_key(keys, n_keys, r->name) || (!n_keys && !strcmp(r->name, "module"))))
		return not_a_key(n_keys, r->name, err);
	for (size_t i = 0; r->where && selector_matcher(r->where, i, &m); i++)
		if (!has_key(keys, n_keys, m.key))
			return not_a_key(n_keys, m.key, err);
	if (r->op == GATE_LESS || r->op == GATE_LESS_EQUAL)
		return err_set(err, -EINVAL,
			       "a rule of diff says which growth fails: write > instead of <");
	if (r->unit == GATE_COUNT)
		return err_set(err, -EINVAL,
			       "expected %% or x behind the number: function > 2%% is 2 percentage "
			       "points of all samples, function > 1.1x is 1.1 times the CPU time");
	if (r->unit == GATE_TIMES && r->limit < 1)
		return err_set(err, -EINVAL, "a growth is at least 1x");
	return 0;
}

/* ---- which rows a rule is about ---- */

static int match_virtual(struct selector *w, const char *key, const char *value, bool *match,
			 struct err *err)
{
	if (*match && !strcmp(key, "event"))
		return selector_match_event(w, value, match, err);
	if (*match && !strcmp(key, "wait"))
		return selector_match_wait(w, value, match, err);
	return 0;
}

static struct label label_of(const char *key, const char *value)
{
	return (struct label){ .type = LABEL_STRING,
			       .key = key,
			       .key_len = (uint32_t)strlen(key),
			       .str = value,
			       .str_len = (uint32_t)strlen(value) };
}

static int matches(const struct gate_rule *r, const struct gate_sides *s,
		   const struct query_diff_row *row, bool *ret, struct err *err)
{
	struct label v[SELECTOR_KEYS_MAX];
	size_t n = 0;
	*ret = !row->other;
	if (row->other || r->name)
		return 0;
	if (!s->keys) {
		v[n++] = label_of("function", row->text);
		v[n++] = label_of("module", row->module);
	}
	for (size_t i = 0; s->keys && i < s->n_keys && n < SELECTOR_KEYS_MAX; i++)
		if (row->present[i])
			v[n++] = label_of(s->keys[i], row->values[i]);
	int rc = selector_match(r->where, v, labels_normalize(v, n), ret, err);
	for (size_t i = 0; !rc && s->keys && i < s->n_keys; i++)
		rc = match_virtual(r->where, s->keys[i], row->present[i] ? row->values[i] : "", ret,
				   err);
	return rc;
}

/* ---- growth ---- */

/* In the unit of the limit: points of the share, or times. */
struct growth {
	double seen, low; /* low: certain to be at least so much */
};

static struct growth share_growth(const struct query_diff *d, const struct query_diff_row *row,
				  double z)
{
	double low, high;
	stats_change_interval(row->count[0], d->samples[0], row->count[1], d->samples[1], z, &low,
			      &high);
	return (struct growth){ 100 * row->change, 100 * low };
}

static struct growth amount_growth(const struct gate_sides *s, const uint64_t count[2], double z)
{
	const double *e = s->exposure;
	double a = (double)count[0] / e[0], b = (double)count[1] / e[1];
	return (struct growth){ b > 0	? a / b
				: a > 0 ? INFINITY
					: 1,
				stats_rate_ratio_low(count[0], e[0], count[1], e[1], z) };
}

static char *row_name(const struct gate_sides *s, const struct query_diff_row *row)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	if (!f)
		return NULL;
	const char *base = s->keys ? NULL : strrchr(row->module, '/');
	if (!s->keys)
		fprintf(f, *row->module ? "%s (%s)" : "%s", row->text,
			base ? base + 1 : row->module);
	for (size_t i = 0; s->keys && i < s->n_keys; i++)
		fprintf(f, row->present[i] ? "%s%s=\"%s\"" : "%s%s=(none)", i ? ", " : "",
			s->keys[i], row->present[i] ? row->values[i] : "");
	if (!fclose(f))
		return text;
	free(text);
	return NULL;
}

static int say_row(const struct gate_sides *s, const struct query_diff_row *row,
		   const struct growth *g, bool points, struct gate_result *ret)
{
	char *name = row_name(s, row);
	int rc = name ? 0 : -ENOMEM;
	if (!rc && points)
		rc = gate_say(ret, "%s: %.2f%% -> %.2f%%, %+.2f points, certainly %+.2f", name,
			      100 * row->share[1], 100 * row->share[0], g->seen, g->low);
	else if (!rc && isfinite(g->seen))
		rc = gate_say(ret, "%s: %.3f times the CPU time, certainly %.3f", name, g->seen,
			      g->low);
	else if (!rc)
		rc = gate_say(ret, "%s: not there before", name);
	free(name);
	return rc;
}

/* Could this row break the rule at all? Only such rows share the error. */
static bool is_candidate(const struct gate_rule *r, const struct query_diff_row *row)
{
	return row->count[0] && (r->unit == GATE_TIMES || 100 * row->share[0] > r->limit);
}

struct judge {
	const struct gate_rule *r;
	const struct gate_sides *s;
	struct gate_result *ret;
	bool *match; /* of each row */
	size_t n_matched;
	double z, noise; /* noise: the most that a row's growth is above its certain one */
};

static int find_rows(struct judge *j, struct err *err)
{
	const struct query_diff *d = j->s->d;
	size_t candidates = 0;
	j->match = calloc(d->n_rows + 1, sizeof(*j->match));
	if (!j->match)
		return -ENOMEM;
	for (size_t i = 0; i < d->n_rows; i++) {
		int rc = matches(j->r, j->s, &d->rows[i], &j->match[i], err);
		if (rc)
			return rc;
		j->n_matched += j->match[i];
		candidates += j->match[i] && is_candidate(j->r, &d->rows[i]);
	}
	j->z = stats_normal_z(GATE_ERROR / (double)(candidates ? candidates : 1));
	return 0;
}

/* points: the growth is a difference, not a ratio. */
static bool is_broken(struct judge *j, const struct growth *g, bool points)
{
	double noise = points ? g->seen - g->low : g->seen / g->low;
	bool broken = gate_rule_compare(j->r, g->low);
	j->ret->n_broken += broken;
	j->ret->n_unsure += !broken && gate_rule_compare(j->r, g->seen);
	if (isfinite(noise) && noise > j->noise)
		j->noise = noise;
	return broken;
}

static int judge_rows(struct judge *j)
{
	bool points = j->r->unit == GATE_PERCENT;
	for (size_t i = 0; i < j->s->d->n_rows; i++) {
		const struct query_diff_row *row = &j->s->d->rows[i];
		if (!j->match[i])
			continue;
		struct growth g = points ? share_growth(j->s->d, row, j->z)
					 : amount_growth(j->s, row->count, j->z);
		int rc = is_broken(j, &g, points) ? say_row(j->s, row, &g, points, j->ret) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

/* Of the total a limit of 10% is a ratio of 1.1. */
static int judge_total(struct judge *j)
{
	struct gate_rule ratio = *j->r;
	struct growth g = amount_growth(j->s, j->s->d->samples, stats_normal_z(GATE_ERROR));
	if (ratio.unit == GATE_PERCENT)
		ratio.limit = 1 + ratio.limit / 100;
	j->ret->n_broken = gate_rule_compare(&ratio, g.low);
	j->ret->n_unsure = !j->ret->n_broken && gate_rule_compare(&ratio, g.seen);
	j->noise = g.seen / g.low;
	return j->ret->n_broken ? gate_say(j->ret, "total: %.3f times the CPU time, certainly %.3f",
					   g.seen, g.low)
				: 0;
}

static int add_note(struct judge *j)
{
	bool points = j->r->unit == GATE_PERCENT && !IS_TOTAL(j->r);
	struct gate_result *ret = j->ret;
	int n = points ? asprintf(&ret->note, "a growth by less than %.2f points may be noise",
				  j->noise)
		       : asprintf(&ret->note, "a growth to less than %.3f times may be noise",
				  j->noise);
	if (n < 0)
		ret->note = NULL;
	return n < 0 ? -ENOMEM : 0;
}

static int judge(struct judge *j, struct err *err)
{
	const struct query_diff *d = j->s->d;
	for (int side = 0; side < 2; side++)
		if (!d->samples[side])
			return gate_unknown(j->ret, side ? "B has no samples" : "A has no samples");
	int rc = IS_TOTAL(j->r) ? judge_total(j) : find_rows(j, err);
	if (!rc && !IS_TOTAL(j->r)) {
		if (!j->n_matched)
			return gate_unknown(j->ret, "no row of A or B is called so");
		rc = judge_rows(j);
	}
	j->ret->verdict = j->ret->n_broken ? GATE_BROKEN : GATE_HOLDS;
	if (!rc && !j->ret->n_broken && j->s->bounded && !IS_TOTAL(j->r))
		rc = gate_unknown(j->ret,
				  "the answer was cut to fit its memory: give more with --memory");
	return rc ? rc : add_note(j);
}

int gate_judge_diff(const struct gate_rule *r, const struct gate_sides *s, struct gate_result *ret,
		    struct err *err)
{
	struct judge j = { .r = r, .s = s, .ret = ret, .noise = 0 };
	*ret = (struct gate_result){ .rule = r };
	int rc = judge(&j, err);
	free(j.match);
	if (rc)
		gate_result_fini(ret);
	return rc == -ENOMEM ? err_sys(err, rc, "gate") : rc;
}
