/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web_start.h"

#include "daemon/units.h"
#include "sandbox/anew.h"
#include "sandbox/kept.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * The keeper's unit hides the path from all of its processes. The root directory of systemd can be
 * entered by who has CAP_SYS_PTRACE: no child that talks to anybody has.
 */
#define SOCKET "/proc/1/root/run/ascribe-keeper/web"

static bool in_units;

static int connect_unit(struct keeper_answer *ret, struct err *err)
{
	const struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = SOCKET };
	/* A full queue fails: nobody waits for systemd here. */
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = fd < 0 ? -errno : 0;
	if (!rc && connect(fd, (const struct sockaddr *)&at, sizeof(at)))
		rc = -errno;
	if (rc) {
		if (fd >= 0)
			close(fd);
		return err_sys(err, rc,
			       "cannot have systemd start the process that serves: look at: "
			       "systemctl status ascribe-web.socket");
	}
	ret->fds[ret->n_fds++] = fd;
	ret->len = sizeof(pid_t); /* 0: it is no child */
	memset(ret->bytes, 0, ret->len);
	return 0;
}

/* Of the environment it knows the time zone. */
static int start_child(struct keeper_answer *ret, struct err *err)
{
	const char *zone = getenv("TZ");
	char text[300];
	char *argv[] = { (char *)"ascribe", (char *)"serve", (char *)"--web", NULL };
	char *envp[] = { zone ? text : NULL, NULL };
	int pair[2];
	pid_t pid;
	snprintf(text, sizeof(text), "TZ=%s", zone ? zone : "");
	int rc = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) ? -errno : 0;
	if (rc)
		return err_sys(err, rc, "starting the process that serves");
	rc = anew_spawn(argv, envp, &pair[1], 1, &pid);
	close(pair[1]);
	rc = rc ? err_sys(err, rc, "starting the process that serves")
		: kept_started(ret, pid, err);
	if (rc)
		close(pair[0]);
	else
		ret->fds[ret->n_fds++] = pair[0];
	return rc;
}

int web_start_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	(void)q;
	return in_units ? connect_unit(ret, err) : start_child(ret, err);
}

int web_start(int *ret_fd, pid_t *ret_pid, struct err *err)
{
	const struct keeper_question q = { 0 };
	struct keeper_answer a;
	int rc = keeper_ask(web_start_op, &q, KEEPER_WAIT_MS, &a, err);
	if (rc)
		return rc;
	if (a.n_fds != 1 || a.len != sizeof(*ret_pid)) /* it is this program: never */
		return err_set(err, -EBADMSG, "ascribe-keeper gave no process that serves");
	*ret_fd = a.fds[0];
	memcpy(ret_pid, a.bytes, sizeof(*ret_pid));
	return 0;
}

/* The number may be another process's: the descriptor is of one, whose unit is looked at then. */
static bool is_instance(pid_t pid, bool end)
{
	const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	const bool is = pidfd >= 0 && unit_has(UNIT_WEB, pid);
	if (is && end)
		(void)!syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	if (pidfd >= 0)
		close(pidfd);
	return is;
}

void web_start_in_units(void)
{
	in_units = true;
	kept_elsewhere(is_instance);
}
