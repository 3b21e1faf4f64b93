/* SPDX-License-Identifier: Apache-2.0 */
#include "store/file/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	return ftw->level && remove(path) ? -1 : 0;
}

int tree_empty(const char *dir)
{
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) ? -errno : 0;
}

int tree_remove(const char *dir)
{
	int rc = tree_empty(dir);
	return rc ? rc : rmdir(dir) ? -errno : 0;
}

int tree_sync_above(int dir_fd)
{
	int fd = openat(dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES ? 0 : -errno;
	int rc = fsync(fd) ? -errno : 0;
	close(fd);
	return rc;
}
