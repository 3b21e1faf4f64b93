/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of the keeper, and who is kept elsewhere: they may have another user, whom a recorder
 * without capabilities cannot signal. Numbers of children are their own until kept_has_ended.
 * Without a keeper: children of this process.
 */
#ifndef ASCRIBE_SANDBOX_KEPT_H
#define ASCRIBE_SANDBOX_KEPT_H

#include "sandbox/keeper.h"

#include <sys/resource.h>
#include <sys/types.h>

keeper_op kept_op; /* for the keeper's table */

/*
 * In the keeper: who may be killed though it is no child, because others start and reap it. look:
 * true where this is such a process, as long as it lives; end: kill it, too.
 */
void kept_elsewhere(bool (*look)(pid_t pid, bool end));

struct kept_end {
	int status; /* of waitpid */
	struct rusage used;
};

/* Ask op to start a child with these descriptors: its pid. 0 or -errno. */
int kept_start(keeper_op *op, const struct keeper_question *q, pid_t *ret_pid, struct err *err);
/*
 * In the keeper: the answer of such an op. -EAGAIN: KEPT_MAX others have not been reaped yet, and
 * the child was killed.
 */
int kept_started(struct keeper_answer *ret, pid_t pid, struct err *err);

/* 16 that ask JVMs, 8 receivers of `push`; nurseries, servers and captures, and those before. */
#define KEPT_MAX 40u

void kept_kill(pid_t pid);

/*
 * True: it has ended, or its keeper has; its number may be another one's from now on. ret: NULL, or
 * how it ended; zeroed where nobody knows.
 */
bool kept_has_ended(pid_t pid, struct kept_end *ret);

/* Wait for its end, at most so long. True: it has ended. */
bool kept_await(pid_t pid, unsigned wait_ms);

#endif
