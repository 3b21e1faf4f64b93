/* SPDX-License-Identifier: Apache-2.0 */
/* The commands, and what each of them needs: options, messages, a store to read. */
#ifndef ASCRIBE_CLI_CMD_H
#define ASCRIBE_CLI_CMD_H

#include "cli/reading.h"
#include "opt/command.h"
#include "opt/filter.h"
#include "opt/message.h"

#define ASCRIBE_VERSION "0.1.0"
#define ASCRIBE_DATE "2026-11-27"

/* argv[0] is the command's name; the result is the exit status. */
#define COMMAND(name, summary) int cmd_##name(int argc, char **argv);
#include "cli/commands.def"
#undef COMMAND

#endif
