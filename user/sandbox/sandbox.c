/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandbox.h"

#include "sandbox/channel.h"
#include "sandbox/nursery.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SPAWN_NS 2000000000ull
#define PAUSE_NS 250000000ull /* after a call that the machine had no time for; twice that after the next one, */
#define PAUSE_MAX_NS 4000000000ull
#define REAP_MS 100 /* for a nursery to end */

struct lane {
	struct sandbox_child worker; /* worker.fd -1: none */
	unsigned served;
};

struct sandbox {
	struct sandbox_config cfg;
	int nursery; /* -1: it is gone, and is started again when it is needed */
	pid_t nursery_pid;
	uint64_t pause_ns, pause_until_ns;
	struct lane lane[SANDBOX_LANES];
	struct sandbox_stats stats;
	int also; /* sandbox_meanwhile; -1: nothing */
	bool (*ready)(void *ctx);
	void *ready_ctx;
};

int sandbox_new(struct sandbox **ret, const struct sandbox_config *cfg, struct err *err)
{
	struct sandbox *s = calloc(1, sizeof(*s));
	if (!s)
		return err_sys(err, -ENOMEM, "sandbox");
	s->cfg = *cfg;
	s->also = -1;
	for (size_t i = 0; i < SANDBOX_LANES; i++)
		s->lane[i].worker = SANDBOX_NO_CHILD;
	int rc = nursery_start(&s->cfg, &s->nursery_pid, &s->nursery);
	if (rc) {
		free(s);
		return err_sys(err, rc, "starting the process that forks parsers (/proc/self/exe)");
	}
	*ret = s;
	return 0;
}

void sandbox_child_release(struct sandbox_child *c)
{
	if (c->fd >= 0)
		close(c->fd);
	if (c->pidfd >= 0)
		close(c->pidfd);
	*c = SANDBOX_NO_CHILD;
}

void sandbox_child_kill(const struct sandbox_child *c)
{
	if (c->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
}

void sandbox_retire(struct sandbox *s, unsigned lane)
{
	sandbox_child_release(&s->lane[lane].worker); /* it sees its socket closed, and ends */
	s->lane[lane].served = 0;
}

/* It does not listen any more. It may be in a read that no signal ends: it is not waited for. */
static void kill_worker(struct sandbox *s, unsigned lane)
{
	sandbox_child_kill(&s->lane[lane].worker);
	sandbox_retire(s, lane);
}

/* False: it has not ended yet. Waits for a moment only. */
static bool reap_nursery(const struct sandbox *s)
{
	pid_t rc = 0;
	for (unsigned ms = 0; ms < REAP_MS && (rc = waitpid(s->nursery_pid, NULL, WNOHANG)) == 0; ms++)
		poll(NULL, 0, 1);
	return rc != 0;
}

/* It ends when its socket is closed, after its children, unless it is stopped. */
static void end_nursery(struct sandbox *s)
{
	if (s->nursery < 0)
		return;
	close(s->nursery);
	s->nursery = -1;
	if (!reap_nursery(s)) {
		kill(s->nursery_pid, SIGKILL); /* our child, not reaped: the number is its own */
		reap_nursery(s);
	}
	for (unsigned i = 0; i < SANDBOX_LANES; i++)
		sandbox_retire(s, i);
}

static int restart_nursery(struct sandbox *s)
{
	int rc = nursery_start(&s->cfg, &s->nursery_pid, &s->nursery);
	s->stats.restarted += !rc;
	return rc;
}

/* A nursery that does not answer in time is replaced: it may be stopped. */
static int ask_nursery(struct sandbox *s, enum nursery_order order, int fd, struct sandbox_child *ret)
{
	uint64_t until = channel_now_ns() + SPAWN_NS;
	struct channel_head h = { .what = (int32_t)order };
	size_t n_fds = 0;
	int pidfd = -1, rc = s->nursery < 0 ? restart_nursery(s) : 0;
	if (rc)
		return rc;
	rc = channel_send(s->nursery, &h, NULL, &fd, 1, until);
	rc = rc ? rc : channel_recv_head(s->nursery, &h, &pidfd, 1, &n_fds, until);
	if (rc || (!h.what && !n_fds)) {
		end_nursery(s);
		return -EAGAIN;
	}
	if (h.what)
		return h.what;
	*ret = (struct sandbox_child){ .fd = -1, .pidfd = pidfd, .pid = (pid_t)h.value };
	return 0;
}

static int spawn(struct sandbox *s, enum nursery_order order, struct sandbox_child *ret)
{
	struct sandbox_child c = SANDBOX_NO_CHILD;
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	int rc = ask_nursery(s, order, pair[1], &c);
	if (rc == -EAGAIN && s->nursery < 0) /* once more, of a new one */
		rc = ask_nursery(s, order, pair[1], &c);
	close(pair[1]);
	if (rc) {
		close(pair[0]);
		return rc;
	}
	c.fd = pair[0];
	*ret = c;
	return 0;
}

static int spawn_worker(struct sandbox *s, struct lane *l)
{
	int rc = spawn(s, NURSERY_WORKER, &l->worker);
	s->stats.spawned += !rc;
	return rc;
}

int sandbox_spawn_reader(struct sandbox *s, struct sandbox_child *ret)
{
	return spawn(s, NURSERY_READER, ret);
}

void sandbox_ready(struct sandbox *s, unsigned lane)
{
	if (s->lane[lane].worker.fd < 0)
		spawn_worker(s, &s->lane[lane]); /* if not, the first request will tell */
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
	if (clock_getcpuclockid(l->worker.pid, &clock) || clock_gettime(clock, &ts))
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
	if (l->worker.fd >= 0 && l->served >= s->cfg.serves)
		sandbox_retire(s, call->lane);
	if (l->worker.fd >= 0)
		return 0;
	return spawn_worker(s, l) ? pause_calls(s) : 0;
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
	rc = channel_send(l->worker.fd, &h, call->bytes, call->fds, call->n_fds, until);
	if (!rc)
		do_meanwhile(s, l->worker.fd, until);
	rc = rc ? rc : receive(l->worker.fd, call, until, reply, &h);
	if (!rc) {
		uint64_t took = channel_now_ns() - begin;
		s->stats.cpu_ns += h.value < took ? h.value : took; /* one thread */
		s->pause_ns = 0;
		return h.what;
	}
	reply->len = 0;
	uint64_t has_run = worker_cpu_ns(l);
	uint64_t spent = has_run > ran ? has_run - ran : 0;
	s->stats.cpu_ns += spent;
	if (rc == -EPIPE) {
		s->stats.died++;
		sandbox_retire(s, call->lane);
		return -ECHILD;
	}
	bool stalled = rc == -ETIMEDOUT && spent < call->deadline_ms * 500000ull;
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

void sandbox_add_cpu(struct sandbox *s, uint64_t ns)
{
	s->stats.cpu_ns += ns;
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
		kill_worker(s, i);
	end_nursery(s);
	free(s);
}
