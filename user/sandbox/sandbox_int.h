/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the sandbox:
 *
 *   sandbox.c  jobs and their queue, what callers use
 *   worker.c   workers: make, talk to and kill them
 */
#ifndef ASCRIBE_SANDBOX_SANDBOX_INT_H
#define ASCRIBE_SANDBOX_SANDBOX_INT_H

#include "sandbox/channel.h"
#include "sandbox/child_clock.h"
#include "sandbox/sandbox.h"
#include "sandbox/spawner.h"

#include <sys/queue.h>

#define MS 1000000ull

enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_DONE };

struct sandbox_job {
	TAILQ_ENTRY(sandbox_job) link;
	struct job_list *list; /* the queue of its lane, or answers; NULL: it is running */
	enum job_state state;
	unsigned lane, op, priority, deadline_ms;
	uint32_t user;
	uint64_t turn; /* in the queue: see job_list */
	bool retried;  /* it killed a worker that had served others */
	bool unwanted; /* cancelled while it runs */
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
	size_t memory;		   /* that it may allocate */
	uint64_t begin_ns, ran_ns; /* of its job; ran_ns: its CPU time before */
	struct child_clock clock;  /* of its job */
	/* When to look next whether its job is slow; UINT64_MAX: it is */
	uint64_t look_ns;
	size_t sent; /* bytes of the job; len: all */
	struct channel_head head;
	bool has_head;
	size_t got; /* bytes behind the head */
	bool ready; /* its socket can be read, or written to where bytes are left to send */
};

/*
 * A queue is sorted by turn, then by priority. The first job of a user has the turn of the job that
 * was started last, each further one the next turn: so users take turns, however many jobs they
 * have (start-time fair queueing). A job of a lower priority has a later turn. So it goes after its
 * user's jobs of a higher priority, and waits for few of others.
 */
struct job_list {
	TAILQ_HEAD(, sandbox_job) jobs;
	uint64_t turn; /* of the job that was started last */
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
	uint64_t watched;   /* spawner.started, of the nursery that is in epoll */
	bool nursery_ready; /* its socket can be read */
	struct lane lane[SANDBOX_LANES];
	struct job_list answers, old; /* old: those whose memory is freed */
	struct stuck stuck[SANDBOX_STUCK_MAX];
	size_t n_stuck;
	struct sandbox_stats stats;
};

/* ---- sandbox.c ---- */

void job_free(struct sandbox_job *j);

/* It is done, with this result. */
void job_end(struct sandbox *s, struct sandbox_job *j, int rc);

/* Its worker was lost: another one tries, once. */
void job_again(struct sandbox *s, struct sandbox_job *j, int rc);

/* CLOCK_MONOTONIC ns that a job may take until another worker helps. */
static inline uint64_t lane_slow_ns(unsigned lane)
{
	return (lane == SANDBOX_KEEPING_LANE ? SANDBOX_SLOW_KEEPING_MS : SANDBOX_SLOW_MS) * MS;
}

/* ---- worker.c ---- */

/* Wait for the nursery's answers in epoll. */
void workers_watch_nursery(struct sandbox *s);

/* Order a child of the nursery; where that is lost, of a new one. 0 or -errno. */
int workers_order(struct sandbox *s, enum nursery_order order, struct sandbox_child *to);

/* Have a worker made in this place. It can be used at once. 0 or -errno. */
int worker_make(struct sandbox *s, struct worker *w);

/* It sees its socket closed, and ends. */
void worker_retire(struct sandbox *s, struct worker *w);

/* Send it a job. */
void worker_begin(struct sandbox *s, struct worker *w, struct sandbox_job *j);

/* Send and receive what can be now. A late worker is killed. */
void worker_move_on(struct sandbox *s, struct worker *w, uint64_t now);

/* All workers ended with their nursery. */
void workers_lose(struct sandbox *s);

/* Ask epoll who can be talked to; idle workers that have ended are retired. */
void workers_find_ready(struct sandbox *s);

/* Forget the stuck workers that have ended meanwhile. How many are left of this user? */
size_t workers_stuck(struct sandbox *s, uint32_t user);

#endif
