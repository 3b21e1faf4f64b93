/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandbox.h"

#include "sandbox/channel.h"
#include "sandbox/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull

enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_DONE };

struct sandbox_job {
	struct sandbox_job *next; /* in the queue of its lane, or among the answers */
	enum job_state state;
	unsigned lane, op, deadline_ms;
	uint32_t user;
	bool retried;   /* it killed a worker that had served others */
	bool unwanted;  /* cancelled while it runs */
	size_t len, n_fds, max_reply;
	int fds[SANDBOX_FDS_MAX];
	int rc;
	struct buf reply;
	uint64_t cpu_ns, done_ns;
	uint8_t bytes[];
};

struct worker {
	struct sandbox_child child; /* child.fd -1: none */
	struct sandbox_job *job;    /* NULL: it is idle */
	unsigned served;
	uint64_t begin_ns, ran_ns; /* of its job; ran_ns: its CPU time before */
	size_t sent;		   /* bytes of the job; len: all */
	struct channel_head head;
	bool has_head;
	size_t got; /* bytes behind the head */
	bool ready; /* its socket can be read, or written to where bytes are left to send */
};

struct job_list {
	struct sandbox_job *first, **last;
	size_t n;
};

struct lane {
	struct worker worker[SANDBOX_WORKERS];
	struct job_list queue;
};

/* A worker that was killed and has not ended. */
struct stuck {
	struct sandbox_child child;
	uint32_t user;
};

struct sandbox {
	struct sandbox_config cfg;
	struct spawner spawner;
	int epoll;
	bool nursery_ready; /* its socket can be read */
	struct lane lane[SANDBOX_LANES];
	struct job_list answers;
	struct stuck stuck[SANDBOX_STUCK_MAX];
	size_t n_stuck;
	struct sandbox_stats stats;
};

/* ---- life ---- */

/* w NULL: the nursery. */
static void watch(const struct sandbox *s, int op, int fd, uint32_t events, struct worker *w)
{
	struct epoll_event e = { .events = events, .data.ptr = w };
	epoll_ctl(s->epoll, op, fd, &e);
}

/* A new nursery has a new socket; that of the old one left epoll when it was closed. */
static void watch_nursery(struct sandbox *s)
{
	if (s->spawner.fd < 0 || s->spawner.started == s->stats.restarted + 1)
		return;
	s->stats.restarted = s->spawner.started - 1;
	watch(s, EPOLL_CTL_ADD, s->spawner.fd, EPOLLIN, NULL);
}

static void list_init(struct job_list *l)
{
	*l = (struct job_list){ .last = &l->first };
}

static void list_add(struct job_list *l, struct sandbox_job *j)
{
	j->next = NULL;
	*l->last = j;
	l->last = &j->next;
	l->n++;
}

static void list_take(struct job_list *l, struct sandbox_job **at)
{
	struct sandbox_job *j = *at;
	*at = j->next;
	if (l->last == &j->next)
		l->last = at;
	j->next = NULL;
	l->n--;
}

static void list_remove_job(struct job_list *l, const struct sandbox_job *j)
{
	struct sandbox_job **at = &l->first;
	while (*at && *at != j)
		at = &(*at)->next;
	if (*at)
		list_take(l, at);
}

int sandbox_new(struct sandbox **ret, const struct sandbox_config *cfg, struct err *err)
{
	struct sandbox *s = calloc(1, sizeof(*s));
	if (!s)
		return err_sys(err, -ENOMEM, "sandbox");
	s->cfg = *cfg;
	list_init(&s->answers);
	for (size_t i = 0; i < SANDBOX_LANES; i++) {
		list_init(&s->lane[i].queue);
		for (size_t k = 0; k < SANDBOX_WORKERS; k++)
			s->lane[i].worker[k].child = SANDBOX_NO_CHILD;
	}
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	int rc = s->epoll < 0 ? -errno : spawner_init(&s->spawner, &s->cfg);
	if (rc) {
		if (s->epoll >= 0)
			close(s->epoll);
		free(s);
		return err_sys(err, rc, "starting the process that forks parsers (/proc/self/exe)");
	}
	watch(s, EPOLL_CTL_ADD, s->spawner.fd, EPOLLIN, NULL);
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

/* ---- workers ---- */

/* It sees its socket closed, and ends. */
static void retire_worker(struct sandbox *s, struct worker *w)
{
	if (w->child.fd >= 0 && w->child.pidfd < 0)
		spawner_forget(&s->spawner, &w->child);
	sandbox_child_release(&w->child);
	w->served = 0;
}

/* Forget the stuck workers that have ended meanwhile. How many are left of this user? */
static size_t count_stuck(struct sandbox *s, uint32_t user)
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

/* Kill a worker that does not listen any more. It may be in a read that no signal ends: nobody waits for it. */
static void kill_worker(struct sandbox *s, struct worker *w, uint32_t user)
{
	sandbox_child_kill(&w->child);
	if (w->child.pidfd >= 0 && s->n_stuck < SANDBOX_STUCK_MAX) {
		close(w->child.fd);
		w->child.fd = -1;
		s->stuck[s->n_stuck++] = (struct stuck){ w->child, user };
		w->child = SANDBOX_NO_CHILD;
	}
	retire_worker(s, w);
}

/* CPU time of a worker; 0: it cannot be read. */
static uint64_t worker_cpu_ns(const struct worker *w)
{
	clockid_t clock;
	struct timespec ts;
	if (w->child.pidfd < 0 || clock_getcpuclockid(w->child.pid, &clock) || clock_gettime(clock, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- the end of a job ---- */

static void job_free(struct sandbox_job *j)
{
	for (size_t i = 0; i < j->n_fds; i++)
		close(j->fds[i]);
	buf_fini(&j->reply);
	free(j);
}

static void job_end(struct sandbox *s, struct sandbox_job *j, int rc)
{
	if (j->unwanted) {
		job_free(j);
		return;
	}
	for (size_t i = 0; i < j->n_fds; i++)
		close(j->fds[i]);
	j->n_fds = 0;
	if (rc == -ETIMEDOUT || rc == -ECHILD || rc == -EAGAIN)
		buf_fini(&j->reply);
	j->rc = rc;
	j->state = JOB_DONE;
	j->done_ns = channel_now_ns();
	s->stats.answered++;
	list_add(&s->answers, j);
}

/* Its worker was lost: another one tries, once. */
static void job_again(struct sandbox *s, struct sandbox_job *j, int rc)
{
	if (j->retried || j->unwanted) {
		job_end(s, j, rc);
		return;
	}
	j->retried = true;
	j->state = JOB_QUEUED;
	list_add(&s->lane[j->lane].queue, j);
}

/* All workers ended with their nursery. */
static void lose_workers(struct sandbox *s)
{
	for (unsigned i = 0; i < SANDBOX_LANES; i++) {
		for (unsigned k = 0; k < SANDBOX_WORKERS; k++) {
			struct worker *w = &s->lane[i].worker[k];
			struct sandbox_job *j = w->job;
			w->job = NULL;
			retire_worker(s, w);
			if (j)
				job_again(s, j, -EAGAIN);
		}
	}
}

static int order_child(struct sandbox *s, enum nursery_order order, struct sandbox_child *to)
{
	int rc = spawner_order(&s->spawner, order, to);
	if (rc == -EPIPE) {
		lose_workers(s);
		rc = spawner_order(&s->spawner, order, to);
	}
	watch_nursery(s);
	return rc;
}

static int make_worker(struct sandbox *s, struct worker *w)
{
	int rc = order_child(s, NURSERY_WORKER, &w->child);
	if (rc)
		return rc;
	s->stats.spawned++;
	watch(s, EPOLL_CTL_ADD, w->child.fd, EPOLLIN, w);
	return 0;
}

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
		retire_worker(s, w);
		j->retried |= fresh; /* else what it had kept of earlier jobs may be to blame */
		job_again(s, j, -ECHILD);
		return;
	}
	bool stalled = rc == -ETIMEDOUT && spent < j->deadline_ms * MS / 2;
	s->stats.late += rc == -ETIMEDOUT;
	s->stats.stalled += stalled;
	kill_worker(s, w, j->user);
	job_end(s, j, stalled ? -EAGAIN : rc);
}

static void worker_answered(struct sandbox *s, struct worker *w)
{
	struct sandbox_job *j = w->job;
	uint64_t took = channel_now_ns() - w->begin_ns, cpu = w->head.value < took ? w->head.value : took; /* one thread */
	s->stats.cpu_ns += cpu;
	j->cpu_ns += cpu;
	j->reply.len = w->head.len;
	w->job = NULL;
	job_end(s, j, w->head.what);
	if (w->served >= s->cfg.serves)
		retire_worker(s, w);
}

/* ---- talking to a worker ---- */

/* Send more of the job: 0, -EAGAIN: no more now, -errno. */
static int send_more(const struct sandbox *s, struct worker *w)
{
	const struct sandbox_job *j = w->job;
	while (w->sent < j->len) {
		ssize_t n = send(w->child.fd, j->bytes + w->sent, j->len - w->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EINTR)
			return errno == ECONNRESET ? -EPIPE : -errno;
		w->sent += n > 0 ? (size_t)n : 0;
		if (w->sent == j->len)
			watch(s, EPOLL_CTL_MOD, w->child.fd, EPOLLIN, w);
	}
	return 0;
}

/* Receive more of the answer: 0: it is whole. */
static int receive_more(struct worker *w)
{
	struct sandbox_job *j = w->job;
	size_t none;
	int rc = w->has_head ? 0 : channel_recv_head(w->child.fd, &w->head, NULL, 0, &none, channel_now_ns());
	if (rc)
		return rc == -ETIMEDOUT ? -EAGAIN : rc;
	if (!w->has_head && w->head.len > j->max_reply)
		return -E2BIG;
	if (!w->has_head && w->head.what > 0)
		return -EBADMSG;
	rc = w->has_head ? 0 : buf_reserve(&j->reply, (size_t)w->head.len + 1);
	w->has_head = !rc;
	while (!rc && w->got < w->head.len) {
		ssize_t n = recv(w->child.fd, j->reply.data + w->got, w->head.len - w->got, MSG_DONTWAIT);
		if (n == 0)
			return -EPIPE;
		if (n < 0 && errno != EINTR)
			return errno == ECONNRESET ? -EPIPE : -errno;
		w->got += n > 0 ? (size_t)n : 0;
	}
	return rc;
}

static void begin_job(struct sandbox *s, struct worker *w, struct sandbox_job *j)
{
	struct channel_head h = { .what = (int32_t)j->op };
	w->job = j;
	w->begin_ns = channel_now_ns();
	w->ran_ns = worker_cpu_ns(w);
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

static void move_on(struct sandbox *s, struct worker *w, uint64_t now)
{
	if (w->child.fd < 0) { /* the nursery could not make it */
		struct sandbox_job *j = w->job;
		w->job = NULL;
		w->served = 0;
		job_end(s, j, -EAGAIN);
		return;
	}
	w->ready = false;
	int rc = send_more(s, w);
	if (!rc || rc == -EAGAIN || rc == -EPIPE) {
		int got = receive_more(w); /* it may have answered before it was asked all */
		if (!got) {
			worker_answered(s, w);
			return;
		}
		rc = rc == -EPIPE || got != -EAGAIN ? got == -EAGAIN ? rc : got : -EAGAIN;
	}
	if (rc == -EAGAIN && now >= w->begin_ns + w->job->deadline_ms * MS)
		rc = -ETIMEDOUT;
	if (rc != -EAGAIN)
		worker_failed(s, w, rc);
}

/* ---- the queue ---- */

/* A worker that is idle, or one to be made where all others are slow. NULL: there is none now. */
static struct worker *find_worker(struct lane *l, uint64_t now)
{
	struct worker *none = NULL;
	bool slow = true;
	for (unsigned i = 0; i < SANDBOX_WORKERS; i++) {
		struct worker *w = &l->worker[i];
		if (!w->job && w->child.fd >= 0)
			return w;
		if (!w->job && !none)
			none = w;
		slow &= !w->job || now >= w->begin_ns + SANDBOX_SLOW_MS * MS;
	}
	return slow ? none : NULL;
}

static unsigned count_running(const struct lane *l, uint32_t user)
{
	unsigned n = 0;
	for (unsigned i = 0; i < SANDBOX_WORKERS; i++)
		n += l->worker[i].job && l->worker[i].job->user == user;
	return n;
}

/* The first job of a user who has not too many workers. */
static struct sandbox_job **next_job(struct lane *l)
{
	struct sandbox_job **at = &l->queue.first;
	while (*at && count_running(l, (*at)->user) >= SANDBOX_WORKERS_USER)
		at = &(*at)->next;
	return *at ? at : NULL;
}

static void begin_jobs(struct sandbox *s, struct lane *l, uint64_t now)
{
	struct sandbox_job **at;
	struct worker *w;
	while ((at = next_job(l)) && (w = find_worker(l, now))) {
		struct sandbox_job *j = *at;
		list_take(&l->queue, at);
		if (w->child.fd < 0 && make_worker(s, w))
			job_end(s, j, -EAGAIN);
		else
			begin_job(s, w, j);
	}
	for (unsigned i = 1; i < SANDBOX_WORKERS; i++) /* one is enough where none is slow */
		if (!l->queue.n && !l->worker[i].job && l->worker[i].child.fd >= 0)
			retire_worker(s, &l->worker[i]);
}

/* Answers that nobody takes give up their memory. */
static void drop_old(struct sandbox *s, uint64_t now)
{
	for (struct sandbox_job *j = s->answers.first; j && now >= j->done_ns + SANDBOX_KEEP_MS * MS; j = j->next) {
		if (j->reply.data)
			j->rc = -EAGAIN;
		buf_fini(&j->reply);
	}
}

/* ---- for callers ---- */

/* Has this user too many jobs in the queues? */
static bool is_full(const struct sandbox *s, uint32_t user)
{
	size_t n = s->answers.n, own = 0;
	for (unsigned i = 0; i < SANDBOX_LANES; i++)
		n += s->lane[i].queue.n;
	if (n < SANDBOX_QUEUE_USER)
		return false;
	for (unsigned i = 0; i < SANDBOX_LANES; i++)
		for (const struct sandbox_job *j = s->lane[i].queue.first; j; j = j->next)
			own += j->user == user;
	return n >= SANDBOX_QUEUE_MAX || own >= SANDBOX_QUEUE_USER;
}

int sandbox_submit(struct sandbox *s, const struct sandbox_call *call, struct sandbox_job **ret)
{
	if (call->len > SANDBOX_REQUEST_MAX || call->n_fds > SANDBOX_FDS_MAX)
		return -E2BIG;
	if (is_full(s, call->user) ||
	    (s->n_stuck && (count_stuck(s, call->user) >= SANDBOX_STUCK_USER || s->n_stuck == SANDBOX_STUCK_MAX))) {
		s->stats.full++;
		return -EBUSY;
	}
	struct sandbox_job *j = calloc(1, sizeof(*j) + call->len);
	if (!j)
		return -ENOMEM;
	*j = (struct sandbox_job){ .lane = call->lane, .op = call->op, .deadline_ms = call->deadline_ms, .user = call->user,
				   .len = call->len, .max_reply = call->max_reply, .reply = BUF_INIT };
	if (call->len)
		memcpy(j->bytes, call->bytes, call->len);
	for (; j->n_fds < call->n_fds; j->n_fds++) {
		j->fds[j->n_fds] = fcntl(call->fds[j->n_fds], F_DUPFD_CLOEXEC, 3);
		if (j->fds[j->n_fds] < 0) {
			int rc = -errno;
			job_free(j);
			return rc;
		}
	}
	struct lane *l = &s->lane[j->lane];
	list_add(&l->queue, j);
	begin_jobs(s, l, channel_now_ns());
	*ret = j;
	return 0;
}

int sandbox_take(struct sandbox *s, struct sandbox_job **io_job, struct buf *reply, uint64_t *ret_cpu_ns)
{
	struct sandbox_job *j = *io_job;
	if (j->state != JOB_DONE)
		return -EINPROGRESS;
	int rc = j->rc;
	*ret_cpu_ns = j->cpu_ns;
	buf_fini(reply);
	*reply = j->reply;
	j->reply = (struct buf)BUF_INIT;
	sandbox_cancel(s, io_job);
	return rc;
}

void sandbox_cancel(struct sandbox *s, struct sandbox_job **io_job)
{
	struct sandbox_job *j = *io_job;
	*io_job = NULL;
	if (!j)
		return;
	if (j->state == JOB_RUNNING) {
		j->unwanted = true;
		return;
	}
	list_remove_job(j->state == JOB_DONE ? &s->answers : &s->lane[j->lane].queue, j);
	job_free(j);
}

/* When something is due that no descriptor tells of; UINT64_MAX: nothing is under way. */
static uint64_t due_ns(const struct sandbox *s)
{
	uint64_t due = spawner_due_ns(&s->spawner);
	for (unsigned i = 0; i < SANDBOX_LANES; i++) {
		const struct lane *l = &s->lane[i];
		for (unsigned k = 0; k < SANDBOX_WORKERS; k++) {
			const struct worker *w = &l->worker[k];
			if (!w->job)
				continue;
			uint64_t late = w->begin_ns + w->job->deadline_ms * MS, slow = w->begin_ns + SANDBOX_SLOW_MS * MS;
			if (l->queue.n && slow > channel_now_ns() && slow < late)
				late = slow;
			due = late < due ? late : due;
		}
	}
	return due;
}

static void find_ready(struct sandbox *s)
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
			retire_worker(s, w); /* idle, and it has ended */
	}
}

int sandbox_tick(struct sandbox *s)
{
	find_ready(s);
	uint64_t now = channel_now_ns();
	bool look = s->nursery_ready || now >= spawner_due_ns(&s->spawner);
	s->nursery_ready = false;
	if (look && spawner_read(&s->spawner))
		lose_workers(s);
	for (unsigned i = 0; i < SANDBOX_LANES; i++) {
		for (unsigned k = 0; k < SANDBOX_WORKERS; k++) {
			struct worker *w = &s->lane[i].worker[k];
			if (w->job && (w->ready || w->child.fd < 0 || now >= w->begin_ns + w->job->deadline_ms * MS))
				move_on(s, w, now);
		}
		begin_jobs(s, &s->lane[i], now);
	}
	drop_old(s, now);
	uint64_t due = due_ns(s);
	now = channel_now_ns();
	return due == UINT64_MAX ? -1 : due <= now ? 0 : (int)((due - now + MS - 1) / MS);
}

int sandbox_fd(const struct sandbox *s)
{
	return s->epoll;
}

bool sandbox_wait(struct sandbox *s, uint64_t until_ns)
{
	uint64_t answered = s->stats.answered, now;
	int ms;
	while ((ms = sandbox_tick(s)) >= 0 && s->stats.answered == answered && (now = channel_now_ns()) < until_ns) {
		struct pollfd p = { .fd = s->epoll, .events = POLLIN };
		uint64_t left = (until_ns - now + MS - 1) / MS;
		poll(&p, 1, left < (uint64_t)ms ? (int)left : ms);
	}
	return ms >= 0 || s->stats.answered != answered;
}

void sandbox_ready(struct sandbox *s, unsigned lane)
{
	struct worker *w = &s->lane[lane].worker[0];
	if (!w->job && w->child.fd < 0)
		make_worker(s, w); /* if it cannot be made, the first job will show it */
}

void sandbox_retire(struct sandbox *s, unsigned lane)
{
	for (unsigned i = 0; i < SANDBOX_WORKERS; i++)
		if (!s->lane[lane].worker[i].job)
			retire_worker(s, &s->lane[lane].worker[i]);
}

int sandbox_spawn_reader(struct sandbox *s, struct sandbox_child *ret)
{
	struct sandbox_child c = SANDBOX_NO_CHILD;
	for (unsigned i = 0; i < 2; i++) { /* once more, of a new nursery */
		int rc = order_child(s, NURSERY_READER, &c);
		rc = rc ? rc : spawner_wait(&s->spawner, &c);
		if (!rc) {
			*ret = c;
			return 0;
		}
		if (rc != -EPIPE)
			return rc;
		lose_workers(s);
	}
	return -EAGAIN;
}

void sandbox_add_cpu(struct sandbox *s, uint64_t ns)
{
	s->stats.cpu_ns += ns;
}

void sandbox_stats(const struct sandbox *s, struct sandbox_stats *ret)
{
	*ret = s->stats;
}

static void list_free(struct job_list *l)
{
	for (struct sandbox_job *j = l->first, *next; j; j = next) {
		next = j->next;
		job_free(j);
	}
}

void sandbox_free(struct sandbox *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < SANDBOX_LANES; i++) {
		for (unsigned k = 0; k < SANDBOX_WORKERS; k++) {
			struct worker *w = &s->lane[i].worker[k];
			sandbox_child_kill(&w->child);
			retire_worker(s, w);
			if (w->job)
				job_free(w->job);
		}
		list_free(&s->lane[i].queue);
	}
	list_free(&s->answers);
	for (size_t i = 0; i < s->n_stuck; i++)
		sandbox_child_release(&s->stuck[i].child);
	spawner_free(&s->spawner);
	close(s->epoll);
	free(s);
}
