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
#define LOOK_MS 200

/* 0: it has ended. */
static int await(int pidfd, int socket, uint64_t until_ns, bool (*may_go_on)(const void *ctx),
		 const void *ctx)
{
	struct pollfd p[] = { { .fd = pidfd, .events = POLLIN },
			      { .fd = socket, .events = POLLRDHUP } };
	for (;;) {
		const uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (now >= until_ns)
			return -ETIME;
		const uint64_t left = (until_ns - now) / MS + 1;
		if (poll(p, 2, may_go_on && left > LOOK_MS ? LOOK_MS : (int)left) > 0)
			return p[0].revents ? 0 : -EPIPE;
		if (may_go_on && !may_go_on(ctx))
			return -EFBIG;
	}
}

int child_end(pid_t pid, int socket, unsigned wait_s, bool (*may_go_on)(const void *ctx),
	      const void *ctx, int *ret_status)
{
	const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int rc = pidfd < 0 ? -errno : 0;
	if (!rc)
		rc = await(pidfd, socket, clock_ns(CLOCK_MONOTONIC) + wait_s * 1000 * MS, may_go_on,
			   ctx);
	if (rc)
		kill(pid, SIGKILL); /* not reaped: the number is its own */
	while (waitpid(pid, ret_status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (pidfd >= 0)
		close(pidfd);
	return rc;
}
