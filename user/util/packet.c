/* SPDX-License-Identifier: Apache-2.0 */
#include "util/packet.h"

#include "util/passed.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

int packet_send(int fd, const void *head, size_t head_len, const void *bytes, size_t len,
		const int *fds, size_t n_fds)
{
	union passed room;
	struct iovec iov[2] = { { (void *)(uintptr_t)head, head_len },
				{ (void *)(uintptr_t)bytes, len } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = len ? 2 : 1 };
	if (n_fds > PASSED_MAX)
		return -EINVAL;
	passed_attach(&m, &room, fds, n_fds);
	ssize_t n;
	while ((n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR)
		;
	return n >= 0 ? 0 : errno == ECONNRESET ? -EPIPE : errno == ENOBUFS ? -EAGAIN : -errno;
}

int packet_recv(int fd, void *to, size_t cap, size_t *ret_len, int *fds, size_t max, size_t *ret_n,
		int flags)
{
	union passed room;
	struct iovec iov = { to, cap };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = max ? room.bytes : NULL,
			    .msg_controllen = max ? sizeof(room.bytes) : 0 };
	ssize_t n;
	while ((n = recvmsg(fd, &m, flags | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	size_t got = passed_take(&m, fds, max);
	if (got > max || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		for (size_t i = 0; i < got && i < max; i++)
			close(fds[i]);
		return -EBADMSG;
	}
	*ret_len = (size_t)n;
	*ret_n = got;
	return 0;
}
