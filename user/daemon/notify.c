/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include "sandbox/confine.h"
#include "util/packet.h"
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

/* Until the recorder has ended. What is not notified now is not, as when the recorder did it. */
static _Noreturn void run(int fd)
{
	char text[TEXT_BYTES + 1];
	int fds[PASSED_MAX];
	size_t len, n;
	confine_signals();
	if (confine_rights(ROLE_NOTIFIER, fd))
		_exit(1);
	for (;;) {
		int rc = packet_recv(fd, text, TEXT_BYTES, &len, fds, PASSED_MAX, &n, 0);
		if (rc == -EBADMSG)
			continue;
		if (rc || !len)
			_exit(rc != 0);
		text[len] = 0;
		if (strlen(text) == len && may_say(text))
			(void)send_text(text, fds, n);
		for (size_t i = 0; i < n; i++)
			close(fds[i]);
	}
}

static int notifier = -1;

int notify_start(struct err *err)
{
	int pair[2];
	if (!getenv("NOTIFY_SOCKET"))
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return err_sys(err, -errno, "notifying systemd: socketpair");
	const pid_t pid = fork();
	if (!pid)
		run(pair[1]);
	const int rc = pid < 0 ? err_sys(err, -errno, "notifying systemd: fork") : 0;
	close(pair[1]);
	if (rc)
		close(pair[0]);
	else
		notifier = pair[0];
	return rc;
}

bool notify_with(const char *text, const int *fds, size_t n_fds)
{
	return notifier >= 0 && !packet_send(notifier, text, strlen(text), NULL, 0, fds, n_fds);
}

bool notify(const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return n > 0 && notify_with(text, NULL, 0);
}

void notify_reloading(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	notify("RELOADING=1\nMONOTONIC_USEC=%lld",
	       (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000);
}
