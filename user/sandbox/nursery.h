/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that forks helpers: workers that parse, and readers. It is this program, executed
 * anew, so that its memory holds no setting, token or key of the recorder, and so that it can be
 * started again at any time. It keeps the recorder's user, who alone can signal it, and never sees
 * a foreign byte.
 */
#ifndef ASCRIBE_SANDBOX_NURSERY_H
#define ASCRIBE_SANDBOX_NURSERY_H

#include "sandbox/keeper.h"
#include "sandbox/sandbox.h"

#include <sys/types.h>

/*
 * Sent with the helper's end of a socket. Answered by its pid in value and its pidfd, or by -errno
 * in what.
 */
enum nursery_order {
	NURSERY_WORKER = 1, /* parses: nobody's user, no capability, seccomp */
	/* Runs cfg.reader: no capability but those that reading other processes takes */
	NURSERY_READER = 2,
	/* No socket, no answer: kills the child whose pid is the value */
	NURSERY_KILL = 3,
};

/*
 * Start it: its pid, and our end of its socket. cfg.ops and cfg.reader are objects of this program.
 * 0 or -errno.
 */
int nursery_start(const struct sandbox_config *cfg, pid_t *ret_pid, int *ret_fd);

/* In cfg->nursery: start it with the socket that is in the question; the answer of kept_start. */
int nursery_answer(const struct sandbox_config *cfg, const struct keeper_question *q,
		   struct keeper_answer *ret, struct err *err);

#endif
