/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandbox.h"

#include "sandbox/channel.h"
#include "sandbox/nursery.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SPAWN_NS 2000000000ull
#define PAUSE_NS 250000000ull /* after a call that the machine had no time for; twice that after the next one, */
#define PAUSE_MAX_NS 4000000000ull

struct lane {
	int fd; /* -1: no worker */
	uint64_t pid;
	unsigned served;
};

struct sandbox {
	struct sandbox_config cfg;
	int nursery; /* -1: it is gone, and with it every answer */
	pid_t nursery_pid;
	unsigned owed; /* answers of the nursery that were not waited for */
	uint64_t pause_ns, pause_until_ns;
	struct lane lane[SANDBOX_LANES];
	struct sandbox_stats stats;
	int also; /* sandbox_meanwhile; -1: nothing */
	bool (*ready)(void *ctx);
	void *ready_ctx;
};

int sandbox_new(struct sandbox **ret, const struct sandbox_config *cfg, struct err *err)
{
	int pair[2];
	struct sandbox *s = calloc(1, sizeof(*s));
	if (!s)
		return err_sys(err, -ENOMEM, "sandbox");
	s->cfg = *cfg;
	s->also = -1;
	for (size_t i = 0; i < SANDBOX_LANES; i++)
		s->lane[i].fd = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		int rc = err_sys(err, -errno, "socketpair");
		free(s);
		return rc;
	}
	s->nursery_pid = fork();
	if (s->nursery_pid == 0)
		nursery_run(pair[1], &s->cfg);
	int rc = s->nursery_pid < 0 ? -errno : 0;
	close(pair[1]);
	s->nursery = pair[0];
	if (rc) {
		close(pair[0]);
		free(s);
		return err_sys(err, rc, "fork");
	}
	*ret = s;
	return 0;
}

void sandbox_retire(struct sandbox *s, unsigned lane)
{
	struct lane *l = &s->lane[lane];
	if (l->fd >= 0)
		close(l->fd); /* it sees that, and ends */
	*l = (struct lane){ .fd = -1 };
}

/* It does not listen any more. */
static void kill_worker(struct sandbox *s, unsigned lane)
{
	struct channel_head h = { .what = NURSERY_KILL, .value = s->lane[lane].pid };
	channel_send(s->nursery, &h, NULL, NULL, 0, channel_now_ns() + SPAWN_NS);
	sandbox_retire(s, lane);
}

static int lose_nursery(struct sandbox *s)
{
	close(s->nursery);
	s->nursery = -1;
	return -ECHILD;
}

/* Answers that come late are of workers whose lane was closed: they have ended. None is asked for before all of them are here. */
static int take_owed(struct sandbox *s)
{
	struct channel_head h;
	size_t none;
	while (s->owed) {
		struct pollfd p = { .fd = s->nursery, .events = POLLIN };
		if (poll(&p, 1, 0) <= 0)
			return -EBUSY;
		if (channel_recv_head(s->nursery, &h, NULL, 0, &none, channel_now_ns() + SPAWN_NS))
			return lose_nursery(s);
		s->owed--;
	}
	return 0;
}

/* It may have been stopped, or be without a CPU for so long: that passes, and its answer will come. */
static int ask_nursery(struct sandbox *s, int fd, struct channel_head *h)
{
	uint64_t until = channel_now_ns() + SPAWN_NS;
	size_t none;
	int rc = take_owed(s);
	if (rc)
		return rc;
	rc = channel_send(s->nursery, h, NULL, &fd, 1, until);
	if (rc)
		return lose_nursery(s); /* there is room for one request: all are answered */
	rc = channel_recv_head(s->nursery, h, NULL, 0, &none, until);
	if (rc == -ETIMEDOUT) {
		s->owed++;
		return -EAGAIN;
	}
	return rc ? lose_nursery(s) : h->what;
}

static int spawn(struct sandbox *s, struct lane *l)
{
	int pair[2];
	struct channel_head h = { .what = NURSERY_SPAWN };
	if (s->nursery < 0)
		return -ECHILD;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	int rc = ask_nursery(s, pair[1], &h);
	close(pair[1]);
	if (rc) {
		close(pair[0]);
		return rc;
	}
	*l = (struct lane){ .fd = pair[0], .pid = h.value };
	s->stats.spawned++;
	return 0;
}

void sandbox_ready(struct sandbox *s, unsigned lane)
{
	if (s->lane[lane].fd < 0)
		spawn(s, &s->lane[lane]); /* if not, the first request will tell */
}

void sandbox_meanwhile(struct sandbox *s, int fd, bool (*ready)(void *ctx), void *ctx)
{
	s->also = fd;
	s->ready = ready;
	s->ready_ctx = ctx;
}

/* Until there is an answer, or it is too late for one. */
static void do_meanwhile(const struct sandbox *s, int fd, uint64_t until)
{
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .fd = s->also, .events = POLLIN } };
	uint64_t now;
	while (p[1].fd >= 0 && (now = channel_now_ns()) < until) {
		int n = poll(p, 2, (int)((until - now + 999999) / 1000000));
		if (p[0].revents || (n < 0 && errno != EINTR))
			return;
		if (n > 0 && (!(p[1].revents & POLLIN) || !s->ready(s->ready_ctx)))
			p[1].fd = -1;
	}
}

static int receive(int fd, const struct sandbox_call *call, uint64_t until, struct buf *reply, struct channel_head *h)
{
	size_t none;
	int rc = channel_recv_head(fd, h, NULL, 0, &none, until);
	if (rc)
		return rc;
	if (h->len > call->max_reply)
		return -E2BIG;
	if (h->what > 0)
		return -EBADMSG;
	rc = buf_reserve(reply, (size_t)h->len + 1);
	rc = rc ? rc : channel_recv(fd, reply->data, h->len, until);
	if (!rc)
		reply->len = h->len;
	return rc;
}

/* What the lane's worker has run for; 0: that is not to be told. */
static uint64_t worker_cpu_ns(const struct lane *l)
{
	clockid_t clock;
	struct timespec ts;
	if (clock_getcpuclockid((pid_t)l->pid, &clock) || clock_gettime(clock, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Not now: nor soon after. */
static int pause_calls(struct sandbox *s)
{
	s->pause_ns = s->pause_ns ? 2 * s->pause_ns : PAUSE_NS;
	if (s->pause_ns > PAUSE_MAX_NS)
		s->pause_ns = PAUSE_MAX_NS;
	s->pause_until_ns = channel_now_ns() + s->pause_ns;
	return -EAGAIN;
}

/* A worker, on the call's lane. */
static int get_worker(struct sandbox *s, const struct sandbox_call *call)
{
	struct lane *l = &s->lane[call->lane];
	if (l->fd >= 0 && l->served >= s->cfg.serves)
		sandbox_retire(s, call->lane);
	if (l->fd >= 0)
		return 0;
	int rc = spawn(s, l);
	return !rc || rc == -ECHILD || rc == -EBUSY ? rc : pause_calls(s);
}

static int run_once(struct sandbox *s, const struct sandbox_call *call, struct buf *reply, bool *ret_fresh)
{
	struct lane *l = &s->lane[call->lane];
	struct channel_head h = { .what = (int32_t)call->op, .len = (uint32_t)call->len };
	reply->len = 0;
	int rc = get_worker(s, call);
	if (rc)
		return rc;
	uint64_t begin = channel_now_ns(), until = begin + call->deadline_ms * 1000000ull, ran = worker_cpu_ns(l);
	*ret_fresh = !l->served;
	s->stats.calls++;
	l->served++;
	rc = channel_send(l->fd, &h, call->bytes, call->fds, call->n_fds, until);
	if (!rc)
		do_meanwhile(s, l->fd, until);
	rc = rc ? rc : receive(l->fd, call, until, reply, &h);
	if (!rc) {
		uint64_t took = channel_now_ns() - begin;
		s->stats.cpu_ns += h.value < took ? h.value : took; /* one thread */
		s->pause_ns = 0;
		return h.what;
	}
	reply->len = 0;
	if (rc == -EPIPE) {
		s->stats.died++;
		sandbox_retire(s, call->lane);
		return -ECHILD;
	}
	bool stalled = rc == -ETIMEDOUT && worker_cpu_ns(l) - ran < call->deadline_ms * 500000ull;
	s->stats.late += rc == -ETIMEDOUT;
	s->stats.stalled += stalled;
	kill_worker(s, call->lane);
	return stalled ? pause_calls(s) : rc;
}

int sandbox_run(struct sandbox *s, const struct sandbox_call *call, struct buf *reply)
{
	bool fresh = true;
	reply->len = 0;
	if (call->len > SANDBOX_REQUEST_MAX)
		return -E2BIG;
	if (channel_now_ns() < s->pause_until_ns)
		return -EBUSY;
	int rc = run_once(s, call, reply, &fresh);
	if (rc == -ECHILD && !fresh) /* perhaps for what it had kept of earlier requests: a new one has nothing */
		rc = run_once(s, call, reply, &fresh);
	return rc;
}

void sandbox_stats(const struct sandbox *s, struct sandbox_stats *ret)
{
	*ret = s->stats;
}

void sandbox_free(struct sandbox *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < SANDBOX_LANES; i++)
		if (s->lane[i].fd >= 0)
			kill_worker(s, i);
	if (s->nursery >= 0)
		close(s->nursery);
	while (waitpid(s->nursery_pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(s);
}
