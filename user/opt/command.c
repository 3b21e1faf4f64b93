/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/command.h"

#include "opt/message.h"
#include "opt/term.h"

/* Not NULL: --help hands over the command's table instead of printing it */
static const struct opt_command **asked_for;

int cmd_help(const struct opt_command *cmd)
{
	if (asked_for) {
		*asked_for = cmd;
		return EXIT_OK;
	}
	term_page();
	opt_print_help(cmd, stdout);
	return EXIT_OK;
}

bool cmd_parse(const struct opt_command *cmd, int argc, char **argv, void *out,
	       struct opt_args *ret_args, int *ret_exit)
{
	struct err err = { 0 };
	int rc = opt_parse(cmd, argc, argv, out, ret_args, &err);
	if (!rc && cmd->pages)
		term_page();
	if (!rc)
		return true;
	opt_release(cmd, out);
	if (rc == OPT_HELP) {
		*ret_exit = cmd_help(cmd);
	} else {
		cmd_error("%s: %s (see ascribe %s --help)", cmd->name, err.text, cmd->name);
		*ret_exit = EXIT_USAGE;
	}
	return false;
}

const struct opt_command *cmd_table_of(int (*run)(int argc, char **argv))
{
	char name[] = "", help[] = "--help";
	char *args[] = { name, help, NULL };
	const struct opt_command *table = NULL;
	asked_for = &table;
	run(2, args);
	asked_for = NULL;
	return table;
}
