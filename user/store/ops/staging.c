/* SPDX-License-Identifier: Apache-2.0 */
#include "store/ops/staging.h"

#include "store/file/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char *trimmed(const char *name)
{
	size_t n = strlen(name);
	while (n > 1 && name[n - 1] == '/')
		n--;
	return strndup(name, n);
}

static void release(struct staging *s)
{
	if (s->name && s->fd >= 0)
		close(s->fd);
	free(s->name);
	free(s->tmp);
	*s = (struct staging){ .fd = -1 };
}

/* What `lock` of a directory in the making holds; that of a store is empty. */
#define MARK "in the making\n"

static int write_mark(int dir_fd, const char *text)
{
	int fd =
		openat(dir_fd, "lock", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	size_t n = strlen(text);
	int rc = write(fd, text, n) == (ssize_t)n ? 0 : -EIO;
	close(fd);
	return rc;
}

static bool has_mark(int dir_fd)
{
	char text[sizeof(MARK)];
	int fd = openat(dir_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (fd >= 0)
		close(fd);
	return n == sizeof(MARK) - 1 && !memcmp(text, MARK, sizeof(MARK) - 1);
}

/* Remove a directory that a command of ours left, which no process writes to. */
static void reclaim(const char *tmp)
{
	struct stat st;
	int fd = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && st.st_uid == geteuid() && !flock(fd, LOCK_EX | LOCK_NB) &&
	    has_mark(fd))
		tree_remove(tmp);
	close(fd);
}

static int begin(struct staging *s)
{
	if (mkdir(s->tmp, 0700))
		return -errno;
	s->fd = open(s->tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int rc = s->fd < 0 ? -errno : 0;
	/* Where directories cannot be locked, as over NFS, nobody removes what is left. */
	if (!rc && flock(s->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		return -EEXIST;
	rc = rc ? rc : write_mark(s->fd, MARK);
	if (rc)
		tree_remove(s->tmp);
	return rc;
}

static bool is_mount_point(const char *name)
{
	struct statx st;
	return !statx(AT_FDCWD, name, 0, 0, &st) && st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

static int make(struct staging *s, bool replaces, struct err *err)
{
	struct stat st;
	if (replaces && is_mount_point(s->name))
		return err_set(
			err, -EBUSY,
			"%s is a mount point, which no new store can replace: keep the store in a "
			"directory below it",
			s->name);
	if (!replaces && !lstat(s->name, &st))
		return err_set(err, -EEXIST, "%s exists: name a new directory", s->name);
	int rc = begin(s);
	if (rc == -EEXIST) {
		reclaim(s->tmp);
		rc = begin(s);
	}
	if (rc == -EEXIST)
		return err_set(err, rc,
			       "%s exists: another command is writing it, or it is not of ascribe; "
			       "remove it then",
			       s->tmp);
	return rc ? err_sys(err, rc, "cannot make the directory %s", s->tmp) : 0;
}

int staging_begin(struct staging *ret, const char *name, bool replaces, struct err *err)
{
	struct staging s = { .name = trimmed(name), .fd = -1 };
	if (!s.name || asprintf(&s.tmp, "%s" STAGING_SUFFIX, s.name) < 0) {
		s.tmp = NULL;
		release(&s);
		return err_sys(err, -ENOMEM, "cannot write %s", name);
	}
	int rc = make(&s, replaces, err);
	if (rc)
		release(&s);
	else
		*ret = s;
	return rc;
}

int staging_commit(struct staging *s, struct err *err)
{
	int rc = renameat2(AT_FDCWD, s->tmp, AT_FDCWD, s->name, RENAME_NOREPLACE) ? -errno : 0;
	if (rc ==
	    -EINVAL) /* of a file system without the flag; an empty directory at most is replaced */
		rc = rename(s->tmp, s->name) ? -errno : 0;
	if (rc == -EEXIST || rc == -ENOTEMPTY)
		return err_set(err, -EEXIST, "%s exists: name a new directory", s->name);
	if (rc)
		return err_sys(err, rc, "cannot rename %s to %s", s->tmp, s->name);
	/* a store that has its name is none in the making, whatever it says */
	(void)write_mark(s->fd, "");
	rc = tree_sync_above(s->fd);
	rc = rc ? err_sys(err, rc, "cannot sync the directory above %s", s->name) : 0;
	release(s);
	return rc;
}

/* Readers by path and group keep what they had. Only root may give files away: that is no error. */
static void take_over_mode(const struct staging *s)
{
	struct stat st;
	if (stat(s->name, &st))
		return;
	if (chown(s->tmp, st.st_uid, st.st_gid) && chown(s->tmp, (uid_t)-1, st.st_gid))
		return;
	(void)chmod(s->tmp, st.st_mode & 07777);
}

int staging_swap(struct staging *s, struct err *err)
{
	take_over_mode(s);
	int swapped = renameat2(AT_FDCWD, s->tmp, AT_FDCWD, s->name, RENAME_EXCHANGE) ? -errno : 0;
	if (swapped == -EXDEV) /* overlayfs, where the directory is of a lower layer */
		return err_set(
			err, swapped,
			"the file system cannot replace %s: copy the store by `ascribe store "
			"snapshot`, and work on the copy",
			s->name);
	if (swapped)
		return err_sys(err, swapped, "cannot exchange %s and %s", s->tmp, s->name);
	(void)write_mark(s->fd, "");
	int rc = tree_sync_above(s->fd);
	return rc ? err_sys(err, rc, "cannot sync the directory above %s", s->name) : 0;
}

void staging_end(struct staging *s)
{
	if (s->tmp)
		tree_remove(s->tmp);
	release(s);
}
