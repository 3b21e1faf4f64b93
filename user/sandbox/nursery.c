/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/nursery.h"

#include "sandbox/channel.h"
#include "sandbox/confine.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS_MAX 16 /* alive, or killed and still hanging in a read */

/* ---- the worker ---- */

static uint64_t cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int serve(int fd, const struct sandbox_config *cfg, struct buf *in, struct buf *out)
{
	int fds[SANDBOX_FDS_MAX];
	size_t n_fds = 0;
	struct channel_head h;
	int rc = channel_recv_head(fd, &h, fds, SANDBOX_FDS_MAX, &n_fds, CHANNEL_FOREVER);
	uint64_t begin = cpu_ns();
	if (rc || h.len > SANDBOX_REQUEST_MAX || h.what < 0 || (size_t)h.what >= cfg->n_ops)
		return -EBADMSG;
	in->len = out->len = 0;
	rc = buf_reserve(in, h.len + 1);
	rc = rc ? rc : channel_recv(fd, in->data, h.len, CHANNEL_FOREVER);
	if (rc)
		return rc;
	struct sandbox_request q = { in->data, h.len, fds, n_fds };
	rc = cfg->ops[h.what](&q, out);
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
	if (out->len > SANDBOX_REPLY_MAX) {
		out->len = 0;
		rc = -E2BIG;
	}
	struct channel_head answer = { rc, (uint32_t)out->len, cpu_ns() - begin };
	return channel_send(fd, &answer, out->data, NULL, 0, CHANNEL_FOREVER);
}

static _Noreturn void worker_run(int fd, const struct sandbox_config *cfg)
{
	struct buf in = BUF_INIT, out = BUF_INIT;
	prctl(PR_SET_NAME, "ascribe-parser");
	if (confine_worker(cfg->memory))
		_exit(1);
	while (!serve(fd, cfg, &in, &out)) {
		if (out.cap > 1u << 20)
			buf_fini(&out);
	}
	_exit(0);
}

/* ---- the nursery ---- */

struct nursery {
	int fd;
	const struct sandbox_config *cfg;
	pid_t worker[WORKERS_MAX];
};

static void reap(struct nursery *n)
{
	for (size_t i = 0; i < WORKERS_MAX; i++)
		if (n->worker[i] && waitpid(n->worker[i], NULL, WNOHANG))
			n->worker[i] = 0;
}

static pid_t spawn(struct nursery *n, int fd)
{
	size_t i = 0;
	while (i < WORKERS_MAX && n->worker[i])
		i++;
	if (i == WORKERS_MAX)
		return -EAGAIN;
	pid_t parent = getpid(), p = fork();
	if (p == 0) {
		close(n->fd);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
		worker_run(fd, n->cfg);
	}
	if (p < 0)
		return -errno;
	n->worker[i] = p;
	return p;
}

/* Only what we have not reaped yet: its number is still its own. */
static void kill_worker(struct nursery *n, uint64_t pid)
{
	for (size_t i = 0; i < WORKERS_MAX; i++)
		if (pid && (uint64_t)n->worker[i] == pid)
			kill(n->worker[i], SIGKILL);
}

static int obey(struct nursery *n)
{
	int fd = -1;
	size_t n_fds = 0;
	struct channel_head h, answer = { 0 };
	int rc = channel_recv_head(n->fd, &h, &fd, 1, &n_fds, CHANNEL_FOREVER);
	if (rc)
		return rc;
	reap(n);
	if (h.what == NURSERY_KILL)
		kill_worker(n, h.value);
	if (h.what != NURSERY_SPAWN || !n_fds)
		return 0;
	pid_t p = spawn(n, fd);
	close(fd);
	answer.what = p < 0 ? p : 0;
	answer.value = p < 0 ? 0 : (uint64_t)p;
	return channel_send(n->fd, &answer, NULL, NULL, 0, CHANNEL_FOREVER);
}

_Noreturn void nursery_run(int fd, const struct sandbox_config *cfg)
{
	struct nursery n = { .fd = fd, .cfg = cfg };
	confine_signals();
	prctl(PR_SET_NAME, "ascribe-nursery");
	if (confine_privileges(fd))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* changing who we are has cleared an earlier one; its end closes fd, too */
	while (!obey(&n))
		;
	_exit(0);
}
