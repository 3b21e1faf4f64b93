/* SPDX-License-Identifier: Apache-2.0 */
/* Packets with descriptors, over a socket that keeps packets apart (SOCK_SEQPACKET). */
#ifndef ASCRIBE_UTIL_PACKET_H
#define ASCRIBE_UTIL_PACKET_H

#include <stddef.h>
#include <stdint.h>

/*
 * Send without waiting, the head and then the bytes as one packet, with at most PASSED_MAX
 * descriptors (passed.h). -EAGAIN: there is no room; -EPIPE: the other end is gone; -errno.
 */
int packet_send(int fd, const void *head, size_t head_len, const void *bytes, size_t len,
		const int *fds, size_t n_fds);

/*
 * Receive one packet of at most cap bytes and max descriptors (close-on-exec); a larger one is
 * refused with -EBADMSG. Where max is 0 none is opened here: to close one may wait for a server.
 * flags: of recvmsg. 0 in *ret_len: the other end has ended. -EAGAIN, -errno.
 */
int packet_recv(int fd, void *to, size_t cap, size_t *ret_len, int *fds, size_t max, size_t *ret_n,
		int flags);

#endif
