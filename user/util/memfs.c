/* SPDX-License-Identifier: Apache-2.0 */
#include "util/memfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

static int configure(int fs, uint64_t max_bytes)
{
	char size[32];
	snprintf(size, sizeof(size), "%llu", (unsigned long long)max_bytes);
	return fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0) ||
			       fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0700", 0) ||
			       fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0)
		       ? -errno
		       : 0;
}

int memfs_new(uint64_t max_bytes, int *ret_fd, struct err *err)
{
	int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	int rc = fs < 0 ? -errno : configure(fs, max_bytes);
	int fd = rc ? -1
		    : fsmount(fs, FSMOUNT_CLOEXEC,
			      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (!rc && fd < 0)
		rc = -errno;
	if (fs >= 0)
		close(fs);
	if (rc == -EPERM)
		return err_set(err, rc,
			       "memory to keep samples in needs CAP_SYS_ADMIN: run as root");
	if (rc)
		return err_sys(err, rc, "memory to keep samples in (tmpfs)");
	*ret_fd = fd;
	return 0;
}
