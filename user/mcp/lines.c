/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 16384

static int read_more(struct mcp_lines *l)
{
	uint8_t chunk[CHUNK];
	ssize_t n;
	do
		n = read(l->fd, chunk, sizeof(chunk));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	l->ended = !n;
	return buf_add(&l->b, chunk, (size_t)n);
}

/* Drop what was handed out, so that the buffer holds one line at most, and a chunk. */
static void drop_read(struct mcp_lines *l)
{
	memmove(l->b.data, l->b.data + l->at, l->b.len - l->at);
	l->b.len -= l->at;
	l->at = 0;
}

int mcp_lines_next(struct mcp_lines *l, enum mcp_line *ret, const char **ret_text, size_t *ret_len)
{
	bool too_long = false;
	size_t seen = 0; /* bytes that have no newline */
	if (l->at)
		drop_read(l);
	for (;;) {
		const uint8_t *end =
			l->b.len > seen ? memchr(l->b.data + seen, '\n', l->b.len - seen) : NULL;
		size_t len = end ? (size_t)(end - l->b.data) : l->b.len;
		too_long |= len > l->max;
		if (end || (l->ended && len)) {
			l->at = len + !!end;
			*ret = too_long ? MCP_LINE_TOO_LONG : MCP_LINE;
			*ret_text = (const char *)l->b.data;
			*ret_len = len;
			return 0;
		}
		if (l->ended) {
			*ret = too_long ? MCP_LINE_TOO_LONG : MCP_LINES_END;
			return 0;
		}
		if (too_long)
			l->b.len = 0;
		seen = l->b.len;
		int rc = read_more(l);
		if (rc)
			return rc;
	}
}

void mcp_lines_fini(struct mcp_lines *l)
{
	buf_fini(&l->b);
}
