/* SPDX-License-Identifier: Apache-2.0 */
#include "util/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(PACKET_FDS_MAX * sizeof(int))];
};

int packet_send(int fd, const void *head, size_t head_len, const void *bytes, size_t len,
		const int *fds, size_t n_fds)
{
	union control c = { 0 };
	struct iovec iov[2] = { { (void *)(uintptr_t)head, head_len },
				{ (void *)(uintptr_t)bytes, len } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = len ? 2 : 1 };
	if (n_fds > PACKET_FDS_MAX)
		return -EINVAL;
	if (n_fds) {
		m.msg_control = c.bytes;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		struct cmsghdr *cm = CMSG_FIRSTHDR(&m);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, n_fds * sizeof(int));
	}
	ssize_t n;
	while ((n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR)
		;
	return n >= 0 ? 0 : errno == ECONNRESET ? -EPIPE : errno == ENOBUFS ? -EAGAIN : -errno;
}

/* Those beyond max are closed. Returns how many there are. */
static size_t take_fds(struct msghdr *m, int *fds, size_t max)
{
	size_t got = 0;
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(m); cm; cm = CMSG_NXTHDR(m, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		size_t here = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < here; i++, got++) {
			int one;
			memcpy(&one, CMSG_DATA(cm) + i * sizeof(int), sizeof(one));
			if (got < max)
				fds[got] = one;
			else
				close(one);
		}
	}
	return got;
}

int packet_recv(int fd, void *to, size_t cap, size_t *ret_len, int *fds, size_t max, size_t *ret_n,
		int flags)
{
	union control c;
	struct iovec iov = { to, cap };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = c.bytes,
			    .msg_controllen = sizeof(c.bytes) };
	ssize_t n;
	while ((n = recvmsg(fd, &m, flags | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	size_t got = take_fds(&m, fds, max);
	if (got > max || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		for (size_t i = 0; i < got && i < max; i++)
			close(fds[i]);
		return -EBADMSG;
	}
	*ret_len = (size_t)n;
	*ret_n = got;
	return 0;
}
