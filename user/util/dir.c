/* SPDX-License-Identifier: Apache-2.0 */
#include "util/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

DIR *dir_open(int at, const char *name)
{
	const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d && fd >= 0) {
		const int failed = errno;
		close(fd);
		errno = failed;
	}
	return d;
}

int dir_failed(void)
{
	return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -errno;
}
