/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of samples by label keys, as rows of a table: the same in every command that has --by. */
#ifndef ASCRIBE_CLI_GROUPS_H
#define ASCRIBE_CLI_GROUPS_H

#include "opt/options.h"

struct group {
	const char *const *values; /* NULL: the row of all others, "(other)" */
	const bool *present;
};

/*
 * Print a line of heads, then a line per group: what `numbers` prints, then the values in aligned
 * columns. numbers(ctx, i) is for row i, GROUP_HEAD for the heads. room: columns for the values,
 * which are cut to fit; 0: any. -ENOMEM.
 */
#define GROUP_HEAD SIZE_MAX
int groups_print(const struct opt_list *by, const struct group *rows, size_t n, size_t room,
		 void (*numbers)(void *ctx, size_t i), void *ctx);

/*
 * End a line with a function's name, whether all of its calls are inlined, and its file. room:
 * columns for all of it; 0: print it whole. -ENOMEM.
 */
int function_print(const char *text, const char *module, bool inlined, size_t room);

#endif
