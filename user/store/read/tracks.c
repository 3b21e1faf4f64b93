/* SPDX-License-Identifier: Apache-2.0 */
#include "store/read/tracks.h"

#include "store/file/columns.h"
#include "util/array.h"
#include "util/bisect.h"
#include "util/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define FILES_MAX 4096 /* that are looked into */

/* ---- which there are ---- */

static int list_frame(struct tracks *t, uint32_t serial, const struct frame *h)
{
	if (h->kind != KIND_TRACKS)
		return 0;
	if (ARRAY_RESERVE(t->v, t->cap, t->n + 1))
		return -ENOMEM;
	t->v[t->n++] = (struct track_ref){ h->first, serial, h->offset };
	return 0;
}

/* Heads alone; the first that is not whole ends the file. */
static int list_file(struct store *s, uint32_t serial)
{
	struct file f;
	struct frame h;
	uint64_t at = FILE_HEADER_SIZE;
	int rc = 0;
	if (file_open(&f, s->dir_fd, s->dir,
		      (struct place){ .kind = KIND_TRACKS, .serial = serial }, s->header.store_id,
		      false, NULL))
		return 0;
	for (; !rc && !file_frame(&f, at, f.size, &h, NULL); at = frame_end(&h))
		rc = list_frame(&s->tracks, serial, &h);
	file_close(&f);
	return rc;
}

static int by_seq(const void *pa, const void *pb)
{
	const struct track_ref *a = pa, *b = pb;
	if (a->seq != b->seq)
		return a->seq < b->seq ? -1 : 1;
	return (a->serial < b->serial) - (a->serial > b->serial);
}

static int list(struct store *s)
{
	DIR *d = dir_open(s->dir_fd, TRACKS_DIR);
	int rc = d ? 0 : dir_failed(), n = 0;
	unsigned serial;
	char end;
	for (struct dirent *e; d && !rc && n < FILES_MAX && (e = readdir(d));)
		if (sscanf(e->d_name, "%u.tr%c", &serial, &end) == 2 && end == 'k') {
			rc = list_file(s, serial);
			n++;
		}
	if (d)
		closedir(d);
	if (rc)
		tracks_forget(&s->tracks); /* a part of the list would seem to be all of it */
	else if (s->tracks.n)
		qsort(s->tracks.v, s->tracks.n, sizeof(*s->tracks.v), by_seq);
	s->tracks.listed = !rc;
	return rc;
}

/* *ret NULL: the window has none. -ENOMEM. */
static int find(struct store *s, const struct block_ref *window, const struct track_ref **ret,
		struct err *err)
{
	const struct tracks *t = &s->tracks;
	*ret = NULL;
	if (window->b.level)
		return 0;
	int rc = t->listed ? 0 : list(s);
	if (rc)
		return err_sys(err, rc, "cannot read %s", s->dir);
	size_t at = bisect(i, 0, t->n, t->v[i].seq < window->b.seq);
	if (at < t->n && t->v[at].seq == window->b.seq)
		*ret = &t->v[at];
	return 0;
}

int tracks_has(struct store *s, const struct block_ref *window, bool *ret, struct err *err)
{
	const struct track_ref *at;
	int rc = find(s, window, &at, err);
	*ret = at != NULL;
	return rc;
}

void tracks_forget(struct tracks *t)
{
	free(t->v);
	*t = (struct tracks){ 0 };
}

/* ---- one ---- */

int tracks_decode(const struct frame *h, const uint8_t *stored, struct track *ret)
{
	struct buf raw = BUF_INIT;
	*ret = (struct track){ 0 };
	int rc = h->kind == KIND_TRACKS && h->raw_len && h->raw_len <= TRACK_RAW_MAX
			 ? codec_unpack(&raw, h->codec, stored, h->stored_len, h->raw_len)
			 : -EBADMSG;
	rc = rc ? rc : track_decode(ret, raw.data, raw.len);
	buf_fini(&raw);
	return rc;
}

static bool is_of(const struct track *t, const struct store_block *b)
{
	return t->t0_ns == b->t0_ns && t->t1_ns == b->t1_ns && t->n_rows == b->n_rows;
}

int tracks_read(struct store *s, const struct block_ref *window, struct track *ret, struct err *err)
{
	const struct track_ref *at;
	struct buf stored = BUF_INIT;
	struct track t = { 0 };
	struct frame h;
	struct file f;
	int rc = find(s, window, &at, err);
	if (rc || !at)
		return rc ? rc : -ENOENT;
	const struct place p = { .kind = KIND_TRACKS, .serial = at->serial };
	rc = file_open(&f, s->dir_fd, s->dir, p, s->header.store_id, false, err);
	if (rc)
		return rc;
	rc = file_frame(&f, at->offset, f.size, &h, &stored);
	rc = rc ? rc : tracks_decode(&h, stored.data, &t);
	if (rc == -EBADMSG || rc == -ENODATA)
		rc = err_set(err, -EBADMSG, "%s is damaged at offset %llu", f.path,
			     (unsigned long long)at->offset);
	else if (rc)
		err_sys(err, rc, "cannot read %s", f.path);
	else if (!is_of(&t, &window->b))
		rc = -ENOENT; /* of a window that a loss of power took */
	file_close(&f);
	buf_fini(&stored);
	if (rc)
		track_fini(&t);
	else
		*ret = t;
	return rc;
}
