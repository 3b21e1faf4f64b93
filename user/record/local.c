/* SPDX-License-Identifier: Apache-2.0 */
#include "record/local.h"

#include "opt/message.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

bool local_may_record(void)
{
	const uint64_t both = 1ull << CAP_BPF | 1ull << CAP_PERFMON;
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct have[2] = { 0 };
	if (syscall(SYS_capget, &head, have))
		return true; /* who knows: trying tells */
	const uint64_t bits = have[0].effective | (uint64_t)have[1].effective << 32;
	return (bits & both) == both || (bits >> CAP_SYS_ADMIN & 1);
}

int local_daemon(void)
{
	const struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = LOCAL_SOCKET };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) ? -errno : 0;
	if (fd >= 0)
		close(fd);
	return !rc || rc == -EACCES ? rc : -ENOENT;
}

void local_advise(const char *what)
{
	struct stat st;
	if (local_may_record() || local_daemon() == -ENOENT || stat(LOCAL_SOCKET, &st))
		return;
	const struct group *g = getgrgid(st.st_gid);
	cmd_say("a daemon runs here: for members of its group %s, %s", g ? g->gr_name : "", what);
}
