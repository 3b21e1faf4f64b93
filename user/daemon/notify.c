/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include "util/passed.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES 512

/* Refuse all other lines: with MAINPID= systemd would end any process in place of this one. */
static bool may_say(const char *text)
{
	static const char *const known[] = {
		"READY=1",	"STOPPING=1",	   "RELOADING=1",
		"WATCHDOG=1",	"FDSTORE=1",	   "FDSTOREREMOVE=1",
		"STATUS=",	"MONOTONIC_USEC=", "EXTEND_TIMEOUT_USEC=",
		"FDNAME=listen"
	};
	for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
		bool good = false;
		end = line + strcspn(line, "\n");
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			good |= !strncmp(line, known[i], strlen(known[i]));
		if (!good)
			return false;
	}
	return true;
}

static int send_text(const char *text, const int *fds, size_t n_fds)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	union passed room;
	if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(to.sun_path))
		return -ENOENT;
	const size_t len = strlen(path);
	memcpy(to.sun_path, path, len);
	if (path[0] == '@') /* the abstract namespace */
		to.sun_path[0] = 0;
	struct iovec iov = { (void *)(uintptr_t)text, strlen(text) };
	struct msghdr m = { .msg_name = &to,
			    .msg_namelen =
				    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len),
			    .msg_iov = &iov,
			    .msg_iovlen = 1 };
	passed_attach(&m, &room, fds, n_fds);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = fd < 0 ? -errno : 0;
	if (!rc && sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		rc = -errno;
	if (fd >= 0)
		close(fd);
	return rc;
}

int notify_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	char text[TEXT_BYTES];
	(void)ret;
	if (!q->len || q->len > sizeof(text))
		return err_set(err, -EBADMSG, "a notification that cannot be");
	memcpy(text, q->bytes, q->len);
	text[q->len - 1] = 0;
	if (!may_say(text))
		return err_set(err, -EBADMSG, "a notification that cannot be");
	int rc = send_text(text, q->fds, q->n_fds);
	return rc ? err_sys(err, rc, "notifying systemd") : 0;
}

bool notify_with(const char *text, const int *fds, size_t n_fds)
{
	const struct keeper_question q = { text, strlen(text) + 1, fds, n_fds };
	struct keeper_answer a;
	return getenv("NOTIFY_SOCKET") && !keeper_ask(notify_op, &q, KEEPER_WAIT_MS, &a, NULL);
}

bool notify(const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return n >= 0 && notify_with(text, NULL, 0);
}

void notify_reloading(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	notify("RELOADING=1\nMONOTONIC_USEC=%lld",
	       (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000);
}
