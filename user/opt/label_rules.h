/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options --label-keep, --label-drop, --label-redact and --label-credentials, of record and of
 * the daemon.
 */
#ifndef ASCRIBE_OPT_LABEL_RULES_H
#define ASCRIBE_OPT_LABEL_RULES_H

#include "labels/filter.h"
#include "opt/options.h"

struct label_rules {
	struct opt_list keep, drop, redact;
	bool credentials; /* what looks like some is kept */
};

/* *ret stays NULL where there is no rule. -EINVAL, -E2BIG: one makes no sense. */
int label_rules_filter(const struct label_rules *r, struct label_filter **ret, struct err *err);

/* Do both say the same, in the same words? */
bool label_rules_same(const struct label_rules *a, const struct label_rules *b);

#endif
