/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/links.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct link_question {
	uint32_t tid;
	enum proc_link which;
};

int proc_link_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	struct link_question l;
	char path[64];
	if (q->len != sizeof(l))
		return err_set(err, -EBADMSG, "a link that cannot be");
	memcpy(&l, q->bytes, sizeof(l));
	const bool exe = l.which == PROC_LINK_EXE;
	snprintf(path, sizeof(path), "/proc/%u/%s", l.tid, exe ? "exe" : "ns/user");
	int fd = open(path, (exe ? O_PATH : O_RDONLY) | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, -errno, "%s", path);
	ret->fds[ret->n_fds++] = fd;
	return 0;
}

int proc_link_open(uint32_t tid, enum proc_link which)
{
	const struct link_question l = { tid, which };
	const struct keeper_question q = { .bytes = &l, .len = sizeof(l) };
	struct keeper_answer a;
	int rc = keeper_ask(proc_link_op, &q, KEEPER_WAIT_MS, &a, NULL);
	return rc ? rc : a.fds[0];
}
