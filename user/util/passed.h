/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that a message over a unix socket passes (SCM_RIGHTS, unix(7)). */
#ifndef ASCRIBE_UTIL_PASSED_H
#define ASCRIBE_UTIL_PASSED_H

#include <stddef.h>
#include <sys/socket.h>

#define PASSED_MAX 40u /* of one message */

/* Room for them, as a message has it. */
union passed {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(PASSED_MAX * sizeof(int))];
};

/* Pass n descriptors, at most PASSED_MAX, with m, which refers to room. */
void passed_attach(struct msghdr *m, union passed *room, const int *fds, size_t n);

/* Return how many came with m: those beyond max are closed. */
size_t passed_take(struct msghdr *m, int *fds, size_t max);

#endif
