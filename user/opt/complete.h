/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion of command lines, for the shells (deploy/completion). `ascribe complete -- WORD...`
 * prints what the last word may become, a line each, with a description behind a tab. "@files" and
 * "@dirs" leave it to the shell. All comes from the option tables; keys and values of labels from
 * the store that is named, or is there.
 */
#ifndef ASCRIBE_OPT_COMPLETE_H
#define ASCRIBE_OPT_COMPLETE_H

#include "opt/options.h"

/* The i-th command, its name and what it is for (either may be NULL); NULL: there are fewer. */
typedef const struct opt_command *(*complete_table)(size_t i, const char **ret_name,
						    const char **ret_summary);

/* argv[0] is "complete". Never prints an error: there is nothing to complete then. */
int complete_words(int argc, char **argv, complete_table table);

#endif
