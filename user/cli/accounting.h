/* SPDX-License-Identifier: Apache-2.0 */
/* The lines about what was counted, the same in every command. */
#ifndef ASCRIBE_CLI_ACCOUNTING_H
#define ASCRIBE_CLI_ACCOUNTING_H

#include "query/query.h"

/* "what; host h, os" on stdout. */
void accounting_title(const struct store *s);

/* On stderr: losses, unlabelled and truncated shares, a warning below 100 samples. */
void accounting_footer(const struct store *s, const struct query_info *info);

/* The help text of a counter of include/counters.def, "" for a name this version does not know. */
const char *counter_help(const char *name);

uint64_t counter_sum(const uint64_t *counts, size_t n);

#endif
