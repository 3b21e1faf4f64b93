/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracks: when the samples of the last minutes were taken. They lie in files of their own, which
 * the manifest does not name:
 *
 *   trk/00000120.trk   track of window 120 | 121 | 122 | ...
 *   trk/00000135.trk   135 | 136 | ...                      <- written to
 *
 *   a file ends    after a quarter of tracks_ns, or at an eighth of tracks_bytes
 *   a file goes    when its newest track is older than tracks_ns, or all have over tracks_bytes
 *
 * Nothing is synced: a loss of power may take tracks, never windows. A track says which window it
 * is of by number, times and rows, so one that survived its window is no other's.
 */
#include "store/block/track.h"
#include "store/file/columns.h"
#include "store/write/writer_int.h"

#include "store/writer.h"
#include "util/array.h"
#include "util/bisect.h"
#include "util/clock.h"
#include "util/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 4 /* in tracks_ns */

void store_set_instants(struct store_writer *w, const struct store_instants *i)
{
	w->tracks.given = w->opt.tracks_ns ? i : NULL;
}

/* ---- files ---- */

static struct place place_of(uint32_t serial)
{
	return (struct place){ .kind = KIND_TRACKS, .serial = serial };
}

static void unlink_file(const struct store_writer *w, uint32_t serial)
{
	char name[FILE_NAME_SIZE];
	file_name(name, place_of(serial));
	unlinkat(w->s.dir_fd, name, 0);
}

static void drop_oldest(struct store_writer *w)
{
	struct tracks_out *t = &w->tracks;
	unlink_file(w, t->v[0].serial);
	w->state.tracks_bytes -= t->v[0].bytes;
	memmove(t->v, t->v + 1, --t->n * sizeof(*t->v));
}

/* Not the file that is written to, but for its size. */
static void cut(struct store_writer *w, int64_t boot_ns)
{
	const struct tracks_out *t = &w->tracks;
	const struct store_options *o = &w->opt;
	while (t->n > 1 && ((o->tracks_bytes && w->state.tracks_bytes > o->tracks_bytes) ||
			    boot_ns - t->v[0].last_boot_ns > o->tracks_ns))
		drop_oldest(w);
}

static int by_serial(const void *pa, const void *pb)
{
	const struct tracks_file *a = pa, *b = pb;
	return (a->serial > b->serial) - (a->serial < b->serial);
}

static void add_found(struct store_writer *w, int dir_fd, const char *name)
{
	struct tracks_out *t = &w->tracks;
	struct stat st;
	char shown[FILE_NAME_SIZE];
	unsigned serial;
	if (sscanf(name, "%u.trk", &serial) != 1)
		return;
	file_name(shown, place_of(serial));
	if (strcmp(shown + sizeof(TRACKS_DIR), name) ||
	    fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    ARRAY_RESERVE(t->v, t->cap, t->n + 1))
		return;
	t->v[t->n++] = (struct tracks_file){ .serial = serial,
					     .last_boot_ns = (int64_t)clock_ns(CLOCK_BOOTTIME),
					     .bytes = (uint64_t)st.st_size };
	w->state.tracks_bytes += (uint64_t)st.st_size;
}

void tracks_open(struct store_writer *w)
{
	struct tracks_out *t = &w->tracks;
	DIR *d = dir_open(w->s.dir_fd, TRACKS_DIR);
	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));)
		add_found(w, dirfd(d), e->d_name);
	closedir(d);
	if (t->n)
		qsort(t->v, t->n, sizeof(*t->v), by_serial);
	while (!w->opt.tracks_ns && t->n)
		drop_oldest(w);
}

void tracks_fini(struct store_writer *w)
{
	file_close(&w->tracks.file);
	free(w->tracks.v);
}

static bool ends_file(const struct store_writer *w, int64_t boot_ns)
{
	const struct tracks_out *t = &w->tracks;
	return t->file.fd < 0 || boot_ns - t->began_boot_ns >= w->opt.tracks_ns / FILES ||
	       (w->opt.tracks_bytes && t->file.tail > w->opt.tracks_bytes / (2 * FILES));
}

/* One of the same name is from a window that was not durable when the power went. */
static int need_file(struct store_writer *w, const struct store_block *b, struct err *err)
{
	struct tracks_out *t = &w->tracks;
	if (!ends_file(w, b->boot_ns))
		return 0;
	file_close(&t->file);
	while (t->n && t->v[t->n - 1].serial >= b->seq) {
		unlink_file(w, t->v[t->n - 1].serial);
		w->state.tracks_bytes -= t->v[--t->n].bytes;
	}
	if (ARRAY_RESERVE(t->v, t->cap, t->n + 1))
		return err_sys(err, -ENOMEM, "cannot write %s", w->s.dir);
	const struct place p = place_of(b->seq);
	int rc = file_create(w->s.dir_fd, w->s.dir, p, w->s.header.store_id, err);
	rc = rc ? rc
		: file_open(&t->file, w->s.dir_fd, w->s.dir, p, w->s.header.store_id, true, err);
	if (rc)
		return rc;
	t->began_boot_ns = b->boot_ns;
	t->v[t->n++] = (struct tracks_file){ .serial = b->seq,
					     .last_boot_ns = b->boot_ns,
					     .bytes = FILE_HEADER_SIZE };
	w->state.tracks_bytes += FILE_HEADER_SIZE;
	return 0;
}

static int append(struct store_writer *w, const struct track *track, const struct store_block *b,
		  struct err *err)
{
	struct tracks_out *t = &w->tracks;
	struct buf raw = BUF_INIT, stored = BUF_INIT;
	struct frame h = { .kind = KIND_TRACKS, .first = b->seq, .count = (uint32_t)track->n };
	int rc = track_encode(&raw, track);
	rc = rc ? rc : codec_pack_piece(&stored, raw.data, raw.len, &h.codec);
	h.raw_len = (uint32_t)raw.len;
	if (!rc && (rc = file_append(&t->file, &h, &stored)))
		file_rollback(&t->file);
	if (!rc) {
		file_commit(&t->file);
		t->v[t->n - 1].last_boot_ns = b->boot_ns;
		t->v[t->n - 1].bytes += FRAME_SIZE + stored.len;
		w->state.tracks_bytes += FRAME_SIZE + stored.len;
	}
	buf_fini(&raw);
	buf_fini(&stored);
	return rc ? err_sys(err, rc, "cannot write %s", t->file.path) : 0;
}

/* ---- from the rows of the open window to those of the block ---- */

#define NO_ROW UINT32_MAX

/* The number of a row of the block; NO_ROW: there is none. */
static uint32_t find_row(const struct store_writer *w, const struct rows *rows,
			 const uint32_t *set_of, const struct store_row *row, uint32_t stack)
{
	const struct dicts *d = &w->out[0].d;
	const uint32_t leaf = stack < d->leaf_of_cap ? d->leaf_of[stack] : 0,
		       set = set_of[row->set];
	const struct store_row wanted = { .set = set, .stack = leaf, .event = row->event };
	size_t at = bisect(i, 0, rows->n, rows_compare(&rows->v[i], &wanted) < 0);
	return at < rows->n && !rows_compare(&rows->v[at], &wanted) ? (uint32_t)at : NO_ROW;
}

static uint64_t set_and_event(uint32_t set, uint32_t event)
{
	return (uint64_t)set << 32 | event;
}

/* By label set and event; of each the largest row first. */
static int by_set(const void *pa, const void *pb, void *ctx)
{
	const struct rows *rows = ctx;
	const struct store_row *a = &rows->v[*(const uint32_t *)pa],
			       *b = &rows->v[*(const uint32_t *)pb];
	const uint64_t x = set_and_event(a->set, a->event), y = set_and_event(b->set, b->event);
	if (x != y)
		return x < y ? -1 : 1;
	return (a->value < b->value) - (a->value > b->value);
}

static uint32_t *sort_by_set(const struct rows *rows)
{
	uint32_t *order = malloc(rows->n * sizeof(*order));
	for (size_t i = 0; order && i < rows->n; i++)
		order[i] = (uint32_t)i;
	if (order && rows->n)
		qsort_r(order, rows->n, sizeof(*order), by_set, (void *)(uintptr_t)rows);
	return order;
}

/* The largest row of the label set and event. */
static uint32_t largest_row(const struct rows *rows, const uint32_t *order, uint32_t set,
			    uint32_t event)
{
	const uint64_t wanted = set_and_event(set, event);
	size_t at = bisect(i, 0, rows->n,
			   set_and_event(rows->v[order[i]].set, rows->v[order[i]].event) < wanted);
	const struct store_row *r = at < rows->n ? &rows->v[order[at]] : NULL;
	return r && set_and_event(r->set, r->event) == wanted ? order[at] : NO_ROW;
}

/*
 * Where each row of the instants went. Of a small row that was folded it is the one it was folded
 * into. Waits without a stack are divided among rows of their label set: they are at the largest.
 */
static uint32_t *map_rows(const struct store_writer *w, const struct rows *rows,
			  const uint32_t *set_of)
{
	const struct store_instants *g = w->tracks.given;
	uint32_t *map = malloc(g->n_rows * sizeof(*map)), *order = NULL;
	for (size_t i = 0; map && i < g->n_rows; i++) {
		const struct store_row *row = &g->rows[i];
		map[i] = NO_ROW;
		if (!row->samples || row->set >= w->sets.n)
			continue;
		map[i] = find_row(w, rows, set_of, row, row->stack);
		if (map[i] == NO_ROW)
			map[i] = find_row(w, rows, set_of, row, g->other);
		if (map[i] == NO_ROW && (order || (order = sort_by_set(rows))))
			map[i] = largest_row(rows, order, set_of[row->set], row->event);
	}
	free(order);
	return map;
}

static int by_time(const void *pa, const void *pb)
{
	const struct store_instant *a = pa, *b = pb;
	return (a->at_ns > b->at_ns) - (a->at_ns < b->at_ns);
}

/*
 * What a drain found a moment behind the window's end is of its last moment. Of a wait that goes on
 * the part behind the end is cut off.
 */
static void keep_within(const struct track *t, struct store_instant *v)
{
	const int64_t beyond_us = (v->at_ns - (t->t1_ns - 1)) / 1000;
	if (v->length_us && beyond_us > 0)
		v->length_us = beyond_us < v->length_us ? v->length_us - (uint32_t)beyond_us : 1;
	v->at_ns = v->at_ns < t->t0_ns ? t->t0_ns : v->at_ns >= t->t1_ns ? t->t1_ns - 1 : v->at_ns;
}

static int make_track(struct store_writer *w, const uint32_t *map, struct track *t)
{
	const struct store_instants *g = w->tracks.given;
	const size_t most = g->n < STORE_INSTANTS_MAX ? g->n : STORE_INSTANTS_MAX;
	if (ARRAY_RESERVE(t->v, t->cap, most + 1))
		return -ENOMEM;
	for (size_t i = 0; i < g->n && t->n < most; i++) {
		struct store_instant v = g->v[i];
		v.row = v.row < g->n_rows ? map[v.row] : NO_ROW;
		keep_within(t, &v);
		if (v.row != NO_ROW)
			t->v[t->n++] = v;
	}
	if (t->n)
		qsort(t->v, t->n, sizeof(*t->v), by_time);
	return 0;
}

void tracks_write(struct store_writer *w, const struct rows *rows, const uint32_t *set_of,
		  const struct block_ref *ref)
{
	struct err err = { 0 };
	struct track t = { .t0_ns = ref->b.t0_ns, .t1_ns = ref->b.t1_ns, .n_rows = ref->b.n_rows };
	if (!w->tracks.given || t.t1_ns - t.t0_ns > (int64_t)TRACK_SPAN_MAX)
		return;
	uint32_t *map = map_rows(w, rows, set_of);
	int rc = map ? make_track(w, map, &t) : -ENOMEM;
	if (rc)
		err_sys(&err, rc, "cannot write %s", w->s.dir);
	rc = rc ? rc : need_file(w, &ref->b, &err);
	rc = rc ? rc : append(w, &t, &ref->b, &err);
	if (rc) {
		w->state.tracks_failed++;
		snprintf(w->state.last_error, sizeof(w->state.last_error), "%s", err.text);
		file_close(&w->tracks.file);
	}
	cut(w, ref->b.boot_ns);
	track_fini(&t);
	free(map);
}
