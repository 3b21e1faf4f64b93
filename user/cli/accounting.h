/* SPDX-License-Identifier: Apache-2.0 */
/* The lines about what was counted, the same in every command. */
#ifndef ASCRIBE_CLI_ACCOUNTING_H
#define ASCRIBE_CLI_ACCOUNTING_H

#include "query/query.h"

#include <stdio.h>

/* "what; host h, os" on stdout. */
void accounting_title(const struct store *s);

/* What became of the samples that fired. lost: all; asleep: those of them of idle CPUs. */
struct accounting {
	uint64_t fired, stored, lost, asleep;
};

/* "complete: 1,978 of 1,980 samples; 2 lost while idle", without the end of the line. */
void accounting_print(FILE *f, const struct accounting *a);
/* At most 1% was lost while a CPU was busy. */
bool accounting_is_complete(const struct accounting *a);

/*
 * Print a line of accounting on stderr. Say more where it matters: reasons of losses over 1%, flags
 * of 5% of the samples, fewer than 100 samples.
 */
void accounting_footer(const struct store *s, const struct query_info *info);

/* The help text of a counter of include/counters.def, "" for a name this version does not know. */
const char *counter_help(const char *name);

uint64_t counter_sum(const uint64_t *counts, size_t n);

#endif
