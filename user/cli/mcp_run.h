/* SPDX-License-Identifier: Apache-2.0 */
/* Run a command of ascribe for an agent, in a child of its own, with bounds on what it says. */
#ifndef ASCRIBE_CLI_MCP_RUN_H
#define ASCRIBE_CLI_MCP_RUN_H

#include <stdbool.h>
#include <stddef.h>

struct mcp_limits {
	size_t bytes;	  /* of text */
	unsigned seconds; /* of time */
};

/*
 * Run run(argc, argv); argv[argc] is NULL. *ret_text, to be freed: what it printed, then its
 * messages, and a line that says what was cut. *ret_error: it ended with another status than
 * EXIT_OK, or not in time. The child is over when this returns. 0 or -errno.
 */
int mcp_run(int (*run)(int argc, char **argv), int argc, char **argv, const struct mcp_limits *l,
	    char **ret_text, bool *ret_error);

#endif
