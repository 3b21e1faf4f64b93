/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy of a store that may be written meanwhile.
 *
 *  1. A reader's view of the store is consistent: the manifest, and the blocks of open segments
 *     that were whole when it was opened.
 *  2. Sealed and closed segments never change again, so links to them are as good as copies.
 *  3. Of an open segment the blocks of that view are copied, and of its dictionaries the bytes that
 *     those blocks need. Both only grow, so what is copied is what was seen.
 *  4. A file that is gone was cut by retention, or sealed: the view is old, and all begins again.
 *  5. Tracks are copied as they are: what is not whole at the end of one means nothing.
 */
#include "store/ops/copy.h"

#include "store/ops/staging.h"
#include "store/read/store_int.h"
#include "util/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 10
#define CHUNK (1u << 20)

struct snapshot {
	struct store *s;
	int to_fd;
	const char *to;
	const volatile bool *stop;
	int64_t since_ns; /* INT64_MIN: everything */
	struct snapshot_result r;
	struct err *err;
};

static int is_stopped(const struct snapshot *c)
{
	return c->stop && *c->stop ? err_set(c->err, -EINTR, "interrupted") : 0;
}

static int copy_piece(const struct file *from, int to, uint64_t *at, uint64_t len)
{
	uint8_t *buffer = malloc(CHUNK);
	int rc = buffer ? 0 : -ENOMEM;
	while (!rc && *at < len) {
		size_t n = len - *at < CHUNK ? (size_t)(len - *at) : CHUNK;
		rc = file_read(from, *at, buffer, n);
		for (size_t done = 0; !rc && done < n;) {
			ssize_t k = pwrite(to, buffer + done, n - done, (off_t)(*at + done));
			if (k < 0 && errno == EINTR)
				continue;
			rc = k < 0 ? -errno : k ? 0 : -EIO;
			done += k > 0 ? (size_t)k : 0;
		}
		*at += rc ? 0 : n;
	}
	free(buffer);
	return rc;
}

/* The kernel copies, or shares the blocks; where it cannot, by reading. */
static int copy_bytes(const struct snapshot *c, const struct file *from, int to, uint64_t len)
{
	uint64_t at = 0;
	int rc = 0;
	while (at < len && !(rc = is_stopped(c))) {
		uint64_t left = len - at;
		off64_t in = (off64_t)at, out = (off64_t)at;
		ssize_t n = copy_file_range(from->fd, &in, to, &out,
					    left < 64 * CHUNK ? (size_t)left : 64 * CHUNK, 0);
		if (n <= 0) {
			uint64_t end = left < CHUNK ? len : at + CHUNK;
			rc = copy_piece(from, to, &at, end);
			if (rc)
				break;
			continue;
		}
		at += (uint64_t)n;
	}
	if (!rc && fdatasync(to))
		rc = -errno;
	return rc;
}

/* len UINT64_MAX: all of it. */
static int copy_file(struct snapshot *c, struct place p, uint64_t len)
{
	struct file from;
	char name[FILE_NAME_SIZE];
	int rc = file_open(&from, c->s->dir_fd, c->s->dir, p, c->s->header.store_id, false, c->err);
	if (rc == -ENOENT)
		return store_missing(c->s, from.path, c->err);
	if (rc)
		return rc;
	file_name(name, p);
	len = len == UINT64_MAX ? from.size : len;
	int to = openat(c->to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	rc = to < 0 ? -errno : copy_bytes(c, &from, to, len);
	if (rc && rc != -EINTR)
		err_sys(c->err, rc, "cannot copy %s to %s", from.path, c->to);
	if (to >= 0)
		close(to);
	file_close(&from);
	c->r.copied += !rc;
	c->r.bytes_copied += rc ? 0 : len;
	return rc;
}

/*
 * Links to files of others may be forbidden (fs.protected_hardlinks), or lead to another file
 * system.
 */
static int link_file(struct snapshot *c, struct place p)
{
	char name[FILE_NAME_SIZE];
	file_name(name, p);
	if (linkat(c->s->dir_fd, name, c->to_fd, name, 0))
		return copy_file(c, p, UINT64_MAX);
	c->r.linked++;
	return 0;
}

static int take_segment(struct snapshot *c, struct segment *g)
{
	const struct place blocks = { KIND_BLOCKS, g->m.serial, g->m.level },
			   symbols = { KIND_SYMBOLS, g->m.serial, g->m.level };
	int rc = is_stopped(c);
	if (rc)
		return rc;
	if (g->m.state == SEGMENT_SEALED)
		return link_file(c, blocks);
	if (g->m.state == SEGMENT_CLOSED) {
		rc = link_file(c, blocks);
		return rc ? rc : link_file(c, symbols);
	}
	const struct block_ref *last = &g->refs[g->n_refs - 1];
	uint64_t end = last->offset + FRAME_SIZE + last->stored_len;
	rc = copy_file(c, blocks, end);
	if (!rc)
		rc = copy_file(c, symbols, FILE_HEADER_SIZE + last->mark);
	g->m.end = end; /* all of it is durable, as after a clean end */
	return rc;
}

/* One that the writer cuts meanwhile is left out. */
static int take_track_file(struct snapshot *c, const char *name)
{
	struct place p = { .kind = KIND_TRACKS };
	char path[FILE_NAME_SIZE];
	if (sscanf(name, "%u.", &p.serial) != 1)
		return 0;
	file_name(path, p);
	if (strcmp(path + sizeof(TRACKS_DIR), name))
		return 0;
	int rc = copy_file(c, p, UINT64_MAX);
	return rc == -ESTALE || rc == -EBADMSG || rc == -ENODATA ? 0 : rc;
}

static int take_tracks(struct snapshot *c)
{
	DIR *d = dir_open(c->s->dir_fd, TRACKS_DIR);
	int rc = d ? 0 : dir_failed();
	if (!d)
		return rc ? err_sys(c->err, rc, "cannot read %s/" TRACKS_DIR, c->s->dir) : 0;
	if (mkdirat(c->to_fd, TRACKS_DIR, 0700))
		rc = err_sys(c->err, -errno, "cannot make %s/" TRACKS_DIR, c->to);
	for (struct dirent *e; !rc && (e = readdir(d));)
		rc = take_track_file(c, e->d_name);
	closedir(d);
	return rc;
}

static bool is_wanted(const struct snapshot *c, const struct segment *g)
{
	if (g->m.state == SEGMENT_OPEN && !g->n_refs)
		return false; /* just begun: its files may be without their headers */
	return c->since_ns == INT64_MIN ||
	       (!g->m.level && (g->m.state == SEGMENT_OPEN ? g->refs[g->n_refs - 1].b.t1_ns
							   : g->m.t1_ns) > c->since_ns);
}

/* The copy has no parents: whether a block has one is found out again. */
static void forget_parents(struct manifest *m)
{
	memset(m->covered, 0, sizeof(m->covered));
}

/* What the view names, and last of all HEADER: without it there is no store. */
static int take_all(struct snapshot *c)
{
	struct store *s = c->s;
	const struct manifest_segment **v = malloc(s->n_segments * sizeof(*v));
	size_t n = 0;
	int rc = v ? 0 : err_sys(c->err, -ENOMEM, "cannot copy %s", s->dir);
	if (!rc && mkdirat(c->to_fd, "seg", 0700))
		rc = err_sys(c->err, -errno, "cannot make %s/seg", c->to);
	for (size_t i = 0; !rc && i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		if (!is_wanted(c, g))
			continue;
		v[n++] = &g->m;
		if (!g->m.level)
			c->r.windows += g->m.state == SEGMENT_OPEN ? g->n_refs : g->m.n_blocks;
		rc = take_segment(c, g);
	}
	rc = rc ? rc : take_tracks(c);
	if (c->since_ns != INT64_MIN)
		forget_parents(&s->manifest);
	int fd = rc ? -1 : openat(c->to_fd, "seg", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!rc && (fd < 0 || fsync(fd)))
		rc = err_sys(c->err, -errno, "cannot sync %s/seg", c->to);
	if (fd >= 0)
		close(fd);
	rc = rc ? rc
		: manifest_write(&s->manifest, v, n, c->to_fd, c->to, s->header.store_id, c->err);
	rc = rc ? rc : header_write(c->to_fd, c->to, &s->header, c->err);
	free(v);
	return rc;
}

/* One view of the store. *ret_again: it is old. */
static int take_view(const char *from, const char *to, int64_t since_ns, const volatile bool *stop,
		     struct snapshot_result *ret, bool *ret_again, struct err *err)
{
	struct snapshot c = { .to_fd = -1, .stop = stop, .since_ns = since_ns, .err = err };
	struct staging t;
	*ret_again = false;
	int rc = store_open(&c.s, from, err);
	if (rc)
		return rc;
	if (c.s->lost_windows) {
		rc = err_set(err, -EBADMSG, "%s; repair the store first", c.s->damage);
		store_close(c.s);
		return rc;
	}
	/* A block may name an event or an anchor that only a later manifest has. */
	bool stale = store_is_stale(c.s);
	rc = stale ? err_set(err, -ESTALE, "the files of %s change faster than they can be read",
			     from)
		   : 0;
	bool begun = !rc && !(rc = staging_begin(&t, to, false, err));
	if (begun) {
		c.to = t.tmp;
		c.to_fd = open(t.tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		rc = c.to_fd < 0 ? err_sys(err, -errno, "cannot open %s", t.tmp) : take_all(&c);
	}
	if (c.to_fd >= 0)
		close(c.to_fd);
	if (begun && !rc)
		rc = staging_commit(&t, err);
	if (begun)
		staging_end(&t);
	*ret_again = rc == -ESTALE;
	store_close(c.s);
	if (!rc)
		*ret = c.r;
	return rc;
}

static int take(const char *from, const char *to, int64_t since_ns, const volatile bool *stop,
		struct snapshot_result *ret, struct err *err)
{
	bool again = true;
	int rc = 0;
	for (int tries = 0; again && tries < TRIES; tries++)
		rc = take_view(from, to, since_ns, stop, ret, &again, err);
	return rc;
}

int store_snapshot(const char *from, const char *to, const volatile bool *stop,
		   struct snapshot_result *ret, struct err *err)
{
	return take(from, to, INT64_MIN, stop, ret, err);
}

int store_freeze(const char *from, const char *to, int64_t since_ns, struct snapshot_result *ret,
		 struct err *err)
{
	return take(from, to, since_ns, NULL, ret, err);
}
