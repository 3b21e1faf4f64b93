/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/socket_store.h"

#include "daemon/notify.h"
#include "http/listen.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_FD 3   /* sd_listen_fds(3) */
#define FDS_MAX 1024 /* that are looked at */
#define NAME "FDNAME=listen"

static bool has_store; /* somebody keeps sockets: $FDSTORE says how many */

/* The value of a variable that systemd sets, removed: no child needs it. 0: none. */
static long take_number(const char *name)
{
	const char *text = getenv(name);
	char *end = NULL;
	long n = text ? strtol(text, &end, 10) : 0;
	n = end && end != text && !*end && n > 0 ? n : 0;
	unsetenv(name);
	return n;
}

/* How many there are, from FIRST_FD on. */
static long take_count(void)
{
	const long pid = take_number("LISTEN_PID"), n = take_number("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return pid == getpid() ? n : 0;
}

void socket_store_take(struct http_sockets **ret)
{
	const long n = take_count();
	int fd[ADDRESSES_MAX];
	size_t kept = 0;
	has_store = take_number("FDSTORE") > 0;
	*ret = NULL;
	for (long i = 0; i < n && i < FDS_MAX; i++) {
		if (kept < ADDRESSES_MAX)
			fd[kept++] = FIRST_FD + (int)i;
		else
			close(FIRST_FD + (int)i);
	}
	if (n)
		http_sockets_adopt(ret, fd, kept);
}

bool socket_store_take_one(int *ret)
{
	*ret = FIRST_FD;
	return take_count() == 1 && !fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC);
}

bool socket_store_keep(const struct http_sockets *s)
{
	int fd[ADDRESSES_MAX];
	size_t n = 0;
	for (size_t i = 0; s && i < s->n; i++)
		if (s->v[i].fd >= 0)
			fd[n++] = s->v[i].fd;
	return has_store && notify("FDSTOREREMOVE=1\n" NAME) &&
	       (!n || notify_with("FDSTORE=1\n" NAME, fd, n));
}
