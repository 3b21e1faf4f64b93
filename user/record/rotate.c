/* SPDX-License-Identifier: Apache-2.0 */
#include "record/rotate.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Does dir hold a store? Its header says so (docs/format.md). 1, 0, or -EBUSY when a writer holds
 * its lock.
 */
static int is_store(const char *dir)
{
	char path[PATH_MAX], magic[8] = "";
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	snprintf(path, sizeof(path), "%s/HEADER", dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, magic, sizeof(magic));
	close(fd);
	if (n != (ssize_t)sizeof(magic) || memcmp(magic, "ASCRSTOR", 8))
		return 0;
	snprintf(path, sizeof(path), "%s/lock", dir);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	int busy = fd >= 0 && !fcntl(fd, F_OFD_GETLK, &l) && l.l_type != F_UNLCK;
	if (fd >= 0)
		close(fd);
	return busy ? -EBUSY : 1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path) ? -1 : 0;
}

/* dir without slashes at its end, and dir.old. Both have room for PATH_MAX. */
static int names_of(const char *dir, char *name, char *old)
{
	size_t len = strlen(dir);
	while (len > 1 && dir[len - 1] == '/')
		len--;
	if (len + 5 > PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(name, dir, len);
	name[len] = 0;
	memcpy(old, name, len);
	memcpy(old + len, ".old", 5);
	return 0;
}

void rotate_undo(const char *dir)
{
	char old[PATH_MAX], name[PATH_MAX];
	if (names_of(dir, name, old) || is_store(name) != 1 || is_store(old) != 1)
		return;
	if (!nftw(name, remove_one, 16, FTW_DEPTH | FTW_PHYS))
		rename(old, name);
}

int rotate_store(const char *dir, bool *ret_moved, struct err *err)
{
	char old[PATH_MAX], name[PATH_MAX];
	struct stat st;
	if (names_of(dir, name, old))
		return err_set(err, -ENAMETOOLONG, "the path of the store is too long");
	int there = is_store(name);
	if (there == -EBUSY)
		return err_set(err, -EBUSY,
			       "%s is being written by another process: choose another with -o",
			       name);
	if (!there)
		return 0;
	if (!lstat(old, &st)) {
		if (is_store(old) != 1)
			return err_set(
				err, -EEXIST,
				"%s is in the way and is no store: move it, or choose another "
				"place with -o",
				old);
		if (nftw(old, remove_one, 16, FTW_DEPTH | FTW_PHYS))
			return err_sys(err, -errno, "removing %s", old);
	}
	if (rename(name, old))
		return err_set(err, -errno,
			       "cannot rename %s to %s: %s; choose another place with -o", name,
			       old, strerror(errno));
	*ret_moved = true;
	return 0;
}
