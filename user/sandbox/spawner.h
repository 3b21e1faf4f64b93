/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order children of the nursery, and take its answers when they come.
 *
 * A child can be used at once: our end of its socket is there before the nursery has forked. What
 * it is signalled by comes with the answer. A nursery that is killed, or does not answer within
 * SPAWNER_ANSWER_MS, is killed with its children; the next order starts another one. Nothing here
 * waits but spawner_free.
 */
#ifndef ASCRIBE_SANDBOX_SPAWNER_H
#define ASCRIBE_SANDBOX_SPAWNER_H

#include "sandbox/child_clock.h"
#include "sandbox/nursery.h"
#include "sandbox/sandbox.h"

#define SPAWNER_ORDERS_MAX 16u
#define SPAWNER_ANSWER_MS 1000u

struct spawner {
	const struct sandbox_config *cfg;
	int fd; /* of the nursery's socket; -1: there is none, the next order starts one */
	pid_t pid;
	pid_t killed; /* a nursery that was not reaped yet; 0: none */
	struct order {
		struct sandbox_child *to; /* NULL: nobody wants the child any more */
	} order[SPAWNER_ORDERS_MAX];	  /* without an answer, oldest first */
	unsigned n;
	struct child_clock clock; /* of the nursery, since the oldest order is that */
	uint64_t started;	  /* nurseries */
};

/* Start the nursery. cfg is borrowed until spawner_free. */
int spawner_init(struct spawner *sp, const struct sandbox_config *cfg);
void spawner_free(struct spawner *sp);

/*
 * Order a child; memory: what a worker may allocate. to->fd is our end of its socket; pid and pidfd
 * follow. When no child could be made, to->fd is -1 again after some spawner_read. 0; -EPIPE: as
 * spawner_read, the next order goes to a new nursery; -errno.
 */
int spawner_order(struct spawner *sp, enum nursery_order order, size_t memory,
		  struct sandbox_child *to);

/* Nobody waits for the pid of this child any more: it is killed when it comes. */
void spawner_forget(struct spawner *sp, const struct sandbox_child *to);

/* Kill a worker, whose user is another one than ours. It is not waited for. */
void spawner_kill(struct spawner *sp, const struct sandbox_child *c);

/* Take the answers that are there. -EPIPE: the nursery is lost, and all of its children with it. */
int spawner_read(struct spawner *sp);

/*
 * CLOCK_MONOTONIC: when spawner_read is to be called at the latest; UINT64_MAX: no answer is
 * missing.
 */
uint64_t spawner_due_ns(const struct spawner *sp);

#endif
