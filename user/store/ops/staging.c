/* SPDX-License-Identifier: Apache-2.0 */
#include "store/ops/staging.h"

#include "store/file/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	free(s->name);
	free(s->tmp);
	*s = (struct staging){ 0 };
}

static int make(const struct staging *s, bool replaces, struct err *err)
{
	struct stat st;
	if (!replaces && !lstat(s->name, &st))
		return err_set(err, -EEXIST, "%s exists: name a new directory", s->name);
	if (!mkdir(s->tmp, 0700))
		return 0;
	if (errno != EEXIST)
		return err_sys(err, -errno, "cannot make the directory %s", s->tmp);
	return err_set(
		err, -EEXIST,
		"%s exists: another command is writing it, or was interrupted; remove it then",
		s->tmp);
}

int staging_begin(struct staging *ret, const char *name, bool replaces, struct err *err)
{
	struct staging s = { .name = trimmed(name) };
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

/* A directory above that cannot be read cannot be synced. */
static int sync_above(const char *name)
{
	char *path = NULL;
	if (asprintf(&path, "%s/..", name) < 0)
		return -ENOMEM;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 ? (errno == EACCES ? 0 : -errno) : fsync(fd) ? -errno : 0;
	if (fd >= 0)
		close(fd);
	free(path);
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
	rc = sync_above(s->name);
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
	if (renameat2(AT_FDCWD, s->tmp, AT_FDCWD, s->name, RENAME_EXCHANGE))
		return err_sys(err, -errno, "cannot exchange %s and %s", s->tmp, s->name);
	int rc = sync_above(s->name);
	if (rc)
		return err_sys(err, rc, "cannot sync the directory above %s", s->name);
	tree_remove(s->tmp);
	release(s);
	return 0;
}

void staging_end(struct staging *s)
{
	if (s->tmp)
		tree_remove(s->tmp);
	release(s);
}
