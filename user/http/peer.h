/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of a Unix socket. */
#ifndef ASCRIBE_HTTP_PEER_H
#define ASCRIBE_HTTP_PEER_H

#include <stdbool.h>
#include <stdint.h>

/* As it was when it connected. */
struct peer {
	int64_t uid; /* -1: not known */
	/* Root, or of this process's group; false for who has more than 1,024 groups */
	bool member;
};

/* On sockets of the internet nobody is known. */
struct peer peer_of(int fd);

#endif
