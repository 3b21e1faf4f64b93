/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/keeper_unit.h"

#include "daemon/rights.h"
#include "daemon/socket_store.h"
#include "daemon/units.h"
#include "daemon/web_start.h"
#include "opt/debuginfod.h"
#include "sandbox/channel.h"
#include "sandbox/roles.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define VARIABLE "ASCRIBE_KEEPER_FD"
#define JOIN_NS 30000000000ull /* systemd starts the keeper, on a busy host */
#define NEXT_MS 2000	       /* for another connection, when one was of no use */

/* What comes with the recorder's end of the channel, in this order; `what` has their bits. */
enum { CHANNEL, DOWNLOADS, PODS, SQL, N_GIVEN };

int daemon_start_clients(struct daemon *d, struct err *err)
{
	int rc = d->s.o.debuginfod.n ? debuginfod_start(&d->downloads, &d->s.o.debuginfod,
							d->s.o.debuginfod_cache, err)
				     : 0;
	rc = rc ? rc : pods_open(&d->pods, &d->s.pods, err);
	return rc || !d->s.o.postgres ? rc : sql_asker_start(&d->sql, d->s.o.postgres, err);
}

/* ---- the recorder ---- */

static int adopt(struct daemon *d, uint32_t what, const int *fds, struct err *err)
{
	size_t n = 1;
	int rc = what >> DOWNLOADS & 1 ? downloads_adopt(&d->downloads, fds[n++], err) : 0;
	if (!rc && what >> PODS & 1)
		rc = pods_adopt(&d->pods, &d->s.pods, fds[n++], err);
	if (!rc && what >> SQL & 1)
		d->sql = (struct sql_asker){ .fd = fds[n++] };
	return rc;
}

/* The connection is our standard input, which becomes /dev/null. */
static int take_connection(int *ret, struct err *err)
{
	const char *text = getenv(VARIABLE);
	char *end = NULL;
	const long n = text ? strtol(text, &end, 10) : -1;
	const int fd = end && end != text && !*end && n >= 0 && n < 1024
			       ? fcntl((int)n, F_DUPFD_CLOEXEC, 3)
			       : -1;
	const int null = fd < 0 ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0)
		dup2(null, (int)n);
	if (null >= 0)
		close(null);
	unsetenv(VARIABLE);
	*ret = fd;
	return fd < 0 ? err_set(err, -EBADF, VARIABLE "=%s: no such descriptor", text) : 0;
}

int daemon_join_keeper(struct daemon *d, struct err *err)
{
	const uint64_t until_ns = channel_now_ns() + JOIN_NS;
	struct channel_head h = { 0 };
	int fds[N_GIVEN], fd;
	size_t n = 0;
	if (!getenv(VARIABLE))
		return 0;
	int rc = take_connection(&fd, err);
	if (rc)
		return rc;
	rc = channel_recv_head(fd, &h, fds, N_GIVEN, &n, until_ns);
	close(fd);
	if (!rc && (!n || n != (size_t)__builtin_popcount((unsigned)h.what)))
		rc = -EBADMSG;
	if (rc)
		return err_set(err, rc,
			       "ascribe-keeper, which has the rights to record, %s: look at: "
			       "journalctl -u " UNIT_KEEPER,
			       rc == -ETIMEDOUT ? "does not answer" : "has ended");
	daemon_use_keeper(fds[CHANNEL], (pid_t)h.value);
	d->joined = true;
	return adopt(d, (uint32_t)h.what, fds, err);
}

/* ---- the keeper ---- */

/* systemd connected as the process that became the recorder: its number. 0: it is another one. */
static pid_t recorder_at(int fd)
{
	struct ucred who;
	socklen_t size = sizeof(who);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) || who.uid != geteuid())
		return 0;
	return unit_has(UNIT_RECORDER, who.pid) ? who.pid : 0;
}

/* systemd has shut the recorder's half of the connection: both are shut where it has ended. */
static bool has_ended(int fd)
{
	struct pollfd p = { .fd = fd };
	return poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

/*
 * Wait for the recorder. A command of its unit, that of ExecReload=, was connected, too, and has
 * ended. -ENOENT: there is none.
 */
static int accept_recorder(int listener, int *ret, struct err *err)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	while (poll(&p, 1, NEXT_MS) > 0) {
		const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			return err_sys(err, -errno, "accept");
		if (!recorder_at(fd))
			fputs("ascribe-keeper: somebody who is not " UNIT_RECORDER " was refused\n",
			      stderr);
		else if (!has_ended(fd)) {
			*ret = fd;
			return 0;
		}
		close(fd);
	}
	return -ENOENT;
}

/* Give it our process, the channel and the clients. */
static int give(const struct daemon *d, int to, int channel, struct err *err)
{
	int fds[N_GIVEN] = { channel };
	size_t n = 1;
	struct channel_head h = { .what = 1 << CHANNEL, .value = (uint64_t)getpid() };
	if (d->downloads) {
		h.what |= 1 << DOWNLOADS;
		fds[n++] = downloads_fd(d->downloads);
	}
	if (d->pods) {
		h.what |= 1 << PODS;
		fds[n++] = pods_fd(d->pods);
	}
	if (d->sql.fd >= 0) {
		h.what |= 1 << SQL;
		fds[n++] = d->sql.fd;
	}
	int rc = channel_send_head(to, &h, fds, n);
	return rc ? err_sys(err, rc, "answering the recorder") : 0;
}

int daemon_be_keeper(struct daemon *d, struct err *err)
{
	int listener, recorder = -1, pair[2];
	prctl(PR_SET_NAME, roles[ROLE_KEEPER].name); /* `check` knows it by that */
	int rc = socket_store_take_one(&listener)
			 ? 0
			 : err_set(err, -ENOTCONN,
				   "--" DAEMON_KEEPER ": started by " UNIT_KEEPER " alone");
	rc = rc ? rc : accept_recorder(listener, &recorder, err);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	close(listener);
	rc = daemon_start_clients(d, err);
	if (!rc && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		rc = err_sys(err, -errno, "socketpair");
	rc = rc ? rc : give(d, recorder, pair[0], err);
	web_start_in_units();
	return rc ? rc : daemon_serve_rights(d, pair[1], err);
}
