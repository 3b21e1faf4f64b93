/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/keeper.h"

#include "sandbox/anew.h"
#include "sandbox/child_clock.h"
#include "sandbox/confine.h"
#include "util/clock.h"
#include "util/packet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME "ascribe-keeper"
#define SOCKET ANEW_FD /* its descriptor in the keeper */
#define FIXED_ARGUMENTS 3
#define MS 1000000ull
#define LOOK_MS 500u	      /* at a keeper that has not answered */
#define CHILDREN_END_MS 3000u /* when the recorder has ended */

struct head {
	uint64_t id;
	uint64_t until_ns; /* CLOCK_MONOTONIC: nobody waits for an answer any more */
	int32_t what;	   /* the index of the op; the result */
	uint32_t padding;
};

/* ---- the keeper ---- */

struct table {
	keeper_op *const *ops;
	size_t n;
	char *const *arguments;
};

static struct table served; /* in the keeper */

char *const *keeper_arguments(void)
{
	return served.arguments;
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

static int answer(void)
{
	static struct {
		struct head head;
		uint8_t bytes[KEEPER_QUESTION_MAX];
	} in;
	static struct keeper_answer a;
	int fds[PASSED_MAX];
	size_t len = 0, n_fds = 0;
	struct err err = { 0 };
	int rc = packet_recv(SOCKET, &in, sizeof(in), &len, fds, PASSED_MAX, &n_fds, 0);
	if (rc || len < sizeof(in.head))
		return rc ? rc : -EPIPE;
	const struct keeper_question q = { in.bytes, len - sizeof(in.head), fds, n_fds };
	const bool wanted = clock_ns(CLOCK_MONOTONIC) < in.head.until_ns;
	const bool known = in.head.what >= 0 && (size_t)in.head.what < served.n;
	a.len = a.n_fds = 0;
	rc = !wanted ? err_set(&err, -ETIMEDOUT, "the question is too old")
	     : known ? served.ops[in.head.what](&q, &a, &err)
		     : err_set(&err, -EBADMSG, "%s knows no such question", NAME);
	const struct head out = { .id = in.head.id, .what = rc };
	rc = packet_send(SOCKET, &out, sizeof(out), rc ? (void *)&err : (void *)a.bytes,
			 rc ? sizeof(err) : a.len, a.fds, a.n_fds);
	close_all(fds, n_fds);
	close_all(a.fds, a.n_fds);
	return rc;
}

/*
 * Whoever asked has ended, and each child sees the end of its socket: who serves answers what it
 * has begun. A child that stays is killed by the end of this process.
 */
static _Noreturn void keeper_orphaned(int sig)
{
	(void)sig;
	for (unsigned ms = 0; ms < CHILDREN_END_MS && waitpid(-1, NULL, WNOHANG) >= 0; ms++)
		poll(NULL, 0, 1);
	_exit(0);
}

/* Load programs in time though the host is busy: the recorder waits. */
static _Noreturn void keeper_run(const struct table *t)
{
	served = *t;
	fcntl(SOCKET, F_SETFD, FD_CLOEXEC); /* no child has it */
	setpriority(PRIO_PROCESS, 0, -20);
	confine_signals();
	signal(SIGUSR1, keeper_orphaned);
	if (confine_rights(ROLE_KEEPER, SOCKET) || prctl(PR_SET_PDEATHSIG, SIGUSR1))
		_exit(1);
	while (!answer())
		;
	keeper_orphaned(0);
}

/* Become the keeper before main(), as in nursery.c. */
__attribute__((constructor)) static void keeper_main(int argc, char **argv)
{
	if (argc < FIXED_ARGUMENTS || strcmp(argv[0], NAME) != 0 || anew_gains_rights())
		return;
	const struct table t = { (keeper_op *const *)anew_from_distance(argv[1]),
				 strtoul(argv[2], NULL, 10), argv + FIXED_ARGUMENTS };
	keeper_run(&t);
}

/* ---- who asks ---- */

static struct {
	struct table table;
	int fd; /* -1: there is none */
	bool lost, joined;
	pid_t pid;
	uint64_t asked, answered; /* ids */
	uint64_t cpu_ns;
	uint64_t refused;
} keeper = { .fd = -1 };

static int fork_keeper(int fd, const struct table *t, pid_t *ret_pid)
{
	pid_t pid = fork();
	if (pid == 0) {
		if (anew_take(&fd, 1))
			_exit(1);
		keeper_run(t);
	}
	*ret_pid = pid;
	return pid < 0 ? -errno : 0;
}

static int spawn(int fd, const struct table *t, pid_t *ret_pid)
{
	extern char **environ;
	char ops[24], n[24];
	char *argv[FIXED_ARGUMENTS + KEEPER_ARGUMENTS_MAX + 1] = { (char *)NAME, ops, n };
	for (size_t i = 0; t->arguments[i]; i++) {
		if (i == KEEPER_ARGUMENTS_MAX)
			return -E2BIG;
		argv[FIXED_ARGUMENTS + i] = t->arguments[i];
	}
	anew_to_distance(ops, sizeof(ops), (uintptr_t)t->ops);
	snprintf(n, sizeof(n), "%zu", t->n);
	return anew_spawn(argv, environ, &fd, 1, ret_pid);
}

int keeper_start(keeper_op *const *ops, size_t n_ops, char *const *arguments, struct err *err)
{
	const struct table t = { ops, n_ops, arguments };
	int pair[2];
	int rc = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) ? -errno : 0;
	if (rc)
		return err_sys(err, rc, "starting %s", NAME);
	rc = anew_gains_rights() ? fork_keeper(pair[1], &t, &keeper.pid)
				 : spawn(pair[1], &t, &keeper.pid);
	close(pair[1]);
	if (rc) {
		close(pair[0]);
		return err_sys(err, rc, "starting %s", NAME);
	}
	keeper.table = (struct table){ ops, n_ops, NULL };
	keeper.fd = pair[0];
	return 0;
}

void keeper_join(keeper_op *const *ops, size_t n_ops, int fd, pid_t pid)
{
	keeper.table = (struct table){ ops, n_ops, NULL };
	keeper.fd = fd;
	keeper.pid = pid;
	keeper.joined = true;
}

_Noreturn void keeper_serve(keeper_op *const *ops, size_t n_ops, char *const *arguments, int fd)
{
	const struct table t = { ops, n_ops, arguments };
	if (anew_take(&fd, 1))
		_exit(1);
	keeper_run(&t);
}

/* One that was joined ends by itself: the number may be another process's. */
void keeper_end(void)
{
	if (keeper.fd >= 0)
		close(keeper.fd);
	if (keeper.joined)
		keeper.pid = 0;
	if (keeper.pid)
		kill(keeper.pid, SIGKILL); /* our child, not reaped: the id is its own */
	while (keeper.pid && waitpid(keeper.pid, NULL, 0) < 0 && errno == EINTR)
		;
	keeper.fd = -1;
	keeper.pid = 0;
}

pid_t keeper_pid(void)
{
	return keeper.pid;
}

uint64_t keeper_cpu_ns(void)
{
	clockid_t clock;
	struct timespec t;
	if (keeper.pid && !clock_getcpuclockid(keeper.pid, &clock) && !clock_gettime(clock, &t))
		keeper.cpu_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return keeper.cpu_ns;
}

bool keeper_is_lost(void)
{
	struct pollfd p = { .fd = keeper.fd };
	if (keeper.fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR))
		keeper.lost = true;
	return keeper.lost;
}

/* Receive one answer, of whichever question, until then. -EAGAIN: none has come. */
static int receive(uint64_t until_ns, struct head *ret_head, struct keeper_answer *ret,
		   struct err *ret_err)
{
	struct {
		struct head head;
		_Alignas(8) uint8_t bytes[KEEPER_ANSWER_MAX];
	} in;
	size_t len = 0;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct pollfd p = { .fd = keeper.fd, .events = POLLIN };
	if (poll(&p, 1, now < until_ns ? (int)((until_ns - now) / MS + 1) : 0) <= 0)
		return -EAGAIN;
	int rc = packet_recv(keeper.fd, &in, sizeof(in), &len, ret->fds, PASSED_MAX, &ret->n_fds,
			     MSG_DONTWAIT);
	if (rc == -EAGAIN)
		return rc;
	if (rc == -EBADMSG) { /* its descriptors found no room here */
		keeper.answered = keeper.asked;
		return err_set(ret_err, -EMFILE, "too many open files: raise ulimit -n");
	}
	if (rc || len < sizeof(in.head) ||
	    (in.head.what && len != sizeof(in.head) + sizeof(*ret_err))) {
		close_all(ret->fds, rc ? 0 : ret->n_fds);
		keeper.lost = true;
		return -EPIPE;
	}
	keeper.answered = in.head.id;
	*ret_head = in.head;
	ret->len = len - sizeof(in.head);
	if (in.head.what)
		memcpy(ret_err, in.bytes, sizeof(*ret_err));
	else
		memcpy(ret->bytes, in.bytes, ret->len);
	return 0;
}

/* Drop what was answered too late. */
static int catch_up(struct keeper_answer *a)
{
	struct head h;
	struct err ignored;
	int rc = 0;
	while (!rc && keeper.answered < keeper.asked) {
		rc = receive(0, &h, a, &ignored);
		if (!rc)
			close_all(a->fds, a->n_fds);
	}
	return rc;
}

bool keeper_is_late(void)
{
	struct keeper_answer a;
	return keeper.fd >= 0 && !keeper.lost && catch_up(&a) == -EAGAIN;
}

_Static_assert(sizeof(struct err) <= KEEPER_ANSWER_MAX, "room for what failed");

/* Wait for an answer until then, or until the keeper is seen stopped. -EAGAIN: none has come. */
static int await(uint64_t until_ns, struct head *ret_head, struct keeper_answer *ret,
		 struct err *ret_err)
{
	for (;;) {
		const uint64_t now = clock_ns(CLOCK_MONOTONIC), look_ns = now + LOOK_MS * MS;
		int rc = receive(look_ns < until_ns ? look_ns : until_ns, ret_head, ret, ret_err);
		if (rc != -EAGAIN || clock_ns(CLOCK_MONOTONIC) >= until_ns ||
		    sandbox_child_state(keeper.pid) == 'T')
			return rc;
	}
}

static int ask(uint64_t until_ns, int32_t op, const struct keeper_question *q,
	       struct keeper_answer *ret, struct err *ret_err)
{
	int rc = keeper.lost ? -EPIPE : catch_up(ret);
	if (rc)
		return rc;
	struct head h = { .id = keeper.asked + 1, .until_ns = until_ns, .what = op };
	rc = packet_send(keeper.fd, &h, sizeof(h), q->bytes, q->len, q->fds, q->n_fds);
	if (rc)
		return rc;
	keeper.asked++;
	rc = await(until_ns, &h, ret, ret_err);
	return rc ? rc : h.what;
}

int keeper_ask(keeper_op *op, const struct keeper_question *q, unsigned wait_ms,
	       struct keeper_answer *ret, struct err *err)
{
	struct err e = { 0 };
	size_t i = 0;
	ret->len = ret->n_fds = 0;
	if (keeper.fd < 0)
		return op(q, ret, err);
	while (i < keeper.table.n && keeper.table.ops[i] != op)
		i++;
	int rc = ask(clock_ns(CLOCK_MONOTONIC) + wait_ms * MS, (int32_t)i, q, ret, &e);
	if (rc == -EPIPE && !e.code) {
		keeper.lost = true;
		return err_set(err, rc, "%s, which has the rights to record, has ended", NAME);
	}
	if (rc == -EAGAIN && !e.code) {
		return err_set(
			err, -ETIMEDOUT,
			"%s, which has the rights to record, does not answer: is it stopped?",
			NAME);
	}
	keeper.refused += rc == -EDQUOT;
	if (rc && err)
		*err = e;
	return rc;
}

uint64_t keeper_refused(void)
{
	return keeper.refused;
}
