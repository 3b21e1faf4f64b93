/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a child that works on one question. */
#ifndef ASCRIBE_SANDBOX_CHILD_END_H
#define ASCRIBE_SANDBOX_CHILD_END_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Wait until the child ends, and reap it. It is killed when wait_s are over (-ETIME), when nobody
 * is at the other end of the socket any more who wants its answer (-EPIPE), and when may_go_on, if
 * there is one, says no (-EFBIG): it is asked five times a second. A child that was taken over can
 * end its own alarm, so there is none. *ret_status: of waitpid.
 */
int child_end(pid_t pid, int socket, unsigned wait_s, bool (*may_go_on)(const void *ctx),
	      const void *ctx, int *ret_status);

#endif
