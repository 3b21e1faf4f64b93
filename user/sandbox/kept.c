/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/kept.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

struct question {
	pid_t pid;
	bool kill;
};

struct answer {
	bool ended;
	struct kept_end end;
};

static unsigned alive; /* in the keeper: not reaped */
static bool (*elsewhere)(pid_t pid, bool end);

void kept_elsewhere(bool (*look)(pid_t pid, bool end))
{
	elsewhere = look;
}

static bool is_child(pid_t pid)
{
	siginfo_t info;
	return pid > 0 && !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
}

int kept_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	struct question c = { 0 };
	struct answer a = { 0 };
	if (q->len == sizeof(c))
		memcpy(&c, q->bytes, sizeof(c));
	const bool child = is_child(c.pid);
	if (!child && (c.pid <= 0 || !elsewhere || !elsewhere(c.pid, c.kill)))
		return err_set(err, -ECHILD, "process %d is not kept by this one", (int)c.pid);
	if (child && c.kill)
		kill(c.pid, SIGKILL);
	else if (child)
		a.ended = wait4(c.pid, &a.end.status, WNOHANG, &a.end.used) == c.pid;
	alive -= a.ended;
	memcpy(ret->bytes, &a, sizeof(a));
	ret->len = sizeof(a);
	return 0;
}

int kept_start(keeper_op *op, const struct keeper_question *q, pid_t *ret_pid, struct err *err)
{
	struct keeper_answer a;
	int rc = keeper_ask(op, q, KEEPER_WAIT_MS, &a, err);
	if (!rc)
		memcpy(ret_pid, a.bytes, sizeof(*ret_pid));
	return rc;
}

int kept_started(struct keeper_answer *ret, pid_t pid, struct err *err)
{
	if (alive == KEPT_MAX) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return err_set(err, -EAGAIN, "a recorder has %u processes beside it, and no more",
			       KEPT_MAX);
	}
	alive++;
	memcpy(ret->bytes, &pid, sizeof(pid));
	ret->len = sizeof(pid);
	return 0;
}

void kept_kill(pid_t pid)
{
	const struct question c = { .pid = pid, .kill = true };
	const struct keeper_question q = { .bytes = &c, .len = sizeof(c) };
	struct keeper_answer a;
	(void)!keeper_ask(kept_op, &q, KEEPER_WAIT_MS, &a, NULL);
}

bool kept_has_ended(pid_t pid, struct kept_end *ret)
{
	const struct question c = { .pid = pid };
	const struct keeper_question q = { .bytes = &c, .len = sizeof(c) };
	struct keeper_answer a;
	struct answer end = { 0 };
	int rc = keeper_ask(kept_op, &q, KEEPER_WAIT_MS, &a, NULL);
	if (rc == -ETIMEDOUT)
		return false;
	if (!rc)
		memcpy(&end, a.bytes, sizeof(end));
	if (ret)
		*ret = end.end;
	return rc || end.ended;
}

bool kept_await(pid_t pid, unsigned wait_ms)
{
	for (unsigned ms = 0; !kept_has_ended(pid, NULL); ms++) {
		if (ms >= wait_ms)
			return false;
		poll(NULL, 0, 1);
	}
	return true;
}
