/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include "util/passed.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

bool notify_with(const char *text, const int *fds, size_t n_fds)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	union passed room;
	if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(to.sun_path))
		return false;
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
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const bool sent = fd >= 0 && sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
	if (fd >= 0)
		close(fd);
	return sent;
}

bool notify(const char *fmt, ...)
{
	char text[512];
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
