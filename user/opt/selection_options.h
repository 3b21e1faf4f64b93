/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's options that choose cgroups by their labels, and the rate of some. */
#ifndef ASCRIBE_OPT_SELECTION_OPTIONS_H
#define ASCRIBE_OPT_SELECTION_OPTIONS_H

#include "attribute/chooser.h"
#include "opt/options.h"

/* As the command line and the configuration have them; rows: daemon/settings.c. */
struct selection_options {
	struct opt_list select, exclude, rates;
	const char *annotated;
};

/*
 * What the options mean; texts are borrowed. hz: of what no rule names. wanted: the labels of pods
 * that there are. -EINVAL: it is about *ret_option; -ENOMEM. To be released either way.
 */
int selection_options_rules(const struct selection_options *o, unsigned hz,
			    const struct pods_wanted *wanted, struct selection_rules *ret,
			    const char **ret_option, struct err *err);
void selection_options_release(struct selection_rules *r);

/* Do both choose the same? */
bool selection_options_same(const struct selection_options *a, const struct selection_options *b);

#endif
