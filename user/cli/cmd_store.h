/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of `ascribe store` that make stores of others; cmd_store.c has the options and the
 * other verbs. */
#ifndef ASCRIBE_CLI_CMD_STORE_H
#define ASCRIBE_CLI_CMD_STORE_H

#include "cli/cmd.h"

struct store_command {
	const char *output, *where;
	int64_t from_ns, to_ns;
	const char *const *dirs; /* at least one */
	size_t n_dirs;
};

/* The results are exit statuses. */
int store_command_snapshot(const struct store_command *c);
int store_command_merge(const struct store_command *c);
int store_command_delete(const struct store_command *c);

#endif
