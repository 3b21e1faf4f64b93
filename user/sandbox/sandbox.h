/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign bytes are parsed where they can do no harm: in a child without privileges that may read the descriptors it is given,
 * allocate within a limit, answer, and nothing else.
 *
 *   recorder -- WORKER, READER --> nursery -- fork --> worker     one worker per lane
 *      +------------- request, descriptors, answer ------+
 *
 * The nursery is this program, executed anew (nursery.h): it and its workers hold nothing of ours. A worker is confined
 * (confine.h) before its first request. It serves one request after the other and is replaced after some: what one file may
 * have done to it ends there. One that misses its deadline or dies costs its caller this one answer.
 *
 * Nothing here waits for a child to end: it is killed and left to itself, since it may be in a read that no signal ends. A
 * nursery that is killed, or does not answer within 2 s, is replaced.
 *
 * Not thread-safe. The nursery dies with the thread that made it.
 */
#ifndef ASCRIBE_SANDBOX_SANDBOX_H
#define ASCRIBE_SANDBOX_SANDBOX_H

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

/*
 * What a worker does with one request: fill out and return 0, or return -errno (out then may hold a text). The descriptors are
 * closed by the caller. Also callable directly, without a sandbox.
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
	void (*reader)(int fd); /* of a child of sandbox_spawn_reader; NULL: there are none */
	size_t memory;         /* bytes that a worker may allocate */
	unsigned serves;       /* requests until a worker is replaced */
};

struct sandbox_stats {
	uint64_t calls, spawned;
	uint64_t late; /* workers that missed a deadline, and were killed */
	uint64_t stalled; /* of these, those that had not been given the time: the machine was busy, or their file was slow */
	uint64_t restarted; /* nurseries that had been killed, or did not answer */
	uint64_t died; /* workers that ended by themselves: out of memory, a forbidden call, a crash */
	uint64_t cpu_ns; /* CPU time of readers, and of workers for calls, answered or not */
};

struct sandbox;

/* Start the nursery. */
int sandbox_new(struct sandbox **ret, const struct sandbox_config *cfg, struct err *err);
void sandbox_free(struct sandbox *s);

/*
 * Run ops[op] on the lane's worker. Descriptors are borrowed. The op's own result, with what it wrote in reply (initialized,
 * emptied first); -ETIMEDOUT after deadline_ms; -ECHILD when the worker died; -E2BIG for an answer of more than max_reply.
 *
 * -EAGAIN: nothing was learnt about what it was to read: it missed the deadline without having run for half of it, or no worker could
 * be made. For a while after that, longer each time, every call is -EBUSY at once: the caller has other work to do.
 */
struct sandbox_call {
	unsigned lane, op;
	const void *bytes;
	size_t len;
	const int *fds;
	size_t n_fds;
	unsigned deadline_ms;
	size_t max_reply;
};
int sandbox_run(struct sandbox *s, const struct sandbox_call *call, struct buf *reply);

/*
 * While an answer is waited for: when fd can be read, ready(ctx) is called, until it returns false. It must not ask the sandbox for
 * anything. fd -1: nothing is done meanwhile.
 */
void sandbox_meanwhile(struct sandbox *s, int fd, bool (*ready)(void *ctx), void *ctx);

/* Have the worker of a lane made now, so that its first request need not wait for that. */
void sandbox_ready(struct sandbox *s, unsigned lane);

/* A child of the nursery: our end of its socket, and what it is signalled by. */
struct sandbox_child {
	int fd, pidfd; /* -1: none */
	pid_t pid;
};
#define SANDBOX_NO_CHILD ((struct sandbox_child){ .fd = -1, .pidfd = -1 })

/* Have cfg.reader run in a child that keeps our user and our capabilities. 0 or -errno. */
int sandbox_spawn_reader(struct sandbox *s, struct sandbox_child *ret);
/* Kill it; it is not waited for. */
void sandbox_child_kill(const struct sandbox_child *c);
/* Close both descriptors. One that listens then ends. */
void sandbox_child_release(struct sandbox_child *c);

/* The worker of a lane goes; the next request gets a new one. */
void sandbox_retire(struct sandbox *s, unsigned lane);

/* CPU time of a reader, to be told with that of workers. */
void sandbox_add_cpu(struct sandbox *s, uint64_t ns);

void sandbox_stats(const struct sandbox *s, struct sandbox_stats *ret);

#endif
