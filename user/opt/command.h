/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of one command: its options parsed, its help printed. */
#ifndef ASCRIBE_OPT_COMMAND_H
#define ASCRIBE_OPT_COMMAND_H

#include "opt/options.h"

/*
 * opt_parse with its messages printed. True: go on. False: stop with *ret_exit (0 after --help);
 * `out` is released.
 */
bool cmd_parse(const struct opt_command *cmd, int argc, char **argv, void *out,
	       struct opt_args *ret_args, int *ret_exit);

/* What --help prints. */
int cmd_help(const struct opt_command *cmd);

/* The table of a command by the function that runs it, which calls cmd_help for --help. */
const struct opt_command *cmd_table_of(int (*run)(int argc, char **argv));

#endif
