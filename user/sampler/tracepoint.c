/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/tracepoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES 256u /* of a text, with its end */

/* No part of it leads out of the directory of events. */
static bool is_name(const char *text)
{
	const char *colon = strchr(text, ':');
	return colon && colon > text && colon[1] && !strchr(text, '/') && !strstr(text, "..");
}

static int read_id(const char *path, uint64_t *ret)
{
	char text[32] = "", *end;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES ? -EACCES : -ENOENT;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	*ret = strtoul(text, &end, 10);
	return n > 0 && end != text ? 0 : -ENOENT;
}

int tracepoint_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	static const char *const roots[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	char text[NAME_BYTES], path[NAME_BYTES + 64];
	uint64_t id;
	int rc = -ENOENT;
	if (!q->len || q->len > sizeof(text))
		return err_set(err, -EINVAL, "a tracepoint that cannot be");
	memcpy(text, q->bytes, q->len);
	text[q->len - 1] = 0;
	if (!is_name(text))
		return err_set(err, -EINVAL, "a tracepoint that cannot be");
	const char *colon = strchr(text, ':');
	for (size_t i = 0; rc && i < sizeof(roots) / sizeof(roots[0]); i++) {
		snprintf(path, sizeof(path), "%s/events/%.*s/%s/id", roots[i], (int)(colon - text),
			 text, colon + 1);
		int now = read_id(path, &id);
		rc = rc == -EACCES && now ? rc : now;
	}
	if (rc)
		return err_set(err, rc, "tracepoint '%s'", text);
	memcpy(ret->bytes, &id, sizeof(id));
	ret->len = sizeof(id);
	return 0;
}

int tracepoint_id(const char *text, uint64_t *ret)
{
	const struct keeper_question q = { .bytes = text, .len = strlen(text) + 1 };
	struct keeper_answer a;
	if (!is_name(text))
		return -EINVAL;
	int rc = keeper_ask(tracepoint_op, &q, KEEPER_WAIT_MS, &a, NULL);
	if (!rc)
		memcpy(ret, a.bytes, sizeof(*ret));
	return rc;
}
