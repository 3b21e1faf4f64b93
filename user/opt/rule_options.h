/* SPDX-License-Identifier: Apache-2.0 */
/* What the members of `metrics:` in the daemon's file mean. */
#ifndef ASCRIBE_OPT_RULE_OPTIONS_H
#define ASCRIBE_OPT_RULE_OPTIONS_H

#include "http/metric_rules.h"
#include "opt/options.h"

struct rule_options {
	const char *name, *metric, *where, *type;
	struct opt_list by, buckets, quantiles;
	uint64_t top;
};

/* A rule of the file; it refers to its own texts. */
struct rule_section {
	char *text;
	char name[64]; /* where none is given: that of the metric */
	uint64_t bounds[HIST_BOUNDS_MAX];
	double quantiles[RULE_QUANTILES_MAX];
	struct rule_options o;
	struct metric_rule r;
};

/*
 * Parse a section (OPT_SECTIONS): a line "name value" for each option, or a metric alone. *ret
 * refers to itself. -EINVAL; to be released either way.
 */
int rule_section_parse(struct rule_section *ret, const char *text, struct err *err);
void rule_section_fini(struct rule_section *s);

#endif
