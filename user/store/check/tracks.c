/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verify and repair tracks. They are not synced, so a file may end anywhere. What is damaged before
 * that end is told, and repair removes the file: windows are whole without it.
 */
#include "store/check/check.h"
#include "store/read/tracks.h"
#include "util/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int check_frame(void *ctx, const struct frame *h, const uint8_t *payload)
{
	struct track t;
	(void)ctx;
	int rc = tracks_decode(h, payload, &t);
	track_fini(&t);
	return rc;
}

/* *ret_bad: it is damaged. */
static int check_frames(struct check *c, const struct file *f, bool *ret_bad)
{
	uint64_t end, next = UINT64_MAX;
	int rc = file_each_frame(f, FILE_HEADER_SIZE, f->size, check_frame, NULL, &end);
	*ret_bad = rc == -EBADMSG;
	if (rc && !*ret_bad)
		return err_sys(c->err, rc, "cannot read %s", f->path);
	if (!rc && end < f->size) {
		rc = file_find_frame(f, 0, end + 1, &next);
		if (rc)
			return err_sys(c->err, rc, "cannot read %s", f->path);
		*ret_bad = next != UINT64_MAX;
		if (!*ret_bad)
			check_tell(c, STORE_TORN, f->path, end, "the last track is incomplete");
	}
	if (*ret_bad)
		check_tell(c, STORE_DAMAGED, f->path, end, "no whole track");
	return 0;
}

static int check_file(struct check *c, int dir_fd, const char *name)
{
	struct place p = { .kind = KIND_TRACKS };
	char path[FILE_NAME_SIZE];
	struct err why = { 0 };
	struct file f;
	bool bad = false;
	if (sscanf(name, "%u.", &p.serial) != 1)
		return 0;
	file_name(path, p);
	if (strcmp(path + sizeof(TRACKS_DIR), name))
		return 0;
	int rc = file_open(&f, c->s.dir_fd, c->s.dir, p, c->s.header.store_id, false, &why);
	if (rc == -ENOENT) /* the writer cut it */
		return 0;
	if (rc == -ENODATA || rc == -EBADMSG) {
		check_tell(c, STORE_DAMAGED, f.path, 0, "%s", why.text);
		bad = true;
		rc = 0;
	} else if (!rc) {
		rc = check_frames(c, &f, &bad);
		file_close(&f);
	} else {
		err_set(c->err, rc, "%s", why.text);
	}
	if (!rc && bad && c->repair) {
		if (unlinkat(dir_fd, name, 0))
			return err_sys(c->err, -errno, "cannot remove %s", f.path);
		check_tell(c, STORE_CUT, f.path, 0, "removed: the windows are whole without it");
	}
	return rc;
}

int check_tracks(struct check *c)
{
	DIR *d = dir_open(c->s.dir_fd, TRACKS_DIR);
	int rc = d ? 0 : dir_failed();
	if (!d)
		return rc ? err_sys(c->err, rc, "cannot read %s/" TRACKS_DIR, c->s.dir) : 0;
	for (struct dirent *e; !rc && (e = readdir(d));)
		rc = check_file(c, dirfd(d), e->d_name);
	closedir(d);
	return rc;
}
