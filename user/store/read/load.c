/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening. A commit writes dictionaries, syncs them, then writes the block that says how far they
 * went. So
 *
 *  1. the segments decide: a window exists when its block is whole;
 *  2. what stands in a dictionary behind the marks of the last block was never acknowledged;
 *  3. what stands before them was durable before the block was: if it is bad, the disk did that,
 *     not a crash.
 *
 * Only segments that may still grow are looked into; the others when a question needs them.
 */
#include "store/read/store_int.h"
#include "store/read/symbols.h"
#include "store/read/tracks.h"

#include "util/array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

void store_init(struct store *s)
{
	memset(s, 0, sizeof(*s));
	s->dir_fd = -1;
}

void store_fini(struct store *s)
{
	for (size_t i = 0; s->window_totals && i < s->n_windows; i++)
		totals_fini(&s->window_totals[i]);
	free(s->window_totals);
	tracks_forget(&s->tracks);
	free(s->windows);
	while (s->n_segments)
		store_drop_segment(s, s->n_segments - 1);
	free(s->segments);
	while (s->n_parts)
		store_close(s->parts[--s->n_parts]);
	free(s->parts);
	meta_map_fini(&s->counters);
	setpool_fini(&s->sets);
	dicts_fini(&s->sym);
	manifest_fini(&s->manifest);
	header_fini(&s->header);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	free(s->dir);
	store_init(s);
}

int store_open_dir(struct store *s, const char *dir, struct err *err)
{
	s->dir = strdup(dir);
	if (!s->dir)
		return err_sys(err, -ENOMEM, "cannot open %s", dir);
	s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd >= 0)
		return 0;
	int rc = -errno;
	if (rc == -ENOTDIR)
		return err_set(err, rc, "%s is not a directory, so it is no store", dir);
	if (rc == -ENOENT)
		return err_set(err, rc, "there is no store %s (no such directory)", dir);
	return err_sys(err, rc, "cannot open the store %s", dir);
}

static int load_header(struct store *s, struct err *err)
{
	struct header h;
	int rc = header_read(&h, s->dir_fd, s->dir, err);
	if (rc == -ENOENT)
		return err_set(err, -EINVAL, "%s is not a store of ascribe: it has no %s", s->dir,
			       HEADER_NAME);
	if (rc)
		return rc;
	header_fini(&s->header);
	s->header = h;
	return 0;
}

/* Events are asked for by name before any block is read. */
static int load_events(struct store *s, struct err *err)
{
	int rc = dicts_init(&s->sym, true);
	for (size_t i = 0; !rc && i < s->manifest.n_events; i++) {
		uint32_t id;
		rc = dicts_add_event(&s->sym, &s->manifest.events[i], &id);
	}
	return rc ? err_sys(err, rc, "cannot read %s", s->dir) : 0;
}

int store_forget(struct store *s, struct err *err)
{
	for (size_t i = 0; i < s->n_segments; i++)
		symbols_free(&s->segments[i]);
	setpool_clear(&s->sets);
	dicts_fini(&s->sym);
	return load_events(s, err);
}

static struct manifest_stamp read_stamp(const struct store *s)
{
	struct stat st = { 0 };
	fstatat(s->dir_fd, MANIFEST_NAME, &st, 0);
	return (struct manifest_stamp){ st.st_ino, st.st_mtim };
}

void store_stamp(struct store *s)
{
	s->stamp = read_stamp(s);
}

/* The writer may replace the manifest, and unlink what it named before, at any time. */
bool store_is_stale(const struct store *s)
{
	struct manifest_stamp now = read_stamp(s);
	return !s->write &&
	       (now.inode != s->stamp.inode || now.changed.tv_sec != s->stamp.changed.tv_sec ||
		now.changed.tv_nsec != s->stamp.changed.tv_nsec);
}

int store_missing(const struct store *s, const char *path, struct err *err)
{
	if (store_is_stale(s))
		return err_set(err, -ESTALE,
			       "%s was cut by retention since the store was opened: ask again",
			       path);
	return err_set(err, -EBADMSG, "%s is missing: the store is damaged", path);
}

/* ---- blocks whose dictionaries are too short ---- */

/*
 * No crash does that. The windows before are told apart and can be read; without the file none can.
 */
static int drop_short(struct store *s, struct segment *g, struct err *err)
{
	struct err why = { 0 };
	size_t n = g->n_refs, keep = n;
	int rc = n ? symbols_open(s, g, &why) : 0;
	if (rc == -ENOENT)
		return store_missing(s, g->names.path, err);
	if (rc && rc != -ENODATA && rc != -EBADMSG)
		return err_set(err, rc, "%s", why.text);
	uint64_t size = n ? g->names.size : 0;
	if (s->write)
		file_close(&g->names);
	while (keep &&
	       g->refs[keep - 1].mark > (size > FILE_HEADER_SIZE ? size - FILE_HEADER_SIZE : 0))
		keep--;
	if (keep == n)
		return 0;
	snprintf(s->damage, sizeof(s->damage),
		 "%s is cut short at offset %llu, %zu of %zu windows are left out", g->names.path,
		 (unsigned long long)size, n - keep, n);
	s->lost_windows = true;
	g->n_refs = keep;
	return 0;
}

static int load_open_segments(struct store *s, struct err *err)
{
	for (size_t i = 0; i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		if (g->m.state != SEGMENT_OPEN)
			continue;
		int rc = segment_load(s, g, err);
		rc = rc ? rc : drop_short(s, g, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int load_manifest(struct store *s, struct err *err)
{
	struct manifest m;
	struct manifest_segment *segments;
	size_t n;
	int rc = manifest_read(&m, &segments, &n, s->dir_fd, s->dir, s->header.store_id, err);
	if (rc)
		return rc == -ENOENT ? -EBADMSG : rc;
	manifest_fini(&s->manifest);
	s->manifest = m;
	while (s->n_segments)
		store_drop_segment(s, s->n_segments - 1);
	return store_take_segments(s, segments, n) ? err_sys(err, -ENOMEM, "cannot read %s", s->dir)
						   : 0;
}

static int load_all(struct store *s, struct err *err)
{
	s->damage[0] = '\0';
	s->lost_windows = false;
	dicts_fini(&s->sym);
	store_stamp(s);
	int rc = load_header(s, err);
	if (!rc)
		rc = load_manifest(s, err);
	if (!rc)
		rc = load_open_segments(s, err);
	/*
	 * Again, now that the sizes are known: a later writer may have added counters before its
	 * first block.
	 */
	if (!rc)
		rc = load_header(s, err);
	return rc ? rc : load_events(s, err);
}

int store_load(struct store *s, bool write, struct err *err)
{
	int rc = -EAGAIN;
	s->write = write;
	/*
	 * Files that retention cuts meanwhile look like damage, and a block that is read after the
	 * manifest may name an event that only the next one has: begin again.
	 */
	for (int tries = 0; tries < 10; tries++) {
		rc = load_all(s, err);
		if (!store_is_stale(s))
			break;
	}
	if (rc && rc != -ENOMEM && store_is_stale(s))
		rc = err_set(err, -ESTALE, "the files of %s change faster than they can be read",
			     s->dir);
	if (!rc && setpool_init(&s->sets))
		rc = err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	return rc;
}
