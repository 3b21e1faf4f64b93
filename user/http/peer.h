/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of a Unix socket. */
#ifndef ASCRIBE_HTTP_PEER_H
#define ASCRIBE_HTTP_PEER_H

#include <stdbool.h>

struct MHD_Connection;

/*
 * True for root and for members of this process's group, as they were when they connected. False on
 * sockets of the internet, and for who has more than 1,024 groups.
 */
bool peer_is_member(struct MHD_Connection *c);

#endif
