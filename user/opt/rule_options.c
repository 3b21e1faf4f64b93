/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/rule_options.h"

#include "opt/section.h"
#include "query/selector.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP_DEFAULT 20
#define BUCKETS_BYTES_MAX 1024
/* Buckets where a rule names none: 10 us to 10 s in steps of 1, 2.5 and 5. */
#define BUCKETS_FROM_NS UINT64_C(10000)
#define BUCKETS_TO_NS UINT64_C(10000000000)

static const struct opt section_options[] = {
	{ "metric", 0, OPT_STRING, "METRIC", "cpu, off-cpu or runq",
	  offsetof(struct rule_options, metric), 0, 0 },
	{ "name", 0, OPT_STRING, "NAME",
	  "the counter is ascribe_profile_NAME_seconds_total, others have no _total (default: the "
	  "metric)",
	  offsetof(struct rule_options, name), 0, 0 },
	{ "by", 0, OPT_LIST, "KEY,..", "labels of the series (default: service)",
	  offsetof(struct rule_options, by), 0, 0 },
	{ "where", 0, OPT_STRING, "SELECTOR", "only samples with these labels",
	  offsetof(struct rule_options, where), 0, 0 },
	{ "type", 0, OPT_STRING, "TYPE", "counter (default), histogram or summary",
	  offsetof(struct rule_options, type), 0, 0 },
	{ "buckets", 0, OPT_LIST, "BUCKETS", "of a histogram: " HIST_BOUNDS_SYNTAX,
	  offsetof(struct rule_options, buckets), 0, 0 },
	{ "quantiles", 0, OPT_LIST, "Q,..", "of a summary (default: 0.5, 0.9 and 0.99)",
	  offsetof(struct rule_options, quantiles), 0, 0 },
	{ "top", 0, OPT_UINT, "N", "so many series, and (other) (default 20)",
	  offsetof(struct rule_options, top), 1, RULE_TOP_MAX },
};

static const struct opt_command section = {
	.name = "metrics",
	.opts = section_options,
	.n_opts = sizeof(section_options) / sizeof(section_options[0]),
};

static int find_metric(const char *name, enum query_metric *ret, struct err *err)
{
	static const struct {
		const char *name;
		enum query_metric metric;
	} metrics[] = { { "cpu", QUERY_CPU }, { "off-cpu", QUERY_OFF }, { "runq", QUERY_RUNQ } };
	for (size_t i = 0; name && i < sizeof(metrics) / sizeof(metrics[0]); i++)
		if (!strcmp(metrics[i].name, name)) {
			*ret = metrics[i].metric;
			return 0;
		}
	return err_set(err, -EINVAL, "metric: %s%s%s; there are cpu, off-cpu and runq",
		       name ? "'" : "which one?", name ? name : "", name ? "'" : "");
}

static int check_where(const char *where, struct err *err)
{
	struct selector *s = NULL;
	struct err why = { 0 };
	int rc = selector_parse(&s, where, NULL, &why);
	selector_free(s);
	return rc ? err_set(err, rc, "where: %.400s", why.text) : 0;
}

static int parse_buckets(struct rule_section *s, struct err *err)
{
	const struct opt_list *l = &s->o.buckets;
	char text[BUCKETS_BYTES_MAX] = "";
	size_t len = 0, n = 0;
	for (size_t i = 0; i < l->n && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? "," : "",
					l->v[i]);
	if (len >= sizeof(text))
		return err_set(err, -EINVAL, "buckets: longer than %d bytes",
			       BUCKETS_BYTES_MAX - 1);
	int rc = 0;
	if (l->n)
		rc = hist_bounds_parse(text, true, s->bounds, &n, err);
	else
		n = hist_bounds(BUCKETS_FROM_NS, BUCKETS_TO_NS, s->bounds);
	s->r.bounds = s->bounds;
	s->r.n_bounds = n;
	return rc;
}

static int parse_quantiles(struct rule_section *s, struct err *err)
{
	static const double by_default[] = { 0.5, 0.9, 0.99 };
	const struct opt_list *l = &s->o.quantiles;
	s->r.quantiles = l->n ? s->quantiles : by_default;
	s->r.n_quantiles = l->n ? l->n : sizeof(by_default) / sizeof(by_default[0]);
	if (l->n > RULE_QUANTILES_MAX)
		return err_set(err, -EINVAL, "quantiles: at most %d", RULE_QUANTILES_MAX);
	for (size_t i = 0; i < l->n; i++) {
		char *end;
		const double q = strtod(l->v[i], &end);
		if (*end || end == l->v[i] || !(q >= 0 && q <= 1) ||
		    (i && q <= s->quantiles[i - 1]))
			return err_set(err, -EINVAL,
				       "quantiles: '%.60s'; give ascending numbers from 0 to 1, as "
				       "0.5, 0.99",
				       l->v[i]);
		s->quantiles[i] = q;
	}
	return 0;
}

static int parse_type(struct rule_section *s, struct err *err)
{
	static const char *const names[] = { "counter", "histogram", "summary" };
	int type = RULE_COUNTER;
	for (int i = 0; s->o.type && i <= RULE_SUMMARY; i++)
		type = strcmp(s->o.type, names[i]) ? type : i;
	if (s->o.type && strcmp(s->o.type, names[type]) != 0)
		return err_set(err, -EINVAL,
			       "type: '%.60s'; there are counter, histogram and summary",
			       s->o.type);
	if (s->o.buckets.n && type != RULE_HISTOGRAM)
		return err_set(err, -EINVAL, "buckets: for type: histogram alone");
	if (s->o.quantiles.n && type != RULE_SUMMARY)
		return err_set(err, -EINVAL, "quantiles: for type: summary alone");
	s->r.type = (enum metric_rule_type)type;
	return type == RULE_HISTOGRAM ? parse_buckets(s, err)
	       : type == RULE_SUMMARY ? parse_quantiles(s, err)
				      : 0;
}

/* The lengths of waits are events of their own. */
static int check_event(const struct rule_section *s, struct err *err)
{
	struct selector *of = NULL;
	const bool names = s->r.type != RULE_COUNTER &&
			   !selector_parse(&of, s->o.where, NULL, err) && selector_names_event(of);
	selector_free(of);
	return names ? err_set(err, -EINVAL, "where: not `event` with type: %s; metric chooses it",
			       s->o.type)
		     : 0;
}

int rule_section_parse(struct rule_section *s, const char *text, struct err *err)
{
	static const char *const by_default[] = { "service" };
	*s = (struct rule_section){ .o = { .top = TOP_DEFAULT }, .text = strdup(text) };
	if (!s->text)
		return err_sys(err, -ENOMEM, "metrics");
	int rc = opt_section_parse(&section, "metric", s->text, &s->o, err);
	rc = rc ? rc : find_metric(s->o.metric, &s->r.metric, err);
	rc = rc ? rc : check_where(s->o.where, err);
	rc = rc ? rc : parse_type(s, err);
	rc = rc ? rc : check_event(s, err);
	if (rc)
		return rc;
	snprintf(s->name, sizeof(s->name), "%s", s->o.name ? s->o.name : s->o.metric);
	for (char *c = s->name; !s->o.name && *c; c++)
		*c = *c == '-' ? '_' : *c;
	s->r.name = s->name;
	s->r.keys = s->o.by.n ? (const char *const *)s->o.by.v : by_default;
	s->r.n_keys = s->o.by.n ? s->o.by.n : 1;
	s->r.where = s->o.where;
	s->r.top = (unsigned)s->o.top;
	return metric_rule_check(&s->r, err);
}

void rule_section_fini(struct rule_section *s)
{
	opt_release(&section, &s->o);
	free(s->text);
	*s = (struct rule_section){ 0 };
}
