/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandbox_int.h"

#include "util/own.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KEPT_MAX(memory) ((memory) / 4 * 3) /* a worker that keeps more of its memory is replaced */

/* ---- children ---- */

/* w NULL: the nursery. */
static void watch(const struct sandbox *s, int op, int fd, uint32_t events, struct worker *w)
{
	struct epoll_event e = { .events = events, .data.ptr = w };
	epoll_ctl(s->epoll, op, fd, &e);
}

/* A new nursery has a new socket; that of the old one left epoll when it was closed. */
void workers_watch_nursery(struct sandbox *s)
{
	if (s->spawner.fd < 0 || s->spawner.started == s->watched)
		return;
	s->watched = s->spawner.started;
	s->stats.restarted = s->watched - 1;
	watch(s, EPOLL_CTL_ADD, s->spawner.fd, EPOLLIN, NULL);
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

void worker_retire(struct sandbox *s, struct worker *w)
{
	if (w->child.fd >= 0 && w->child.pidfd < 0)
		spawner_forget(&s->spawner, &w->child);
	sandbox_child_release(&w->child);
	w->served = 0;
}

size_t workers_stuck(struct sandbox *s, uint32_t user)
{
	size_t n = 0, own = 0;
	for (size_t i = 0; i < s->n_stuck; i++) {
		struct stuck k = s->stuck[i];
		struct pollfd p = { .fd = k.child.pidfd, .events = POLLIN };
		if (poll(&p, 1, 0) > 0) {
			sandbox_child_release(&k.child);
			continue;
		}
		own += k.user == user;
		s->stuck[n++] = k;
	}
	s->n_stuck = n;
	return own;
}

/*
 * Kill a worker that does not listen any more. It may be in a read that no signal ends: nobody
 * waits for it.
 */
static void worker_kill(struct sandbox *s, struct worker *w, uint32_t user)
{
	spawner_kill(&s->spawner, &w->child);
	if (w->child.pidfd >= 0 && s->n_stuck < SANDBOX_STUCK_MAX) {
		close(w->child.fd);
		w->child.fd = -1;
		s->stuck[s->n_stuck++] = (struct stuck){ w->child, user };
		w->child = SANDBOX_NO_CHILD;
	}
	worker_retire(s, w);
}

/* CPU time of a worker; 0: it cannot be read. */
static uint64_t worker_cpu_ns(const struct worker *w)
{
	clockid_t clock;
	struct timespec ts;
	if (w->child.pidfd < 0 || clock_getcpuclockid(w->child.pid, &clock) ||
	    clock_gettime(clock, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* What it has allocated; 0: that cannot be read. */
static size_t worker_memory(const struct worker *w)
{
	return w->child.pidfd < 0 ? 0 : (size_t)own_child_bytes(w->child.pid);
}

/* ---- made ---- */

void workers_lose(struct sandbox *s)
{
	for (unsigned i = 0; i < SANDBOX_LANES; i++) {
		for (unsigned k = 0; k < SANDBOX_WORKERS; k++) {
			struct worker *w = &s->lane[i].worker[k];
			struct sandbox_job *j = w->job;
			w->job = NULL;
			worker_retire(s, w);
			if (j)
				job_again(s, j, -EAGAIN);
		}
	}
}

int workers_order(struct sandbox *s, enum nursery_order order, struct sandbox_child *to)
{
	int rc = spawner_order(&s->spawner, order, s->cfg.memory, to);
	if (rc == -EPIPE) {
		workers_lose(s);
		rc = spawner_order(&s->spawner, order, s->cfg.memory, to);
	}
	workers_watch_nursery(s);
	return rc;
}

int worker_make(struct sandbox *s, struct worker *w)
{
	int rc = workers_order(s, NURSERY_WORKER, &w->child);
	if (rc)
		return rc;
	w->memory = s->cfg.memory;
	s->stats.spawned++;
	watch(s, EPOLL_CTL_ADD, w->child.fd, EPOLLIN, w);
	return 0;
}

/* ---- the end of a job ---- */

/* The worker got no further with its job. */
static void worker_failed(struct sandbox *s, struct worker *w, int rc)
{
	struct sandbox_job *j = w->job;
	uint64_t has_run = worker_cpu_ns(w), spent = has_run > w->ran_ns ? has_run - w->ran_ns : 0;
	bool fresh = w->served == 1;
	w->job = NULL;
	s->stats.cpu_ns += spent;
	j->cpu_ns += spent;
	j->reply.len = 0;
	if (rc == -EPIPE) {
		s->stats.died++;
		worker_retire(s, w);
		j->retried |= fresh; /* else what it had kept of earlier jobs may be to blame */
		job_again(s, j, -ECHILD);
		return;
	}
	bool stalled = rc == -ETIMEDOUT && spent < j->deadline_ms * MS / 2;
	s->stats.late += rc == -ETIMEDOUT;
	s->stats.stalled += stalled;
	worker_kill(s, w, j->user);
	job_end(s, j, stalled ? -EAGAIN : rc);
}

/* CPU time of its job. It says so itself only where its pid has not come yet: it may lie. */
static uint64_t spent_ns(const struct worker *w)
{
	const uint64_t now = worker_cpu_ns(w), took = channel_now_ns() - w->begin_ns;
	if (now)
		return now > w->ran_ns ? now - w->ran_ns : 0;
	return w->head.value < took ? w->head.value : took; /* one thread */
}

static void worker_answered(struct sandbox *s, struct worker *w)
{
	struct sandbox_job *j = w->job;
	uint64_t cpu = spent_ns(w);
	s->stats.cpu_ns += cpu;
	bool fresh = w->served == 1;
	j->cpu_ns += cpu;
	w->job = NULL;
	if (w->served >= s->cfg.serves || w->head.what == -ENOMEM || w->memory != s->cfg.memory) {
		worker_retire(s, w);
	} else if (worker_memory(w) > KEPT_MAX(s->cfg.memory)) {
		spawner_kill(&s->spawner, &w->child);
		worker_retire(s, w);
	}
	j->reply.len = w->head.len;
	if (w->head.what != -ENOMEM || fresh) {
		job_end(s, j, w->head.what);
		return;
	}
	j->reply.len = 0;
	job_again(s, j, -ENOMEM); /* what the worker had kept of earlier jobs may be to blame */
}

/* ---- talking to a worker ---- */

/* Send more of the job: 0, -EAGAIN: no more now, -errno. */
static int send_more(const struct sandbox *s, struct worker *w)
{
	const struct sandbox_job *j = w->job;
	while (w->sent < j->len) {
		ssize_t n = send(w->child.fd, j->bytes + w->sent, j->len - w->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EINTR)
			return errno == ECONNRESET ? -EPIPE : -errno;
		w->sent += n > 0 ? (size_t)n : 0;
		if (w->sent == j->len)
			watch(s, EPOLL_CTL_MOD, w->child.fd, EPOLLIN, w);
	}
	return 0;
}

/* No op answers what sandbox_take and sandbox_submit say of a job: callers would ask for ever. */
static bool is_result(int32_t what)
{
	static const int ours[] = { EINPROGRESS, EAGAIN, EBUSY, ECHILD, ETIMEDOUT };
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (what == -ours[i])
			return false;
	return what <= 0 && what > -4096;
}

/* Receive more of the answer: 0: it is whole. */
static int receive_more(struct worker *w)
{
	struct sandbox_job *j = w->job;
	size_t none;
	int rc = w->has_head ? 0
			     : channel_recv_head(w->child.fd, &w->head, NULL, 0, &none,
						 channel_now_ns());
	if (rc)
		return rc == -ETIMEDOUT ? -EAGAIN : rc;
	if (!w->has_head && w->head.len > j->max_reply)
		return -E2BIG;
	if (!w->has_head && !is_result(w->head.what))
		return -EBADMSG;
	rc = w->has_head ? 0 : buf_reserve(&j->reply, (size_t)w->head.len + 1);
	w->has_head = !rc;
	while (!rc && w->got < w->head.len) {
		ssize_t n = recv(w->child.fd, j->reply.data + w->got, w->head.len - w->got,
				 MSG_DONTWAIT);
		if (n == 0)
			return -EPIPE;
		if (n < 0 && errno != EINTR)
			return errno == ECONNRESET ? -EPIPE : -errno;
		w->got += n > 0 ? (size_t)n : 0;
	}
	return rc;
}

void worker_begin(struct sandbox *s, struct worker *w, struct sandbox_job *j)
{
	struct channel_head h = { .what = (int32_t)j->op };
	w->job = j;
	w->begin_ns = channel_now_ns();
	w->ran_ns = worker_cpu_ns(w);
	child_clock_start(&w->clock, w->child.pid, j->deadline_ms * MS, j->deadline_ms * MS);
	w->look_ns = w->begin_ns + lane_slow_ns(j->lane);
	w->served++;
	w->sent = w->got = 0;
	w->has_head = w->ready = false;
	j->state = JOB_RUNNING;
	s->stats.calls++;
	h.len = (uint32_t)j->len;
	/* A socket without unread bytes takes the head, whatever follows it. */
	int rc = channel_send_head(w->child.fd, &h, j->fds, j->n_fds);
	rc = rc ? rc : send_more(s, w);
	if (rc == -EAGAIN)
		watch(s, EPOLL_CTL_MOD, w->child.fd, EPOLLIN | EPOLLOUT, w);
	else if (rc)
		worker_failed(s, w, rc);
}

void worker_move_on(struct sandbox *s, struct worker *w, uint64_t now)
{
	if (w->child.fd < 0) { /* the nursery could not make it */
		struct sandbox_job *j = w->job;
		w->job = NULL;
		w->served = 0;
		job_end(s, j, -EAGAIN);
		return;
	}
	w->ready = false;
	bool late = child_clock_is_late(&w->clock, w->child.pid, now);
	int rc = send_more(s, w);
	if (!rc || rc == -EAGAIN || rc == -EPIPE) {
		int got = receive_more(w); /* it may have answered before it was asked all */
		if (!got) {
			worker_answered(s, w);
			return;
		}
		rc = rc == -EPIPE || got != -EAGAIN ? got == -EAGAIN ? rc : got : -EAGAIN;
	}
	if (rc == -EAGAIN && late)
		rc = -ETIMEDOUT;
	if (rc != -EAGAIN)
		worker_failed(s, w, rc);
}

void workers_find_ready(struct sandbox *s)
{
	struct epoll_event e[SANDBOX_LANES * SANDBOX_WORKERS + 1];
	int n = epoll_wait(s->epoll, e, sizeof(e) / sizeof(e[0]), 0);
	for (int i = 0; i < n; i++) {
		struct worker *w = e[i].data.ptr;
		if (!w)
			s->nursery_ready = true;
		else if (w->job)
			w->ready = true;
		else
			worker_retire(s, w); /* idle, and it has ended */
	}
}
