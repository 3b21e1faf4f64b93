/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/nursery.h"

#include "sandbox/anew.h"
#include "sandbox/channel.h"
#include "sandbox/confine.h"
#include "sandbox/kept.h"
#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "ascribe-nursery"
#define SOCKET ANEW_FD	/* its descriptor in the nursery */
#define END_MS 50	/* for killed children to end */
#define CHILDREN_MAX 64 /* alive, or killed and still blocked in a read */

/* ---- the worker ---- */

static int serve(int fd, const struct sandbox_config *cfg, struct buf *in, struct buf *out)
{
	int fds[SANDBOX_FDS_MAX];
	size_t n_fds = 0;
	struct channel_head h;
	int rc = channel_recv_head(fd, &h, fds, SANDBOX_FDS_MAX, &n_fds, CHANNEL_FOREVER);
	uint64_t begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
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
	struct channel_head answer = { rc, (uint32_t)out->len,
				       clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin };
	return channel_send(fd, &answer, out->data, NULL, 0, CHANNEL_FOREVER);
}

static _Noreturn void worker_run(int fd, const struct sandbox_config *cfg, size_t memory)
{
	struct buf in = BUF_INIT, out = BUF_INIT;
	const struct confine_given given = { .memory = memory };
	if (confine_rights(ROLE_PARSER, fd) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
	    confine_reach(ROLE_PARSER, &given))
		_exit(1);
	while (!serve(fd, cfg, &in, &out)) {
		if (out.cap > 1u << 20)
			buf_fini(&out);
	}
	_exit(0);
}

/* ---- the nursery ---- */

static pid_t children[CHILDREN_MAX];

static void reap_children(void)
{
	for (size_t i = 0; i < CHILDREN_MAX; i++)
		if (children[i] && waitpid(children[i], NULL, WNOHANG))
			children[i] = 0;
}

/* End with the nursery. A change of user clears this, so workers ask for it again. */
static void follow_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
}

static pid_t fork_child(const struct channel_head *order, int fd, const struct sandbox_config *cfg)
{
	size_t i = 0;
	reap_children();
	while (i < CHILDREN_MAX && children[i])
		i++;
	if (i == CHILDREN_MAX)
		return -EAGAIN;
	pid_t parent = getpid(), p = fork();
	if (p == 0) {
		follow_parent(parent);
		if (order->what == NURSERY_WORKER)
			worker_run(fd, cfg, (size_t)order->value);
		cfg->reader(fd);
		_exit(0);
	}
	if (p < 0)
		return -errno;
	children[i] = p;
	return p;
}

/* Not to be left to whoever adopts orphans. One that no signal ends is. */
static void end_children(void)
{
	bool any = true;
	for (size_t i = 0; i < CHILDREN_MAX; i++)
		if (children[i])
			kill(children[i], SIGKILL);
	for (unsigned ms = 0; any && ms < END_MS; ms++) {
		any = false;
		reap_children();
		for (size_t i = 0; i < CHILDREN_MAX; i++)
			any |= children[i] != 0;
		if (any)
			poll(NULL, 0, 1);
	}
}

static void kill_child(uint64_t pid)
{
	reap_children();
	for (size_t i = 0; i < CHILDREN_MAX; i++)
		if (children[i] > 0 && (uint64_t)children[i] == pid)
			kill(children[i], SIGKILL);
}

static int obey(const struct sandbox_config *cfg)
{
	int fd = -1, pidfd = -1;
	size_t n_fds = 0;
	struct channel_head h, answer = { 0 };
	int rc = channel_recv_head(SOCKET, &h, &fd, 1, &n_fds, CHANNEL_FOREVER);
	if (!rc && !n_fds && h.what == NURSERY_KILL) {
		kill_child(h.value);
		return 0;
	}
	if (rc || !n_fds ||
	    (h.what != NURSERY_WORKER && (h.what != NURSERY_READER || !cfg->reader)))
		return rc ? rc : -EBADMSG;
	pid_t p = fork_child(&h, fd, cfg);
	close(fd);
	if (p > 0)
		/* Not reaped yet: the number is its own */
		pidfd = (int)syscall(SYS_pidfd_open, p, 0);
	if (p > 0 && pidfd < 0) {
		answer.what = -errno;
		kill(p, SIGKILL);
	} else {
		answer.what = p < 0 ? p : 0;
		answer.value = p < 0 ? 0 : (uint64_t)p;
	}
	rc = channel_send(SOCKET, &answer, NULL, &pidfd, pidfd >= 0, CHANNEL_FOREVER);
	if (pidfd >= 0)
		close(pidfd);
	return rc;
}

/* ---- executed anew ---- */

static _Noreturn void nursery_run(const struct sandbox_config *cfg)
{
	confine_signals();
	if (confine_rights(ROLE_NURSERY, SOCKET))
		_exit(1);
	while (!obey(cfg))
		;
	end_children();
	_exit(0);
}

/*
 * Become the nursery before main() when nursery_start() executed this program: the arguments are
 * the configuration. They name addresses to call, so a caller with fewer rights than this program
 * is not obeyed.
 */
__attribute__((constructor)) static void nursery_main(int argc, char **argv)
{
	if (argc != 4 || strcmp(argv[0], NAME) != 0 || anew_gains_rights())
		return;
	struct sandbox_config cfg = {
		.ops = (const sandbox_op *)anew_from_distance(argv[1]),
		.n_ops = strtoul(argv[2], NULL, 10),
	};
	if (strcmp(argv[3], "-") != 0)
		cfg.reader = (void (*)(int))anew_from_distance(argv[3]);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	nursery_run(&cfg);
}

/*
 * With rights of its own this program cannot be executed as the nursery, so the nursery is a copy
 * of the recorder.
 */
static int fork_nursery(const struct sandbox_config *cfg, int fd, pid_t *ret_pid)
{
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		follow_parent(parent);
		if (anew_take(&fd, 1))
			_exit(1);
		nursery_run(cfg);
	}
	if (pid < 0)
		return -errno;
	*ret_pid = pid;
	return 0;
}

static int spawn(const struct sandbox_config *cfg, int fd, pid_t *ret_pid)
{
	char ops[24], n_ops[24], reader[24];
	char *argv[] = { (char *)NAME, ops, n_ops, reader, NULL }, *envp[] = { NULL };
	anew_to_distance(ops, sizeof(ops), (uintptr_t)cfg->ops);
	snprintf(n_ops, sizeof(n_ops), "%zu", cfg->n_ops);
	snprintf(reader, sizeof(reader), "-");
	if (cfg->reader)
		anew_to_distance(reader, sizeof(reader), (uintptr_t)cfg->reader);
	return anew_spawn(argv, envp, &fd, 1, ret_pid);
}

int nursery_answer(const struct sandbox_config *cfg, const struct keeper_question *q,
		   struct keeper_answer *ret, struct err *err)
{
	pid_t pid;
	int rc = q->n_fds != 1	       ? -EBADMSG
		 : anew_gains_rights() ? fork_nursery(cfg, q->fds[0], &pid)
				       : spawn(cfg, q->fds[0], &pid);
	if (rc)
		return err_sys(err, rc, "starting " NAME);
	return kept_started(ret, pid, err);
}

/* Where no op is in the keeper's table: of this process. */
static int start_own(const struct sandbox_config *cfg, const struct keeper_question *q,
		     pid_t *ret_pid)
{
	struct keeper_answer a = { 0 };
	int rc = nursery_answer(cfg, q, &a, NULL);
	if (!rc)
		memcpy(ret_pid, a.bytes, sizeof(*ret_pid));
	return rc;
}

int nursery_start(const struct sandbox_config *cfg, pid_t *ret_pid, int *ret_fd)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	const struct keeper_question q = { .fds = &pair[1], .n_fds = 1 };
	int rc = cfg->nursery ? kept_start(cfg->nursery, &q, ret_pid, NULL)
			      : start_own(cfg, &q, ret_pid);
	close(pair[1]);
	if (rc)
		close(pair[0]);
	else
		*ret_fd = pair[0];
	return rc;
}
