/* SPDX-License-Identifier: Apache-2.0 */
/* Messages from a peer that is not trusted: lines of bounded length from a descriptor. */
#ifndef ASCRIBE_MCP_LINES_H
#define ASCRIBE_MCP_LINES_H

#include "util/buf.h"

#include <stdbool.h>

struct mcp_lines {
	int fd;	    /* borrowed */
	size_t max; /* bytes of a line; the memory used is about twice that */
	struct buf b;
	size_t at; /* where the next line begins in b */
	bool ended;
};

/* What the next line is. */
enum mcp_line { MCP_LINE, MCP_LINE_TOO_LONG, MCP_LINES_END };

/*
 * Wait for a line; *ret_text is borrowed until the next call and has no newline and no NUL behind
 * it. A line that is too long is read to its end and dropped. What ends without a newline is a
 * line. -errno when reading fails; -ENOMEM.
 */
int mcp_lines_next(struct mcp_lines *l, enum mcp_line *ret, const char **ret_text, size_t *ret_len);
void mcp_lines_fini(struct mcp_lines *l);

#endif
