/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/child_end.h"

#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000ull

/* 0: it has ended. */
static int await(int pidfd, int socket, uint64_t until_ns)
{
	struct pollfd p[] = { { .fd = pidfd, .events = POLLIN },
			      { .fd = socket, .events = POLLRDHUP } };
	for (;;) {
		const uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (now >= until_ns)
			return -ETIME;
		if (poll(p, 2, (int)((until_ns - now) / MS + 1)) > 0)
			return p[0].revents ? 0 : -EPIPE;
	}
}

int child_end(pid_t pid, int socket, unsigned wait_s, int *ret_status)
{
	const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int rc = pidfd < 0 ? -errno : 0;
	if (!rc)
		rc = await(pidfd, socket, clock_ns(CLOCK_MONOTONIC) + wait_s * 1000 * MS);
	if (rc)
		kill(pid, SIGKILL); /* not reaped: the number is its own */
	while (waitpid(pid, ret_status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (pidfd >= 0)
		close(pidfd);
	return rc;
}
