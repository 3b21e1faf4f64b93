/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of format 2 in its place replaced. The steps, and what an interruption leaves:
 *
 *  1. DIR.new is made and marked (a file `rewriting` in it): DIR is the old store, untouched.
 *  2. It is written, synced and verified: the same.
 *  3. DIR is marked too, and both are exchanged, which is atomic: DIR is the new store, DIR.new the old
 * one.
 *  4. DIR.new is removed, and the mark of DIR.
 *
 * So a DIR.new that is marked may be removed at any time.
 */
#include "store/old/old.h"

#include "store/write/writer_int.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rewrite {
	char dir[PATH_MAX], new[PATH_MAX]; /* without symbolic links: those are exchanged */
	struct store_writer lock;	   /* of the old store */
	size_t damaged;
	char finding[300]; /* the first one */
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	/* The mark goes last: until then the next call may go on. */
	if (ftw->level == 0 || (ftw->level == 1 && !strcmp(path + ftw->base, STORE_REWRITING)))
		return 0;
	return remove(path) ? -1 : 0;
}

int store_remove_tree(const char *dir)
{
	char mark[PATH_MAX];
	if (nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS))
		return -errno;
	if ((size_t)snprintf(mark, sizeof(mark), "%s/" STORE_REWRITING, dir) < sizeof(mark))
		unlink(mark);
	return rmdir(dir) ? -errno : 0;
}

static int names_of(struct rewrite *r, const char *dir, struct err *err)
{
	if (!realpath(dir, r->dir))
		return err_sys(err, -errno, "cannot open the store %s", dir);
	if ((size_t)snprintf(r->new, sizeof(r->new), "%s.new", r->dir) >= sizeof(r->new))
		return err_set(err, -ENAMETOOLONG, "the path of the store %s is too long", dir);
	return 0;
}

/* Renaming would fail, after all the work. */
static int check_mount(const char *dir, struct err *err)
{
	struct statx st;
	if (statx(AT_FDCWD, dir, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &st) ||
	    !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return 0;
	return err_set(err, -EBUSY,
		       "%s is a mount point, so no rewritten store can take its place: move its files into a "
		       "directory below it, and rewrite that",
		       dir);
}

static bool is_marked(const char *dir)
{
	char mark[PATH_MAX];
	struct stat st;
	return (size_t)snprintf(mark, sizeof(mark), "%s/" STORE_REWRITING, dir) < sizeof(mark) &&
	       !lstat(mark, &st);
}

static int mark_dir(const char *dir, struct err *err)
{
	char mark[PATH_MAX];
	int fd = -1;
	errno = ENAMETOOLONG;
	if ((size_t)snprintf(mark, sizeof(mark), "%s/" STORE_REWRITING, dir) < sizeof(mark))
		fd = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(err, -errno, "cannot make %s/" STORE_REWRITING, dir);
	int rc = fsync(fd) ? err_sys(err, -errno, "cannot sync %s", mark) : 0;
	close(fd);
	return rc;
}

static int take_over_rights(const struct rewrite *r, struct err *err)
{
	struct stat st;
	if (!stat(r->dir, &st) && (!chown(r->new, st.st_uid, st.st_gid) || errno == EPERM) &&
	    !chmod(r->new, st.st_mode & 07777))
		return 0;
	return err_sys(err, -errno, "cannot give %s the owner and the mode of %s", r->new, r->dir);
}

/* Make DIR.new, marked, with the owner and the mode of DIR. */
static int make_new(const struct rewrite *r, struct err *err)
{
	int rc = is_marked(r->new) ? store_remove_tree(r->new) : 0;
	if (rc)
		return err_sys(err, rc, "cannot remove %s, which an interrupted rewrite left", r->new);
	if (mkdir(r->new, 0700)) {
		rc = -errno;
		if (rc == -EEXIST)
			return err_set(err, rc, "%s is in the way: move it", r->new);
		return err_sys(err, rc,
			       "cannot make the directory %s, to rewrite the store (run `ascribe "
			       "store compact "
			       "%s` outside the service's sandbox)",
			       r->new, r->dir);
	}
	rc = mark_dir(r->new, err);
	rc = rc ? rc : take_over_rights(r, err);
	if (rc)
		store_remove_tree(r->new);
	return rc;
}

static void on_finding(void *ctx, const struct store_finding *f)
{
	struct rewrite *r = ctx;
	if (!r->damaged++)
		snprintf(r->finding, sizeof(r->finding), "%s at %llu: %s", f->path,
			 (unsigned long long)f->offset, f->text);
}

/* Read every byte of what was written, and count its windows. */
static int verify(struct rewrite *r, const struct store_conversion *done, struct err *err)
{
	struct store *s;
	int rc = store_verify(r->new, on_finding, r, err);
	if (!rc && r->damaged)
		return err_set(err, -EIO, "the rewritten store is not whole (%s); %s is as it was",
			       r->finding, r->dir);
	rc = rc ? rc : store_open(&s, r->new, err);
	if (rc)
		return rc;
	size_t n = store_n_windows(s);
	store_close(s);
	return n == done->windows
		       ? 0
		       : err_set(err, -EIO,
				 "the rewritten store has %zu windows instead of %llu; %s is as it was",
				 n, (unsigned long long)done->windows, r->dir);
}

static int sync_above(const char *dir)
{
	char path[PATH_MAX + 4];
	snprintf(path, sizeof(path), "%s/..", dir);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 || fsync(fd) ? -errno : 0;
	if (fd >= 0)
		close(fd);
	return rc;
}

static int exchange(struct rewrite *r, struct err *err)
{
	int rc = mark_dir(r->dir, err);
	if (rc)
		return rc;
	if (renameat2(AT_FDCWD, r->new, AT_FDCWD, r->dir, RENAME_EXCHANGE)) {
		rc = err_sys(err, -errno, "cannot exchange %s and %s", r->dir, r->new);
		store_rewrite_clean(r->dir);
		return rc;
	}
	rc = sync_above(r->dir);
	return rc ? err_sys(err, rc, "cannot sync the directory above %s; the old store is kept in %s",
			    r->dir, r->new)
		  : 0;
}

void store_rewrite_clean(const char *dir)
{
	struct rewrite r;
	char mark[PATH_MAX];
	if (names_of(&r, dir, NULL))
		return;
	if (is_marked(r.new) && store_remove_tree(r.new))
		return;
	if ((size_t)snprintf(mark, sizeof(mark), "%s/" STORE_REWRITING, r.dir) < sizeof(mark))
		unlink(mark);
}

static int rewrite(struct rewrite *r, struct store_conversion *ret, struct err *err)
{
	struct store_conversion done;
	int rc = store_open_dir(&r->lock.s, r->dir, err);
	rc = rc ? rc : writer_take_lock(&r->lock, err);
	rc = rc ? rc : check_mount(r->dir, err);
	rc = rc ? rc : make_new(r, err);
	if (rc)
		return rc;
	rc = store_convert(r->dir, r->new, true, &done, err);
	rc = rc ? rc : verify(r, &done, err);
	if (rc) {
		store_remove_tree(r->new);
		return rc;
	}
	rc = exchange(r, err);
	if (!rc) {
		store_rewrite_clean(r->dir);
		*ret = done;
	}
	return rc;
}

int store_rewrite(const char *dir, struct store_conversion *ret, struct err *err)
{
	struct rewrite *r = calloc(1, sizeof(*r));
	if (!r)
		return err_sys(err, -ENOMEM, "cannot rewrite %s", dir);
	r->lock.lock_fd = -1;
	store_init(&r->lock.s);
	int rc = names_of(r, dir, err);
	rc = rc ? rc : rewrite(r, ret, err);
	store_fini(&r->lock.s);
	if (r->lock.lock_fd >= 0)
		close(r->lock.lock_fd);
	free(r);
	return rc;
}
