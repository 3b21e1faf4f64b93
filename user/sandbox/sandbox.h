/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign bytes are parsed where they can do no harm: in a child without privileges. It may read
 * the descriptors it is given, allocate within a limit, answer, and nothing else.
 *
 *   recorder -- WORKER, READER --> nursery -- fork --> worker     some workers per lane
 *      +------- job, descriptors, answer ----------------+
 *
 * The nursery is this program, executed anew (nursery.h): it and its workers hold nothing of ours.
 * A worker is confined (confine.h) before its first job. It serves one job after the other and is
 * replaced after some: what one file may have done to it ends there. One that misses its deadline
 * or dies costs its caller this one answer.
 *
 * Nobody waits for a worker: a job is queued, sandbox_tick moves all jobs on, and sandbox_take
 * fetches an answer.
 *
 *   sandbox_submit -> queued -> running -> done -> sandbox_take
 *                       ^          |
 *                       +- worker died, once: it may have been for what it kept of earlier jobs
 *
 * 1. A lane has one worker as long as that one answers within SANDBOX_SLOW_MS. While all of its
 *    workers take longer, another one serves the queue, up to SANDBOX_WORKERS and to what all lanes
 *    may have. One user has at most SANDBOX_WORKERS_USER. A worker of SANDBOX_KEEPING_LANE keeps
 *    the files that it unpacked, and another one would unpack them again: there, a worker may take
 *    SANDBOX_SLOW_KEEPING_MS, and time in the run queue does not count (child_clock.h).
 * 2. A late worker is killed and left to itself, since it may be in a read that no signal ends. Of
 *    a user who has SANDBOX_STUCK_USER such workers no job is taken until one of them has ended; in
 *    all there are SANDBOX_STUCK_MAX.
 * 3. The queue, and what one user has in it, is bounded. Answers that nobody takes are dropped
 *    after SANDBOX_KEEP_MS.
 * 4. A worker that keeps more than three quarters of its memory after a job is replaced. A job that
 *    has not enough memory in a worker that served others is run once more in a new one.
 *
 * Not thread-safe. The nursery dies with the thread that made it.
 */
#ifndef ASCRIBE_SANDBOX_SANDBOX_H
#define ASCRIBE_SANDBOX_SANDBOX_H

#include "sandbox/keeper.h"
#include "util/buf.h"
#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SANDBOX_FDS_MAX 4u
#define SANDBOX_LANES 2u
#define SANDBOX_REQUEST_MAX (1u << 20)
#define SANDBOX_REPLY_MAX (96u << 20)
#define SANDBOX_PRIORITY_MAX 2u
#define SANDBOX_WORKERS 4u /* of a lane */
#define SANDBOX_WORKERS_USER 2u
#define SANDBOX_SLOW_MS 50u
#define SANDBOX_KEEPING_LANE 1u
#define SANDBOX_SLOW_KEEPING_MS 250u
#define SANDBOX_QUEUE_MAX 1024u
#define SANDBOX_QUEUE_USER 512u
#define SANDBOX_KEEP_MS 10000u
#define SANDBOX_STUCK_USER 4u
#define SANDBOX_STUCK_MAX 32u

/*
 * What a worker does with one request: fill out and return 0, or return -errno (out then may hold a
 * text). The descriptors are closed by the caller. Also callable directly, without a sandbox.
 */
struct sandbox_request {
	const uint8_t *bytes;
	size_t len;
	const int *fds;
	size_t n_fds;
};
typedef int (*sandbox_op)(const struct sandbox_request *q, struct buf *out);

struct sandbox_config {
	const sandbox_op *ops; /* request n runs ops[n]; a constant of this program */
	size_t n_ops;
	/* Starts the nursery of this very configuration; NULL: this process does */
	keeper_op *nursery;
	void (*reader)(int fd); /* of a child of sandbox_order_reader; NULL: there are none */
	size_t memory;		/* bytes that a worker may allocate */
	/* At a time, of all lanes; 0: SANDBOX_WORKERS of each. A lane may always have one */
	unsigned workers;
	unsigned serves; /* requests until a worker is replaced */
};

struct sandbox_stats {
	uint64_t calls, spawned;
	uint64_t answered; /* jobs that are done, whatever came of them */
	/* Jobs that were not taken: the queue was full, or their user's workers do not end */
	uint64_t full;
	uint64_t late; /* workers that missed a deadline, and were killed */
	/*
	 * Of these, those that had not been given the time: the machine was busy, or their file was
	 * slow
	 */
	uint64_t stalled;
	uint64_t restarted; /* nurseries that had been killed, or did not answer */
	/* workers that ended by themselves: out of memory, a forbidden call, a crash */
	uint64_t died;
	size_t memory_max; /* bytes that all workers together may allocate */
	uint64_t cpu_ns;   /* CPU time of readers, and of workers for calls, answered or not */
};

struct sandbox;

/* Start the nursery. */
int sandbox_new(struct sandbox **ret, const struct sandbox_config *cfg, struct err *err);
void sandbox_free(struct sandbox *s);

/* What to run: ops[op] on a worker of the lane, for a user. Bytes and descriptors are copied. */
struct sandbox_call {
	unsigned lane, op;
	uint32_t user;
	const void *bytes;
	size_t len;
	const int *fds;
	size_t n_fds;
	/*
	 * 0 to SANDBOX_PRIORITY_MAX. Of one user those of a higher one go first; of several users
	 * each waits for few.
	 */
	unsigned priority;
	unsigned deadline_ms; /* from when it begins to run */
	size_t max_reply;
};

/*
 * A job belongs to the caller, until sandbox_take or sandbox_cancel, which must come before
 * sandbox_free.
 */
struct sandbox_job;

/* 0; -EINVAL: no such priority; -E2BIG; -EBUSY: there is no room now; -errno. */
int sandbox_submit(struct sandbox *s, const struct sandbox_call *call, struct sandbox_job **ret);

/*
 * -EINPROGRESS: it is not done. Else the job is freed, and *io_job is NULL. The op's own result,
 * with what it wrote in reply (initialized by the caller); -ETIMEDOUT after deadline_ms; -ECHILD
 * when the worker died; -E2BIG for an answer of more than max_reply. -EAGAIN: nothing was learnt
 * about what it was to read: it missed the deadline without having run for half of it, or no worker
 * could be made. *ret_cpu_ns: CPU time that the worker spent.
 */
int sandbox_take(struct sandbox_job **io_job, struct buf *reply, uint64_t *ret_cpu_ns);

/*
 * Wait for an answer, for those who have nothing else to do: as sandbox_submit and sandbox_take.
 * -ETIMEDOUT also where the job has not ended in twice its deadline.
 */
int sandbox_ask(struct sandbox *s, const struct sandbox_call *call, struct buf *reply);

/* NULL is fine. *io_job is NULL then. */
void sandbox_cancel(struct sandbox_job **io_job);

/*
 * Move all jobs on, as far as that needs no waiting. In how many ms it is to be called again, -1:
 * nothing is under way.
 */
int sandbox_tick(struct sandbox *s);

/* Readable when sandbox_tick has something to do. */
int sandbox_fd(const struct sandbox *s);

/*
 * Tick until a job is done, or it is until_ns (CLOCK_MONOTONIC): for tests and tools. False: no job
 * is under way.
 */
bool sandbox_wait(struct sandbox *s, uint64_t until_ns);

/* A child of the nursery: our end of its socket, and what it is signalled by. */
struct sandbox_child {
	int fd, pidfd; /* -1: none */
	pid_t pid;
};
#define SANDBOX_NO_CHILD ((struct sandbox_child){ .fd = -1, .pidfd = -1 })

/*
 * Order a child that runs cfg.reader and keeps our user and our capabilities. to->fd is usable at
 * once. pid and pidfd come with sandbox_tick or sandbox_find_readers; when no child could be made,
 * fd is -1 then. 0 or -errno.
 */
int sandbox_order_reader(struct sandbox *s, struct sandbox_child *to);
void sandbox_find_readers(struct sandbox *s);
/*
 * Close the descriptors of a reader: it ends. One whose pid has not come is killed when it comes.
 */
void sandbox_drop_reader(struct sandbox *s, struct sandbox_child *to);
/* Kill a reader; it is not waited for. */
void sandbox_child_kill(const struct sandbox_child *c);
/* Close both descriptors. One that listens then ends. */
void sandbox_child_release(struct sandbox_child *c);

/* Have a worker of the lane made now, so that its first job need not wait for that. */
void sandbox_ready(struct sandbox *s, unsigned lane);

/*
 * Workers that are made from now on may allocate so much, and so many may be there. Those with
 * other limits go when idle.
 */
void sandbox_limit(struct sandbox *s, size_t memory, unsigned workers);

/* Idle workers of a lane go; the next job gets a new one. */
void sandbox_retire(struct sandbox *s, unsigned lane);

/* Count CPU time of a reader with that of workers. */
void sandbox_add_cpu(struct sandbox *s, uint64_t ns);

void sandbox_stats(const struct sandbox *s, struct sandbox_stats *ret);

#endif
