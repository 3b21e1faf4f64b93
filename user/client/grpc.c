/* SPDX-License-Identifier: Apache-2.0 */
#include "client/grpc.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

int grpc_wrap(struct buf *b, const void *message, size_t len)
{
	const uint8_t frame[GRPC_FRAME] = { 0, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
					    (uint8_t)(len >> 8), (uint8_t)len };
	b->len = 0;
	int rc = buf_add(b, frame, sizeof(frame));
	return rc ? rc : buf_add(b, message, len);
}

int grpc_unwrap(struct buf *b, const char **ret_why)
{
	const uint8_t *p = b->data;
	if (b->len < GRPC_FRAME) {
		*ret_why = "its answer has no message";
		return -EBADMSG;
	}
	if (p[0]) {
		*ret_why = "its message is compressed, which was not asked for";
		return -EBADMSG;
	}
	size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	if (len != b->len - GRPC_FRAME) {
		*ret_why = "its answer is not one whole message";
		return -EBADMSG;
	}
	memmove(b->data, b->data + GRPC_FRAME, len);
	b->len = len;
	return 0;
}

/* The value of the header, without spaces around it; NULL: the line is of another one. */
static const char *value_of(const char *name, const char *line, size_t len, size_t *ret_len)
{
	size_t n = strlen(name);
	if (len <= n || strncasecmp(line, name, n) || line[n] != ':')
		return NULL;
	const char *v = line + n + 1, *end = line + len;
	while (v < end && (*v == ' ' || *v == '\t'))
		v++;
	while (end > v && strchr(" \t\r\n", end[-1]))
		end--;
	*ret_len = (size_t)(end - v);
	return v;
}

void grpc_header(struct grpc_end *e, const char *line, size_t len)
{
	size_t n;
	const char *v = value_of("grpc-status", line, len, &n);
	if (v) {
		int status = n ? 0 : -1;
		for (size_t i = 0; i < n && status >= 0; i++) {
			status = v[i] >= '0' && v[i] <= '9' ? 10 * status + v[i] - '0' : -1;
			status = status > GRPC_STATUS_MAX ? -1 : status;
		}
		e->status = status;
		return;
	}
	v = value_of("grpc-message", line, len, &n);
	if (v) {
		n = n < sizeof(e->message) ? n : sizeof(e->message) - 1;
		memcpy(e->message, v, n);
		e->message[n] = '\0';
	}
}
