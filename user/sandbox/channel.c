/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/channel.h"
#include "util/clock.h"
#include "util/passed.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

uint64_t channel_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Workers wait inside sendmsg and recvmsg, which need no further call; who has a deadline polls. */
static int wait_for(int fd, short events, uint64_t until_ns)
{
	while (until_ns != CHANNEL_FOREVER) {
		uint64_t now = channel_now_ns();
		if (now >= until_ns)
			return -ETIMEDOUT;
		struct pollfd p = { .fd = fd, .events = events };
		int n = poll(&p, 1, (int)((until_ns - now + 999999) / 1000000));
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
	return 0;
}

static int flags_for(uint64_t until_ns)
{
	return MSG_NOSIGNAL | (until_ns == CHANNEL_FOREVER ? 0 : MSG_DONTWAIT);
}

/* One sendmsg or recvmsg that moved something: its size. */
static ssize_t move(int fd, struct msghdr *m, int out, uint64_t until_ns)
{
	for (;;) {
		ssize_t n = out ? sendmsg(fd, m, flags_for(until_ns))
				: recvmsg(fd, m, flags_for(until_ns) | MSG_CMSG_CLOEXEC);
		if (n > 0)
			return n;
		if (n == 0)
			return -EPIPE;
		if (errno != EINTR && errno != EAGAIN)
			return errno == ECONNRESET ? -EPIPE : -errno;
		int rc = errno == EAGAIN ? wait_for(fd, out ? POLLOUT : POLLIN, until_ns) : 0;
		if (rc)
			return rc;
	}
}

static int move_all(int fd, void *bytes, size_t len, int out, uint64_t until_ns)
{
	while (len) {
		struct iovec iov = { bytes, len };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t n = move(fd, &m, out, until_ns);
		if (n < 0)
			return (int)n;
		bytes = (uint8_t *)bytes + n;
		len -= (size_t)n;
	}
	return 0;
}

int channel_send_head(int fd, const struct channel_head *h, const int *fds, size_t n_fds)
{
	struct channel_head head = *h;
	union passed room;
	struct iovec iov = { &head, sizeof(head) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	passed_attach(&m, &room, fds, n_fds);
	ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	return n == (ssize_t)sizeof(head) ? 0 : -EBADMSG;
}

int channel_send(int fd, const struct channel_head *h, const void *bytes, const int *fds,
		 size_t n_fds, uint64_t until_ns)
{
	struct channel_head head = *h;
	union passed room;
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)(uintptr_t)bytes, h->len } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = h->len ? 2 : 1 };
	if (n_fds > SANDBOX_FDS_MAX)
		return -EINVAL;
	passed_attach(&m, &room, fds, n_fds);
	ssize_t n = move(fd, &m, 1, until_ns);
	if (n < 0)
		return (int)n;
	size_t of_head = (size_t)n < sizeof(head) ? (size_t)n : sizeof(head),
	       sent = (size_t)n - of_head;
	int rc = move_all(fd, (uint8_t *)&head + of_head, sizeof(head) - of_head, 1, until_ns);
	return rc ? rc
		  : move_all(fd, (uint8_t *)(uintptr_t)bytes + sent, h->len - sent, 1, until_ns);
}

int channel_recv(int fd, void *out, size_t len, uint64_t until_ns)
{
	return move_all(fd, out, len, 0, until_ns);
}

int channel_recv_head(int fd, struct channel_head *h, int *fds, size_t max, size_t *ret_n,
		      uint64_t until_ns)
{
	union passed room;
	struct iovec iov = { h, sizeof(*h) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room.bytes,
			    .msg_controllen = sizeof(room.bytes) };
	if (!max) { /* what is sent all the same, the kernel closes */
		m.msg_control = NULL;
		m.msg_controllen = 0;
	}
	ssize_t n = move(fd, &m, 0, until_ns);
	if (n < 0)
		return (int)n;
	size_t got = max ? passed_take(&m, fds, max) : 0;
	*ret_n = got < max ? got : max;
	return move_all(fd, (uint8_t *)h + n, sizeof(*h) - (size_t)n, 0, until_ns);
}
