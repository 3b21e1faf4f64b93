/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replace a store of format 2 in its own directory, which may be a mount point, or all that a
 * service may write to. The steps, and what an interruption leaves:
 *
 *  1. A new store is written, synced and verified in DIR/rewriting. DIR is the old store. The
 *     numbers of new segments are above those of the old ones.
 *  2. Segments are moved into DIR/seg: no manifest of DIR names them.
 *  3. MANIFEST is copied to MANIFEST.2, which readers of format 2 prefer, and is then replaced. So
 *     is HEADER.copy, which they do not read.
 *  4. HEADER is replaced, by one rename: from here on DIR is the new store.
 *  5. What only the old store needs is removed.
 *
 * So DIR is one of the two stores at any time, whole. Before the next try what is left of one is
 * undone (steps 1 to 3) or done (step 5).
 */
#include "store/damage.h"
#include "store/old/old.h"

#include "store/file/reserve.h"
#include "store/file/tree.h"
#include "store/old/read.h"
#include "store/write/writer_int.h"
#include "store/writer.h"
#include "util/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rewrite {
	const char *dir;
	char new[PATH_MAX];	  /* DIR/rewriting */
	struct store_writer lock; /* of the old store */
	size_t damaged;
	char finding[300]; /* the first one */
};

/* ---- files that no manifest names ---- */

struct named {
	const struct manifest_segment *v;
	const struct old_segment *old;
	size_t n;
};

static bool is_named(const struct named *l, const char *name)
{
	static const char kinds[] = { KIND_BLOCKS, KIND_SYMBOLS };
	char path[FILE_NAME_SIZE];
	for (size_t i = 0; i < 2 * l->n; i++) {
		struct place p = { kinds[i % 2], l->v ? l->v[i / 2].serial : l->old[i / 2].serial,
				   l->v ? l->v[i / 2].level : l->old[i / 2].level };
		file_name(path, p);
		if (!strcmp(path + strlen("seg/"), name))
			return true;
	}
	return false;
}

static int remove_unnamed(int dir_fd, const struct named *l)
{
	int rc = 0;
	DIR *d = dir_open(dir_fd, "seg");
	if (!d)
		return errno == ENOENT ? 0 : -errno;
	for (struct dirent *e; !rc && (e = readdir(d));)
		if (e->d_name[0] != '.' && !is_named(l, e->d_name) &&
		    unlinkat(dirfd(d), e->d_name, 0) && errno != ENOENT)
			rc = -errno;
	closedir(d);
	return rc;
}

/* ---- undoing, and finishing ---- */

static int remove_below(const char *dir, const char *name)
{
	char path[PATH_MAX];
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
		return -ENAMETOOLONG;
	int rc = tree_remove(path);
	return rc == -ENOENT ? 0 : rc;
}

/* Make DIR what it was before steps 1 to 3. */
static int undo(const struct rewrite *r)
{
	struct old_store o = { .dir = (char *)r->dir,
			       .dir_fd = r->lock.s.dir_fd,
			       .file = { .fd = -1 } };
	if (faccessat(o.dir_fd, STORE_REWRITING, F_OK, AT_SYMLINK_NOFOLLOW) &&
	    faccessat(o.dir_fd, OLD_MANIFEST_NAME, F_OK, AT_SYMLINK_NOFOLLOW))
		return 0;
	int rc = renameat(o.dir_fd, OLD_MANIFEST_NAME, o.dir_fd, MANIFEST_NAME) && errno != ENOENT
			 ? -errno
			 : 0;
	rc = rc ? rc : old_read_header(&o, NULL);
	rc = rc ? rc : old_read_manifest(&o, NULL);
	rc = rc ? rc : remove_unnamed(o.dir_fd, &(struct named){ NULL, o.segments, o.n_segments });
	header_fini(&o.header);
	free(o.segments);
	free(o.anchors);
	return rc ? rc : remove_below(r->dir, STORE_REWRITING);
}

/* Move a file of the new store to its place, where it is not there yet. */
static int move_up(int dir_fd, const char *name)
{
	char from[100];
	snprintf(from, sizeof(from), STORE_REWRITING "/%s", name);
	return renameat(dir_fd, from, dir_fd, name) && errno != ENOENT ? -errno : 0;
}

/* Step 5. MANIFEST.2 goes last but one: while it is there not all is done. */
static int finish(const char *dir, int dir_fd)
{
	struct header h;
	struct manifest m;
	struct manifest_segment *v;
	size_t n;
	int rc = header_read(&h, dir_fd, dir, NULL);
	if (rc)
		return rc;
	rc = manifest_read(&m, &v, &n, dir_fd, dir, h.store_id, NULL);
	header_fini(&h);
	if (rc)
		return rc;
	rc = move_up(dir_fd, RESERVE_NAME);
	rc = rc ? rc : remove_unnamed(dir_fd, &(struct named){ v, NULL, n });
	for (size_t i = 0; i < n; i++)
		manifest_segment_fini(&v[i]);
	free(v);
	manifest_fini(&m);
	rc = rc ? rc : remove_below(dir, "sym");
	rc = rc ? rc : remove_below(dir, "lab");
	rc = rc ? rc : remove_below(dir, STORE_REWRITING);
	return rc ? rc : unlinkat(dir_fd, OLD_MANIFEST_NAME, 0) && errno != ENOENT ? -errno : 0;
}

void store_rewrite_clean(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!faccessat(fd, OLD_MANIFEST_NAME, F_OK, AT_SYMLINK_NOFOLLOW))
		finish(dir, fd);
	close(fd);
}

/* ---- step 1 ---- */

static int make_new(const struct rewrite *r, struct err *err)
{
	int rc = undo(r);
	if (rc)
		return err_sys(err, rc, "cannot remove what an interrupted rewrite left in %s",
			       r->dir);
	if (!mkdir(r->new, 0700))
		return 0;
	return err_sys(err, -errno, "cannot make the directory %s, to rewrite the store", r->new);
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
				 "the rewritten store has %zu windows instead of %llu; %s is as "
				 "it was",
				 n, (unsigned long long)done->windows, r->dir);
}

/* ---- steps 2 to 4 ---- */

static int move_segments(int dir_fd)
{
	int rc = mkdirat(dir_fd, "seg", 0700) && errno != EEXIST ? -errno : 0;
	int to = rc ? -1 : openat(dir_fd, "seg", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int from = rc ? -1
		      : openat(dir_fd, STORE_REWRITING "/seg",
			       O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	bool empty = from < 0 && errno == ENOENT;
	DIR *d = from < 0 ? NULL : fdopendir(from);
	if (!rc && (to < 0 || (!d && !empty)))
		rc = -errno;
	for (struct dirent *e; d && !rc && (e = readdir(d));)
		if (e->d_name[0] != '.' && renameat(from, e->d_name, to, e->d_name))
			rc = -errno;
	if (!rc && fsync(to))
		rc = -errno;
	if (d)
		closedir(d);
	else if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	return rc;
}

static int keep_manifest(int dir_fd)
{
	struct buf b = BUF_INIT;
	int rc = file_read_whole(dir_fd, MANIFEST_NAME, HEADER_SIZE,
				 MANIFEST_PAYLOAD_MAX + HEADER_SIZE, &b);
	rc = rc ? rc : file_replace(dir_fd, OLD_MANIFEST_NAME, b.data, b.len);
	buf_fini(&b);
	return rc;
}

static int replace(int dir_fd, const char *name)
{
	char from[100];
	snprintf(from, sizeof(from), STORE_REWRITING "/%s", name);
	return renameat(dir_fd, from, dir_fd, name) || fsync(dir_fd) ? -errno : 0;
}

static int take_place(struct rewrite *r, struct err *err)
{
	int fd = r->lock.s.dir_fd, rc = move_segments(fd);
	rc = rc ? rc : keep_manifest(fd);
	rc = rc ? rc : replace(fd, MANIFEST_NAME);
	rc = rc ? rc : replace(fd, HEADER_COPY_NAME);
	rc = rc ? rc : replace(fd, HEADER_NAME);
	return rc ? err_sys(err, rc, "cannot put the rewritten store into %s", r->dir) : 0;
}

static int rewrite(struct rewrite *r, struct store_conversion *ret, struct err *err)
{
	struct store_conversion done;
	int rc = store_open_dir(&r->lock.s, r->dir, err);
	rc = rc ? rc : writer_take_lock(&r->lock, err);
	rc = rc ? rc : make_new(r, err);
	if (rc)
		return rc;
	rc = store_convert(r->dir, r->new, true, &done, err);
	rc = rc ? rc : verify(r, &done, err);
	rc = rc ? rc : take_place(r, err);
	/*
	 * The last call that may fail is the sync behind the rename of HEADER: that is no way back.
	 */
	if (rc && store_is_old(r->dir)) {
		undo(r);
		return rc;
	}
	if (!rc) {
		finish(r->dir, r->lock.s.dir_fd);
		*ret = done;
	}
	return rc;
}

int store_rewrite(const char *dir, struct store_conversion *ret, struct err *err)
{
	struct rewrite *r = calloc(1, sizeof(*r));
	if (!r)
		return err_sys(err, -ENOMEM, "cannot rewrite %s", dir);
	r->dir = dir;
	r->lock.lock_fd = -1;
	store_init(&r->lock.s);
	bool fits = (size_t)snprintf(r->new, sizeof(r->new), "%s/" STORE_REWRITING, dir) <
		    sizeof(r->new);
	int rc = fits ? rewrite(r, ret, err)
		      : err_set(err, -ENAMETOOLONG, "the path of the store %s is too long", dir);
	store_fini(&r->lock.s);
	if (r->lock.lock_fd >= 0)
		close(r->lock.lock_fd);
	free(r);
	return rc;
}
