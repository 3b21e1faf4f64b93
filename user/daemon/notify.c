/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void notify(const char *fmt, ...)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char text[512];
	va_list ap;
	if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(to.sun_path))
		return;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	size_t len = strlen(path);
	memcpy(to.sun_path, path, len);
	if (path[0] == '@') /* the abstract namespace */
		to.sun_path[0] = 0;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || n < 0)
		return;
	sendto(fd, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1,
	       MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&to,
	       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	close(fd);
}

void notify_reloading(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	notify("RELOADING=1\nMONOTONIC_USEC=%lld",
	       (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000);
}
