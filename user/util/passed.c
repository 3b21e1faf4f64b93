/* SPDX-License-Identifier: Apache-2.0 */
#include "util/passed.h"

#include <string.h>
#include <unistd.h>

void passed_attach(struct msghdr *m, union passed *room, const int *fds, size_t n)
{
	if (!n)
		return;
	*room = (union passed){ 0 };
	m->msg_control = room->bytes;
	m->msg_controllen = CMSG_SPACE(n * sizeof(int));
	struct cmsghdr *cm = CMSG_FIRSTHDR(m);
	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(cm), fds, n * sizeof(int));
}

size_t passed_take(struct msghdr *m, int *fds, size_t max)
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
