/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion of a store of format 2, window by window in the order of writing. Where retention has
 * cut windows, the finest blocks left that hold them become windows, as long as they are.
 */
#include "store/dict/translate.h"
#include "store/old/old.h"

#include "store/file/message.h"
#include "store/old/read.h"
#include "store/read/contents.h"
#include "store/write/writer_int.h"
#include "store/writer.h"
#include "util/array.h"
#include "util/bisect.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

bool store_is_old(const char *dir)
{
	struct buf b = BUF_INIT;
	uint64_t id;
	uint32_t version = 0;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 ? -errno
			: file_read_whole(fd, HEADER_NAME, HEADER_SIZE,
					  HEADER_SIZE + HEADER_PAYLOAD_MAX, &b);
	rc = rc ? rc : message_check(&b, HEADER_MAGIC, 0, &id, &version);
	buf_fini(&b);
	if (fd >= 0)
		close(fd);
	return rc == -EPROTONOSUPPORT && version == FORMAT_OLD;
}

/* ---- which blocks ---- */

/* Blocks that hold every window once, by their first window. */
struct choice {
	const struct old_block **v;
	size_t n, cap;
	struct store_conversion *done;
};

static int by_window(const void *pa, const void *pb)
{
	const struct store_block *a = &(*(const struct old_block *const *)pa)->b,
				 *b = &(*(const struct old_block *const *)pb)->b;
	if (a->window_lo != b->window_lo)
		return a->window_lo < b->window_lo ? -1 : 1;
	return a->level != b->level ? a->level - b->level : (a->seq > b->seq) - (a->seq < b->seq);
}

static size_t first_from(const struct choice *c, uint32_t window)
{
	return bisect(i, 0, c->n, c->v[i]->b.window_lo < window);
}

static bool is_part_of(const struct store_block *b, const struct store_block *p)
{
	return b->window_hi <= p->window_hi &&
	       slot_of(p->level, b->t0_ns) == slot_of(p->level, p->t0_ns);
}

/*
 * Mark the blocks that a parent is to replace: none when they hold all of its windows. Replaced are
 * also those that are there, since their sums are part of the parent's.
 */
static bool replaces(struct choice *c, const struct store_block *p, bool *gone)
{
	size_t from = first_from(c, p->window_lo), i;
	uint64_t there = 0;
	for (i = from; i < c->n && c->v[i]->b.window_lo < p->window_hi; i++)
		there += is_part_of(&c->v[i]->b, p) ? c->v[i]->b.n_windows : 0;
	if (there >= p->n_windows)
		return false;
	while (i-- > from) {
		if (!is_part_of(&c->v[i]->b, p))
			continue;
		gone[i] = true;
		c->done->replaced += !c->v[i]->b.level;
	}
	return true;
}

/* c holds what the levels below have. */
static int choose_level(struct choice *c, const struct old_store *o, uint8_t level)
{
	bool *gone = calloc(c->n, sizeof(*gone));
	size_t n = c->n, kept = 0;
	int rc = gone ? 0 : -ENOMEM;
	const struct old_block **more = NULL;
	size_t n_more = 0, cap_more = 0;
	for (size_t i = 0; !rc && i < o->n_blocks; i++) {
		const struct old_block *r = &o->blocks[i];
		if (r->b.level != level || (level && !replaces(c, &r->b, gone)))
			continue;
		rc = ARRAY_RESERVE(more, cap_more, n_more + 1);
		if (!rc)
			more[n_more++] = r;
	}
	for (size_t i = 0; !rc && i < n; i++)
		if (!gone[i])
			c->v[kept++] = c->v[i];
	if (!rc)
		rc = ARRAY_RESERVE(c->v, c->cap, kept + n_more + 1);
	if (!rc) {
		if (n_more)
			memcpy(c->v + kept, more, n_more * sizeof(*more));
		c->n = kept + n_more;
		qsort(c->v, c->n, sizeof(*c->v), by_window);
	}
	free(gone);
	free(more);
	return rc;
}

/* ---- one block ---- */

struct converting {
	struct old_store o;
	struct store_writer *w;
	/* from the symbols that the old store has read to those of the writer */
	struct translation to;
	uint32_t generation; /* that `to` is about */
	struct store_conversion *done;
	struct err *err;
};

static int failed(const struct converting *c, int rc)
{
	return err_sys(c->err, rc, "cannot convert %s", c->o.dir);
}

/*
 * Files of the new store end where a recorder's would. Events keep their order: the first one is
 * what reports are about.
 */
static int follow_files(struct converting *c, const struct old_block *r)
{
	bool renewed = store_renew(c->w);
	uint32_t id;
	int rc = 0;
	store_renew_end(c->w);
	if (renewed || c->generation != r->generation)
		translation_fini(&c->to);
	c->generation = r->generation;
	c->to.from = &c->o.symbols.d;
	c->to.to = &c->w->out[0].d;
	for (uint32_t i = 0; !rc && i < c->o.symbols.d.n_events; i++)
		rc = translate_event(&c->to, i, &id);
	return rc ? failed(c, rc) : 0;
}

/*
 * map: by set of the block, 0 or the writer's id + 1. -EBADMSG: a key with a NUL, which no recorder
 * writes and no reader of today takes.
 */
static int map_set(struct converting *c, const struct old_contents *b, uint32_t set, uint32_t *map)
{
	struct label labels[STORE_SET_MAX];
	const struct settable_set *ts = b->table.n ? &b->table.sets[set] : NULL;
	uint32_t id;
	size_t n =
		contents_labels(&c->o.labels.d, ts ? ts->narrow : set, &b->table, ts, NULL, labels);
	for (size_t i = 0; i < n; i++)
		if (memchr(labels[i].key, 0, labels[i].key_len))
			return -EBADMSG;
	int rc = store_add_set(c->w, labels, n, &id);
	if (!rc)
		map[set] = id + 1;
	return rc;
}

/* -EBADMSG: the rows are damaged. */
static int add_group(struct converting *c, const struct old_contents *b, struct rows_reader *rows,
		     uint32_t *map)
{
	const struct store_row *g = &rows->group;
	uint32_t stack, event;
	int more, rc = translate_leaf_stack(&c->to, g->stack, &stack);
	rc = rc ? rc : translate_event(&c->to, g->event, &event);
	if (rc)
		return rc;
	if (!b->has_sets) {
		c->done->unlabelled += g->samples;
		return store_add_row(c->w, 0, stack, event, g->samples, g->value);
	}
	while (!rc && (more = rows_next(rows))) {
		const struct store_row *row = &rows->row;
		if (more < 0)
			return more;
		rc = map[row->set] ? 0 : map_set(c, b, row->set, map);
		rc = rc ? rc
			: store_add_row(c->w, map[row->set] - 1, stack, event, row->samples,
					row->value);
	}
	return rc;
}

static int add_rows(struct converting *c, const struct old_block *r, const struct old_contents *b)
{
	struct rows_reader rows;
	uint32_t *map = calloc(b->limits.n_sets, sizeof(*map));
	int more, rc = map ? 0 : -ENOMEM;
	rows_begin(&rows, &b->head, b->column + COLUMN_LEAF, b->has_sets, &b->limits);
	while (!rc && (more = rows_next_group(&rows)))
		rc = more < 0 ? more : add_group(c, b, &rows, map);
	free(map);
	if (rc == -EBADMSG)
		return old_damaged(&c->o, r, c->err);
	return rc ? failed(c, rc) : 0;
}

static int convert_block(struct converting *c, const struct old_block *r)
{
	struct old_contents b;
	int rc = old_read(&c->o, r, &b, c->err);
	if (rc)
		return rc;
	rc = follow_files(c, r);
	rc = rc ? rc : add_rows(c, r, &b);
	rc = rc ? rc : writer_commit_copy(c->w, &r->b, &b.totals.t, c->err);
	/* A writer on a full disk cuts what is old: here that would be what was just converted. */
	if (!rc && c->w->state.shed)
		rc = err_set(c->err, -ENOSPC, "cannot convert %s: no room in %s", c->o.dir,
			     c->w->s.dir);
	if (!rc) {
		c->done->windows++;
		c->done->parents += r->b.level > 0;
		c->done->without_wide += block_has(&b.head, OLD_COLUMN_WIDE) && b.has_sets;
	}
	old_contents_fini(&b);
	return rc;
}

/* ---- all ---- */

static uint64_t bytes_there; /* nftw gives its callback nothing of the caller's */

static int add_size(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path;
	(void)ftw;
	bytes_there += type == FTW_F ? (uint64_t)st->st_blocks * 512 : 0;
	return 0;
}

static int check_room(const struct converting *c, const char *to)
{
	struct statvfs v;
	bytes_there = 0;
	if (nftw(c->o.dir, add_size, 16, FTW_PHYS) || fstatvfs(c->w->s.dir_fd, &v))
		return 0; /* a writer says it when there is none */
	uint64_t room = (uint64_t)v.f_bavail * v.f_frsize;
	if (room >= bytes_there)
		return 0;
	return err_set(c->err, -ENOSPC,
		       "converting %s needs about %" PRIu64
		       " MiB, and the file system of %s has %" PRIu64 " MiB",
		       c->o.dir, (bytes_there >> 20) + 1, to, room >> 20);
}

/* The new store begins with the clocks of the old one. */
static int copy_anchors(struct converting *c)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < c->o.n_anchors; i++)
		rc = manifest_add_anchor(&c->w->s.manifest, &c->o.anchors[i]);
	return rc ? failed(c, rc) : 0;
}

static int convert_blocks(struct converting *c)
{
	struct choice choice = { .done = c->done };
	int rc = 0;
	for (uint8_t level = 0; !rc && level < N_LEVELS; level++)
		rc = choose_level(&choice, &c->o, level);
	rc = rc ? failed(c, rc) : 0;
	for (size_t i = 0; !rc && i < choice.n; i++)
		rc = convert_block(c, choice.v[i]);
	free(choice.v);
	return rc;
}

int store_convert(const char *from, const char *to, bool parents, struct store_conversion *ret,
		  struct err *err)
{
	struct store_conversion done = { 0 };
	struct converting c = { .done = &done, .err = err };
	struct store_options opt;
	int rc = old_open(&c.o, from, err);
	if (rc)
		return rc;
	memcpy(done.torn, c.o.torn, sizeof(done.torn));
	store_options_default(&opt);
	opt.windows_only = true;
	rc = store_writer_open_with(&c.w, to, &c.o.header.meta, &opt, err);
	rc = rc ? rc : check_room(&c, to);
	if (!rc) /* so that segments of both may stand in one directory */
		c.w->s.manifest.next_segment = c.o.last_segment;
	rc = rc ? rc : copy_anchors(&c);
	rc = rc ? rc : convert_blocks(&c);
	rc = rc || !parents ? rc : store_compact(c.w, err);
	done.bytes = rc ? 0 : c.w->state.bytes_written;
	translation_fini(&c.to);
	store_writer_close(c.w);
	old_close(&c.o);
	if (!rc)
		*ret = done;
	return rc;
}
