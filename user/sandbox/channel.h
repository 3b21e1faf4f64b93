/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages over a stream socket: a head of 16 bytes, with descriptors attached to it, then len
 * bytes. Both ends are this program on this machine, so the head is a C structure; the bytes are
 * the business of who sends them.
 */
#ifndef ASCRIBE_SANDBOX_CHANNEL_H
#define ASCRIBE_SANDBOX_CHANNEL_H

#include "sandbox/sandbox.h"

struct channel_head {
	int32_t what; /* the op, or the result */
	uint32_t len;
	uint64_t value;
};

#define CHANNEL_FOREVER 0

/*
 * until_ns: CLOCK_MONOTONIC, CHANNEL_FOREVER waits. -ETIMEDOUT, -EPIPE (the other end is gone),
 * -errno.
 */
int channel_send(int fd, const struct channel_head *h, const void *bytes, const int *fds,
		 size_t n_fds, uint64_t until_ns);

/* The head alone, with descriptors, without waiting; -EAGAIN: there is no room. */
int channel_send_head(int fd, const struct channel_head *h, const int *fds, size_t n_fds);
int channel_recv(int fd, void *out, size_t len, uint64_t until_ns);

/* A head with its descriptors (close-on-exec); more than max are refused with -EBADMSG. */
int channel_recv_head(int fd, struct channel_head *h, int *fds, size_t max, size_t *ret_n,
		      uint64_t until_ns);

uint64_t channel_now_ns(void);

#endif
