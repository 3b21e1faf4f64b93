/* SPDX-License-Identifier: Apache-2.0 */
#include "query/gate.h"

#include "query/gate_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int gate_say(struct gate_result *r, const char *fmt, ...)
{
	va_list ap;
	if (r->n_lines == GATE_LINES_MAX)
		return 0;
	va_start(ap, fmt);
	int n = vasprintf(&r->line[r->n_lines], fmt, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	r->n_lines++;
	return 0;
}

int gate_unknown(struct gate_result *r, const char *why)
{
	r->verdict = GATE_UNKNOWN;
	return gate_say(r, "%s", why);
}

void gate_result_fini(struct gate_result *r)
{
	for (size_t i = 0; i < r->n_lines; i++)
		free(r->line[i]);
	free(r->note);
	*r = (struct gate_result){ 0 };
}

/* ---- the accounting of a recording ---- */

struct counted {
	uint64_t count, of; /* of 0: a share cannot be told */
	bool has_share;
};

static uint64_t sum(const uint64_t *v, size_t n)
{
	uint64_t all = 0;
	for (size_t i = 0; i < n; i++)
		all += v[i];
	return all;
}

static uint64_t lost_while_idle(const struct account *a, const struct store_meta *m)
{
	for (size_t i = 0; i < m->n_lost; i++)
		if (!strcmp(m->lost_names[i], "idle_not_run"))
			return a->all.lost[i];
	return 0;
}

static bool find_flag(const struct account *a, const struct store_meta *m, const char *name,
		      struct counted *ret)
{
	for (size_t i = 0; i < m->n_flagged; i++) {
		if (strcmp(m->flagged_names[i], name))
			continue;
		ret->has_share = strcmp(name, "wait_parts_full") && strcmp(name, "blame_cut");
		if (a)
			ret->count = a->all.flagged[i];
		if (a)
			ret->of = account_base(m, a->all.flagged, a->all.stored, name);
		return true;
	}
	return false;
}

/*
 * Find what a rule is about. a NULL: only whether it is there. `lost` leaves out the losses of idle
 * CPUs: that time was nobody's.
 */
static bool find_count(const struct account *a, const struct store_meta *m, const char *name,
		       struct counted *ret)
{
	*ret = (struct counted){ 0, a ? a->all.fired : 0, true };
	if (!strcmp(name, "fired") || !strcmp(name, "stored") || !strcmp(name, "lost")) {
		if (a && *name == 'l')
			ret->count = sum(a->all.lost, m->n_lost) - lost_while_idle(a, m);
		else if (a)
			ret->count = *name == 'f' ? a->all.fired : a->all.stored;
		return true;
	}
	for (size_t i = 0; i < m->n_lost; i++) {
		if (strcmp(m->lost_names[i], name))
			continue;
		ret->count = a ? a->all.lost[i] : 0;
		return true;
	}
	if (strcmp(name, "labelled"))
		return find_flag(a, m, name, ret);
	bool there = find_flag(a, m, "unlabelled", ret);
	ret->count = ret->of - ret->count;
	return there;
}

int gate_check_account(const struct gate_rule *r, const struct store_meta *m, struct err *err)
{
	struct counted c;
	if (!r->name)
		return err_set(
			err, -EINVAL,
			"expected a counter and a limit, as in lost < 1%%: no matchers here");
	if (!find_count(NULL, m, r->name, &c))
		return err_set(err, -EINVAL,
			       "there is no counter %s: lost, stored, fired, labelled and what "
			       "`ascribe stat --json` lists under lost and flagged are allowed",
			       r->name);
	if (r->unit == GATE_TIMES)
		return err_set(err, -EINVAL, "expected %% or a count behind the number");
	if (r->unit == GATE_PERCENT && !c.has_share)
		return err_set(err, -EINVAL, "%s counts parts of waits: it has no share", r->name);
	if (r->unit == GATE_PERCENT && r->limit > 100)
		return err_set(err, -EINVAL, "a share has at most 100%%");
	return 0;
}

int gate_judge_account(const struct gate_rule *r, const struct account *a,
		       const struct store_meta *m, struct gate_result *ret, struct err *err)
{
	struct counted c;
	int rc = 0;
	*ret = (struct gate_result){ .rule = r };
	find_count(a, m, r->name, &c);
	if (r->unit == GATE_PERCENT && !c.of) {
		rc = gate_unknown(ret, "there is no sample to judge by");
	} else {
		double share = c.of ? 100 * (double)c.count / (double)c.of : 0;
		bool keeps =
			gate_rule_compare(r, r->unit == GATE_PERCENT ? share : (double)c.count);
		ret->verdict = keeps ? GATE_HOLDS : GATE_BROKEN;
		ret->n_broken = !keeps;
		if (!keeps && c.has_share)
			rc = gate_say(ret, "%s is %llu of %llu, %.3f%%", r->name,
				      (unsigned long long)c.count, (unsigned long long)c.of, share);
		else if (!keeps)
			rc = gate_say(ret, "%s is %llu", r->name, (unsigned long long)c.count);
	}
	return rc ? err_sys(err, rc, "gate") : 0;
}
