/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of the Model Context Protocol, as far as tools need it: from a message to its answer,
 * without any I/O. JSON-RPC 2.0; protocol revisions 2025-06-18, 2025-03-26 and 2024-11-05
 * (modelcontextprotocol.io/specification). Batches are refused, as the newest of them asks.
 *
 * Methods: initialize, ping, tools/list, tools/call. Notifications are read and have no answer.
 */
#ifndef ASCRIBE_MCP_SERVER_H
#define ASCRIBE_MCP_SERVER_H

#include "util/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MCP_VERSION "2025-06-18"
#define MCP_LINE_MAX (256 << 10) /* bytes of a message */
#define MCP_TEXT_MAX 4096	 /* of a text argument */
#define MCP_LIST_MAX 8		 /* texts of a list */

enum mcp_type { MCP_TEXT, MCP_TEXTS, MCP_COUNT, MCP_FLAG, MCP_CHOICE };

/* An argument of a tool. The list ends with a name of NULL. */
struct mcp_argument {
	const char *name;
	enum mcp_type type;
	const char *help;
	bool required;
	uint64_t max;		    /* MCP_COUNT: 1 to max */
	const char *const *choices; /* MCP_CHOICE; ends with a NULL */
};

struct mcp_tool {
	const char *name, *help;
	const struct mcp_argument *arguments;
};

struct mcp_server {
	const char *name, *version, *instructions;
	const struct mcp_tool *tools;
	size_t n_tools;
	/*
	 * Run a tool with arguments that were checked: text for the agent, to be freed, and whether
	 * it is an error. -ENOMEM or another errno: there is no answer.
	 */
	int (*call)(void *ctx, const struct mcp_tool *tool, const json_t *arguments,
		    char **ret_text, bool *ret_error);
	void *ctx;
};

/* Answer a message. *ret: a new reference, NULL where none is due. -ENOMEM. */
int mcp_answer(const struct mcp_server *s, const char *text, size_t len, json_t **ret);
/* The answer to a line that was longer than MCP_LINE_MAX. */
json_t *mcp_answer_too_long(void);

/*
 * Are these the arguments that a tool takes? -EINVAL: err says which is wrong, and what it takes.
 */
int mcp_check_arguments(const struct mcp_tool *tool, const json_t *arguments, struct err *err);

#endif
