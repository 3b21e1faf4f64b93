/* SPDX-License-Identifier: Apache-2.0 */
/* The tools of `ascribe mcp`: each is a command that reads, with the options that it may have. */
#ifndef ASCRIBE_CLI_MCP_TOOLS_H
#define ASCRIBE_CLI_MCP_TOOLS_H

#include "cli/mcp_run.h"
#include "mcp/server.h"

extern const struct mcp_tool mcp_tools[];
extern const size_t mcp_n_tools;

struct mcp_stores {
	char *const *dirs; /* NULL-terminated: what tools may read, by these names */
	size_t n;
	struct mcp_limits limits;
};

/* mcp_server.call; ctx is a struct mcp_stores. */
int mcp_tools_call(void *ctx, const struct mcp_tool *tool, const json_t *arguments, char **ret_text,
		   bool *ret_error);

#endif
