/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/rule_options.h"

#include "opt/section.h"
#include "query/selector.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP_DEFAULT 20

static const struct opt section_options[] = {
	{ "metric", 0, OPT_STRING, "METRIC", "cpu, off-cpu or runq",
	  offsetof(struct rule_options, metric), 0, 0 },
	{ "name", 0, OPT_STRING, "NAME",
	  "the counter is ascribe_profile_NAME_seconds_total (default: the metric)",
	  offsetof(struct rule_options, name), 0, 0 },
	{ "by", 0, OPT_LIST, "KEY,..", "labels of the series (default: service)",
	  offsetof(struct rule_options, by), 0, 0 },
	{ "where", 0, OPT_STRING, "SELECTOR", "only samples with these labels",
	  offsetof(struct rule_options, where), 0, 0 },
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

int rule_section_parse(struct rule_section *s, const char *text, struct err *err)
{
	static const char *const by_default[] = { "service" };
	*s = (struct rule_section){ .o = { .top = TOP_DEFAULT }, .text = strdup(text) };
	if (!s->text)
		return err_sys(err, -ENOMEM, "metrics");
	int rc = opt_section_parse(&section, "metric", s->text, &s->o, err);
	rc = rc ? rc : find_metric(s->o.metric, &s->r.metric, err);
	rc = rc ? rc : check_where(s->o.where, err);
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
