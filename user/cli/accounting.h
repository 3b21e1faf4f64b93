/* SPDX-License-Identifier: Apache-2.0 */
/* The lines and JSON members about what was counted, the same in every command. */
#ifndef ASCRIBE_CLI_ACCOUNTING_H
#define ASCRIBE_CLI_ACCOUNTING_H

#include "export/json.h"
#include "query/query.h"

/* {"name": count, ...} */
json_t *accounting_json(const char *const *names, const uint64_t *counts, size_t n);

/* fired, stored, lost, flagged, idle, outside, own of the query's range. -ENOMEM. */
int accounting_add(json_t *object, const struct store *s, const struct query_info *info);

/* "what; host h, os" on stdout. */
void accounting_title(const struct store *s);

/* On stderr: losses, unlabelled and truncated shares, a warning below 100 samples. */
void accounting_footer(const struct store *s, const struct query_info *info);

/* The help text of a counter of include/counters.def, "" for a name this version does not know. */
const char *counter_help(const char *name);

uint64_t counter_sum(const uint64_t *counts, size_t n);

#endif
