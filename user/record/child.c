/* SPDX-License-Identifier: Apache-2.0 */
#include "record/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void run_child(char **argv, int go, int failure)
{
	char byte;
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGXFSZ, SIG_DFL); /* main ignores it, and exec would keep that */
	if (read(go, &byte, 1) != 1)
		_exit(127); /* the recorder ended before it began */
	execvp(argv[0], argv);
	int code = errno;
	if (write(failure, &code, sizeof(code)) < 0)
		_exit(126);
	_exit(127);
}

int child_prepare(struct child *c, char **argv, struct err *err)
{
	int go[2], failure[2];
	c->name = argv[0];
	if (pipe2(go, O_CLOEXEC))
		return err_sys(err, -errno, "pipe");
	if (pipe2(failure, O_CLOEXEC)) {
		int rc = err_sys(err, -errno, "pipe");
		close(go[0]);
		close(go[1]);
		return rc;
	}
	pid_t p = fork();
	if (p == 0) {
		close(go[1]);
		run_child(argv, go[0], failure[1]);
	}
	int rc = p < 0 ? err_sys(err, -errno, "fork") : 0;
	close(go[0]);
	close(failure[1]);
	c->go = go[1];
	c->failure = failure[0];
	if (rc)
		return rc;
	c->tgid = p;
	c->fd = (int)syscall(SYS_pidfd_open, p, 0);
	return c->fd < 0 ? err_sys(err, -errno, "pidfd_open") : 0;
}

int child_go(struct child *c, struct err *err)
{
	int code;
	if (write(c->go, "g", 1) != 1)
		return err_sys(err, -errno, "starting the command");
	close(c->go);
	c->go = -1;
	ssize_t n = read(c->failure, &code, sizeof(code));
	if (n != (ssize_t)sizeof(code))
		return 0; /* closed by exec */
	c->exec_failed = true;
	return err_sys(err, -code, "cannot run %s", c->name);
}

bool child_runs(const struct child *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	return c->tgid && poll(&p, 1, 0) == 0;
}

int child_status(struct child *c)
{
	int status;
	while (waitpid(c->tgid, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	c->tgid = 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void child_fini(struct child *c)
{
	if (c->go >= 0)
		close(c->go); /* a child that still waits sees this and exits */
	if (c->failure >= 0)
		close(c->failure);
	if (c->fd >= 0)
		close(c->fd);
	c->go = c->failure = c->fd = -1;
}
