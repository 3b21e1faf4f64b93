/* SPDX-License-Identifier: Apache-2.0 */
/* The manual page, ascribe(1), from the same tables as --help: `ascribe help --man` (make man). */
#ifndef ASCRIBE_CLI_MAN_H
#define ASCRIBE_CLI_MAN_H

#include "cli/options.h"

/* What comes before the commands, and behind them. */
void man_begin(const char *version, FILE *f);
void man_end(FILE *f);

/* One command: synopsis, description, options, examples. */
void man_command(const struct opt_command *cmd, FILE *f);

#endif
