/* SPDX-License-Identifier: Apache-2.0 */
#include "store/file/reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

void reserve_keep(int dir_fd)
{
	struct stat st;
	if (!fstatat(dir_fd, RESERVE_NAME, &st, AT_SYMLINK_NOFOLLOW))
		return;
	int fd = openat(dir_fd, RESERVE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			0600);
	if (fd < 0)
		return;
	if (posix_fallocate(fd, 0, RESERVE_SIZE))
		unlinkat(dir_fd, RESERVE_NAME, 0);
	close(fd);
}

bool reserve_spend(int dir_fd)
{
	return !unlinkat(dir_fd, RESERVE_NAME, 0);
}
