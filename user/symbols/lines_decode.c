/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of lines.c, as the recorder reads them: they come from a worker that may lie. */
#include "symbols/lines.h"

#include <errno.h>
#include <string.h>

static int take_text(struct cursor *c, const char **ret, size_t *ret_len)
{
	size_t len = cursor_u32(c);
	const uint8_t *p = len <= LINE_TEXT_MAX ? cursor_bytes(c, len) : NULL;
	if (!p)
		return -EBADMSG;
	*ret = (const char *)p;
	*ret_len = len;
	return memchr(p, 0, len) ? -EBADMSG : 0;
}

int lines_decode(struct cursor *c, struct line_frame out[LINE_FRAMES_MAX], size_t *ret_n)
{
	size_t n = cursor_u32(c);
	if (c->bad || n > LINE_FRAMES_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < n; i++) {
		struct line_frame *f = &out[i];
		int rc = take_text(c, &f->function, &f->function_len);
		rc = rc ? rc : take_text(c, &f->file, &f->file_len);
		f->line = cursor_u32(c);
		if (rc || c->bad)
			return -EBADMSG;
	}
	*ret_n = n;
	return 0;
}
