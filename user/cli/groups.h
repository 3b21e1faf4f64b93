/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of samples by label keys, as rows of a table: the same in every command that has --by. */
#ifndef ASCRIBE_CLI_GROUPS_H
#define ASCRIBE_CLI_GROUPS_H

#include "cli/options.h"

struct group {
	const char *const *values; /* NULL: the row of all others, "(other)" */
	const bool *present;
};

/*
 * A line of heads, then a line per group: what `numbers` prints, then the values in aligned
 * columns. numbers(ctx, i) is for row i, GROUP_HEAD for the heads. -ENOMEM.
 */
#define GROUP_HEAD SIZE_MAX
int groups_print(const struct opt_list *by, const struct group *rows, size_t n, void (*numbers)(void *ctx, size_t i),
		 void *ctx);

/*
 * A function's name, cut to width columns (0: whole), whether all of its calls are inlined ones,
 * and its file, as a table ends a line with them. -ENOMEM.
 */
int function_print(const char *text, const char *module, bool inlined, size_t width);

#define NAME_WIDTH 100 /* columns of a function's name; template arguments easily fill a screen */

#endif
