/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandbox_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* How many turns later a job comes for each step by which its priority is lower */
#define TURNS_OF_PRIORITY 2

/* ---- lists ---- */

static void list_init(struct job_list *l)
{
	TAILQ_INIT(&l->jobs);
}

static void list_add(struct job_list *l, struct sandbox_job *j)
{
	TAILQ_INSERT_TAIL(&l->jobs, j, link);
	j->list = l;
	l->n++;
}

/*
 * Insert a job after all jobs of an earlier turn, and of the same turn and a priority that is not
 * lower.
 */
static void list_queue(struct job_list *l, struct sandbox_job *j)
{
	struct sandbox_job *k;
	j->turn = l->turn + (uint64_t)(SANDBOX_PRIORITY_MAX - j->priority) * TURNS_OF_PRIORITY;
	TAILQ_FOREACH (k, &l->jobs, link)
		if (k->user == j->user && k->priority >= j->priority && k->turn >= j->turn)
			j->turn = k->turn + 1;
	TAILQ_FOREACH (k, &l->jobs, link)
		if (k->turn > j->turn || (k->turn == j->turn && k->priority < j->priority))
			break;
	if (k)
		TAILQ_INSERT_BEFORE(k, j, link);
	else
		TAILQ_INSERT_TAIL(&l->jobs, j, link);
	j->list = l;
	l->n++;
}

static void list_take(struct sandbox_job *j)
{
	TAILQ_REMOVE(&j->list->jobs, j, link);
	j->list->n--;
	j->list = NULL;
}

int sandbox_new(struct sandbox **ret, const struct sandbox_config *cfg, struct err *err)
{
	struct sandbox *s = calloc(1, sizeof(*s));
	if (!s)
		return err_sys(err, -ENOMEM, "sandbox");
	s->cfg = *cfg;
	list_init(&s->answers);
	list_init(&s->old);
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
	workers_watch_nursery(s);
	*ret = s;
	return 0;
}

/* ---- the end of a job ---- */

void job_free(struct sandbox_job *j)
{
	for (size_t i = 0; i < j->n_fds; i++)
		close(j->fds[i]);
	buf_fini(&j->reply);
	free(j);
}

void job_end(struct sandbox *s, struct sandbox_job *j, int rc)
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

void job_again(struct sandbox *s, struct sandbox_job *j, int rc)
{
	if (j->retried || j->unwanted) {
		job_end(s, j, rc);
		return;
	}
	j->retried = true;
	j->state = JOB_QUEUED;
	list_queue(&s->lane[j->lane].queue, j);
}

/* ---- the queue ---- */

/*
 * True if the lane may have one more worker. Reserve one for each lane without any. Count killed
 * workers until they end.
 */
static bool may_grow(const struct sandbox *s, const struct lane *of)
{
	size_t n = s->n_stuck, own = 0;
	if (!s->cfg.workers)
		return true;
	for (unsigned i = 0; i < SANDBOX_LANES; i++) {
		size_t here = 0;
		for (unsigned k = 0; k < SANDBOX_WORKERS; k++)
			here += s->lane[i].worker[k].child.fd >= 0;
		n += here ? here : 1;
		own += &s->lane[i] == of ? here : 0;
	}
	return !own || n < s->cfg.workers;
}

/*
 * Is the worker's job slow? In the lane whose workers keep files time in the run queue does not
 * count: where CPUs are busy another worker would unpack the same files, and make them busier.
 */
static bool is_slow(struct worker *w, uint64_t now)
{
	const uint64_t slow = lane_slow_ns(w->job->lane);
	if (w->job->lane != SANDBOX_KEEPING_LANE)
		return now >= w->look_ns;
	if (w->look_ns != UINT64_MAX && now >= w->look_ns) {
		uint64_t used = child_clock_used_ns(&w->clock, w->child.pid, now);
		w->look_ns = used >= slow ? UINT64_MAX : now + (slow - used) / 2 + MS;
	}
	return w->look_ns == UINT64_MAX;
}

/* Return an idle worker, or a free slot for a new one if all workers are slow. NULL: none now. */
static struct worker *find_worker(const struct sandbox *s, struct lane *l, uint64_t now)
{
	struct worker *none = NULL;
	bool slow = true;
	for (unsigned i = 0; i < SANDBOX_WORKERS; i++) {
		struct worker *w = &l->worker[i];
		if (!w->job && w->child.fd >= 0)
			return w;
		if (!w->job && !none)
			none = w;
		slow &= !w->job || is_slow(w, now);
	}
	return slow && none && may_grow(s, l) ? none : NULL;
}

static unsigned count_running(const struct lane *l, uint32_t user)
{
	unsigned n = 0;
	for (unsigned i = 0; i < SANDBOX_WORKERS; i++)
		n += l->worker[i].job && l->worker[i].job->user == user;
	return n;
}

/* Find the first job of a user with fewer than SANDBOX_WORKERS_USER running jobs, or NULL. */
static struct sandbox_job *next_job(const struct lane *l)
{
	struct sandbox_job *j;
	TAILQ_FOREACH (j, &l->queue.jobs, link)
		if (count_running(l, j->user) < SANDBOX_WORKERS_USER)
			break;
	return j;
}

static void begin_jobs(struct sandbox *s, struct lane *l, uint64_t now)
{
	struct sandbox_job *j;
	struct worker *w;
	while ((j = next_job(l)) && (w = find_worker(s, l, now))) {
		list_take(j);
		if (j->turn > l->queue.turn)
			l->queue.turn = j->turn;
		if (w->child.fd < 0 && worker_make(s, w))
			job_end(s, j, -EAGAIN);
		else
			worker_begin(s, w, j);
	}
	for (unsigned i = 1; i < SANDBOX_WORKERS; i++) /* one is enough where none is slow */
		if (!l->queue.n && !l->worker[i].job && l->worker[i].child.fd >= 0)
			worker_retire(s, &l->worker[i]);
}

/* Free the memory of answers that were not taken for SANDBOX_KEEP_MS. */
static void drop_old(struct sandbox *s, uint64_t now)
{
	struct sandbox_job *j;
	while ((j = TAILQ_FIRST(&s->answers.jobs)) && now >= j->done_ns + SANDBOX_KEEP_MS * MS) {
		if (j->reply.data)
			j->rc = -EAGAIN;
		buf_fini(&j->reply);
		list_take(j);
		list_add(&s->old, j);
	}
}

/* ---- for callers ---- */

/* True if all users together, or this user alone, have too many jobs in the queues. */
static bool is_full(const struct sandbox *s, uint32_t user)
{
	const struct sandbox_job *j;
	size_t n = s->answers.n + s->old.n, own = 0;
	for (unsigned i = 0; i < SANDBOX_LANES; i++)
		n += s->lane[i].queue.n;
	if (n < SANDBOX_QUEUE_USER)
		return false;
	for (unsigned i = 0; i < SANDBOX_LANES; i++)
		TAILQ_FOREACH (j, &s->lane[i].queue.jobs, link)
			own += j->user == user;
	return n >= SANDBOX_QUEUE_MAX || own >= SANDBOX_QUEUE_USER;
}

int sandbox_submit(struct sandbox *s, const struct sandbox_call *call, struct sandbox_job **ret)
{
	if (call->priority > SANDBOX_PRIORITY_MAX)
		return -EINVAL;
	if (call->len > SANDBOX_REQUEST_MAX || call->n_fds > SANDBOX_FDS_MAX)
		return -E2BIG;
	if (is_full(s, call->user) ||
	    (s->n_stuck && (workers_stuck(s, call->user) >= SANDBOX_STUCK_USER ||
			    s->n_stuck == SANDBOX_STUCK_MAX))) {
		s->stats.full++;
		return -EBUSY;
	}
	struct sandbox_job *j = calloc(1, sizeof(*j) + call->len);
	if (!j)
		return -ENOMEM;
	*j = (struct sandbox_job){ .lane = call->lane,
				   .op = call->op,
				   .deadline_ms = call->deadline_ms,
				   .user = call->user,
				   .priority = call->priority,
				   .len = call->len,
				   .max_reply = call->max_reply,
				   .reply = BUF_INIT };
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
	list_queue(&l->queue, j);
	begin_jobs(s, l, channel_now_ns());
	*ret = j;
	return 0;
}

int sandbox_take(struct sandbox_job **io_job, struct buf *reply, uint64_t *ret_cpu_ns)
{
	struct sandbox_job *j = *io_job;
	if (j->state != JOB_DONE)
		return -EINPROGRESS;
	int rc = j->rc;
	*ret_cpu_ns = j->cpu_ns;
	buf_fini(reply);
	*reply = j->reply;
	j->reply = (struct buf)BUF_INIT;
	sandbox_cancel(io_job);
	return rc;
}

void sandbox_cancel(struct sandbox_job **io_job)
{
	struct sandbox_job *j = *io_job;
	*io_job = NULL;
	if (!j)
		return;
	if (j->state == JOB_RUNNING) {
		j->unwanted = true;
		return;
	}
	list_take(j);
	job_free(j);
}

/* Return the time of the next deadline; UINT64_MAX: no job is running. */
static uint64_t due_ns(const struct sandbox *s)
{
	uint64_t due = spawner_due_ns(&s->spawner);
	for (unsigned i = 0; i < SANDBOX_LANES; i++) {
		const struct lane *l = &s->lane[i];
		for (unsigned k = 0; k < SANDBOX_WORKERS; k++) {
			const struct worker *w = &l->worker[k];
			if (!w->job)
				continue;
			uint64_t late = w->clock.look_ns;
			if (l->queue.n && w->look_ns > channel_now_ns() && w->look_ns < late)
				late = w->look_ns;
			due = late < due ? late : due;
		}
	}
	return due;
}

int sandbox_tick(struct sandbox *s)
{
	workers_find_ready(s);
	uint64_t now = channel_now_ns();
	bool look = s->nursery_ready || now >= spawner_due_ns(&s->spawner);
	s->nursery_ready = false;
	if (look && spawner_read(&s->spawner))
		workers_lose(s);
	for (unsigned i = 0; i < SANDBOX_LANES; i++) {
		for (unsigned k = 0; k < SANDBOX_WORKERS; k++) {
			struct worker *w = &s->lane[i].worker[k];
			if (w->job && (w->ready || w->child.fd < 0 || now >= w->clock.look_ns))
				worker_move_on(s, w, now);
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
	while ((ms = sandbox_tick(s)) >= 0 && s->stats.answered == answered &&
	       (now = channel_now_ns()) < until_ns) {
		struct pollfd p = { .fd = s->epoll, .events = POLLIN };
		uint64_t left = (until_ns - now + MS - 1) / MS;
		poll(&p, 1, left < (uint64_t)ms ? (int)left : ms);
	}
	return ms >= 0 || s->stats.answered != answered;
}

int sandbox_ask(struct sandbox *s, const struct sandbox_call *call, struct buf *reply)
{
	const uint64_t until_ns = channel_now_ns() + 2ull * call->deadline_ms * MS;
	struct sandbox_job *job = NULL;
	uint64_t cpu_ns;
	int rc = sandbox_submit(s, call, &job);
	rc = rc ? rc : -EINPROGRESS;
	while (rc == -EINPROGRESS && channel_now_ns() < until_ns) {
		sandbox_wait(s, until_ns);
		rc = sandbox_take(&job, reply, &cpu_ns);
	}
	sandbox_cancel(&job);
	return rc == -EINPROGRESS ? -ETIMEDOUT : rc;
}

void sandbox_ready(struct sandbox *s, unsigned lane)
{
	struct worker *w = &s->lane[lane].worker[0];
	if (!w->job && w->child.fd < 0)
		worker_make(s, w); /* if it cannot be made, the first job will show it */
}

void sandbox_retire(struct sandbox *s, unsigned lane)
{
	for (unsigned i = 0; i < SANDBOX_WORKERS; i++)
		if (!s->lane[lane].worker[i].job)
			worker_retire(s, &s->lane[lane].worker[i]);
}

void sandbox_limit(struct sandbox *s, size_t memory, unsigned workers)
{
	bool other = memory != s->cfg.memory;
	s->cfg.memory = memory;
	s->cfg.workers = workers && workers < SANDBOX_LANES ? SANDBOX_LANES : workers;
	for (unsigned lane = 0; other && lane < SANDBOX_LANES; lane++)
		sandbox_retire(s, lane);
}

int sandbox_order_reader(struct sandbox *s, struct sandbox_child *to)
{
	return workers_order(s, NURSERY_READER, to);
}

void sandbox_find_readers(struct sandbox *s)
{
	if (spawner_read(&s->spawner))
		workers_lose(s);
}

void sandbox_drop_reader(struct sandbox *s, struct sandbox_child *to)
{
	spawner_forget(&s->spawner, to);
	sandbox_child_release(to);
}

void sandbox_add_cpu(struct sandbox *s, uint64_t ns)
{
	s->stats.cpu_ns += ns;
}

void sandbox_stats(const struct sandbox *s, struct sandbox_stats *ret)
{
	*ret = s->stats;
	ret->memory_max =
		s->cfg.memory * (s->cfg.workers ? s->cfg.workers : SANDBOX_LANES * SANDBOX_WORKERS);
}

static void list_free(struct job_list *l)
{
	struct sandbox_job *j;
	while ((j = TAILQ_FIRST(&l->jobs))) {
		list_take(j);
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
			spawner_kill(&s->spawner, &w->child);
			worker_retire(s, w);
			if (w->job)
				job_free(w->job);
		}
		list_free(&s->lane[i].queue);
	}
	list_free(&s->answers);
	list_free(&s->old);
	for (size_t i = 0; i < s->n_stuck; i++)
		sandbox_child_release(&s->stuck[i].child);
	spawner_free(&s->spawner);
	close(s->epoll);
	free(s);
}
