/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: what an agent sends to `ascribe mcp`, from bytes to answers, in lines of up to 4,608
 * bytes. Each answer is a message of JSON-RPC, and the tool is run with arguments that it takes.
 *
 * Covers: mcp/lines.c mcp/server.c mcp/arguments.c
 */
#include "fuzz/input.h"
#include "mcp/lines.h"
#include "mcp/server.h"

#include <errno.h>

#define LINE_MAX_HERE 4608 /* room for an argument that is too long */

static const char *const choices[] = { "cpu", "off", NULL };
static const struct mcp_argument arguments[] = {
	{ "where", MCP_TEXT, "which", true, 0, NULL },
	{ "by", MCP_TEXTS, "keys", false, 0, NULL },
	{ "limit", MCP_COUNT, "rows", false, 50, NULL },
	{ "idle", MCP_FLAG, "idle", false, 0, NULL },
	{ "metric", MCP_CHOICE, "what", false, 0, choices },
	{ NULL, MCP_FLAG, NULL, false, 0, NULL },
};
static const struct mcp_tool tools[] = { { "report", "a table", arguments } };

static int call(void *ctx, const struct mcp_tool *tool, const json_t *given, char **ret_text,
		bool *ret_error)
{
	const json_t *limit = json_object_get(given, "limit");
	(void)ctx;
	require(tool == tools && json_is_string(json_object_get(given, "where")));
	require(!limit || (json_integer_value(limit) >= 1 && json_integer_value(limit) <= 50));
	require(json_object_size(given) <= 5);
	*ret_error = limit && json_integer_value(limit) == 7;
	*ret_text = fuzz_denies() ? NULL : strdup("said \xff\n");
	return *ret_text ? 0 : -ENOMEM;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct mcp_server server = { .name = "ascribe",
						  .version = "1",
						  .instructions = "read",
						  .tools = tools,
						  .n_tools = 1,
						  .call = call };
	struct mcp_lines lines = { .fd = memfd_create("lines", MFD_CLOEXEC), .max = LINE_MAX_HERE };
	enum mcp_line kind;
	const char *text;
	size_t len;
	json_set_alloc_funcs(fuzz_malloc, free);
	require(lines.fd >= 0 && pwrite(lines.fd, data, size, 0) == (ssize_t)size);
	while (!mcp_lines_next(&lines, &kind, &text, &len) && kind != MCP_LINES_END) {
		json_t *answer = NULL;
		if (kind == MCP_LINE_TOO_LONG) {
			answer = mcp_answer_too_long();
		} else {
			require(len <= LINE_MAX_HERE && !memchr(text, '\n', len));
			if (mcp_answer(&server, text, len, &answer))
				require(false);
		}
		require(!answer ||
			(!json_object_get(answer, "result") != !json_object_get(answer, "error")));
		json_decref(answer);
	}
	mcp_lines_fini(&lines);
	close(lines.fd);
	return 0;
}
