/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verify and repair. Both look at every segment by itself and go on behind what is bad: at the next
 * intact frame. A block is whole when every column has its checksum and decodes, and its
 * dictionaries reach its mark.
 */
#include "store/check/check.h"

#include "store/block/projection.h"
#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/read/symbols.h"
#include "store/writer.h"
#include "util/dir.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Has a writer sealed or cut the segment since the manifest was read? Then what it lacks says
 * nothing. A writer replaces the manifest before it unlinks a file.
 */
static bool has_moved(struct check *c, const struct segment *g)
{
	struct manifest m;
	struct manifest_segment *v;
	size_t n;
	struct err ignored = { 0 };
	if (c->repair || !store_is_stale(&c->s) ||
	    manifest_read(&m, &v, &n, c->s.dir_fd, c->s.dir, c->s.header.store_id, &ignored))
		return false;
	bool same = false;
	for (size_t i = 0; i < n; i++) {
		same |= v[i].serial == g->m.serial && v[i].level == g->m.level &&
			v[i].state == g->m.state;
		manifest_segment_fini(&v[i]);
	}
	free(v);
	manifest_fini(&m);
	return !same;
}

void check_tell(struct check *c, enum store_finding_kind kind, const char *path, uint64_t offset,
		const char *fmt, ...)
{
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	struct store_finding f = { kind, path, offset, text };
	if (kind == STORE_DAMAGED && c->segment && has_moved(c, c->segment))
		return;
	c->n_bad += kind != STORE_TORN;
	c->cb(c->ctx, &f);
}

static void tell_file(struct check *c, enum store_finding_kind kind, struct place p,
		      uint64_t offset, const char *text)
{
	char path[512], name[FILE_NAME_SIZE];
	file_name(name, p);
	snprintf(path, sizeof(path), "%s/%s", c->s.dir, name);
	check_tell(c, kind, path, offset, "%s", text);
}

/* ---- the header ---- */

static int check_header(struct check *c)
{
	struct store *s = &c->s;
	struct header copy = { 0 };
	struct err why = { 0 };
	char path[512];
	int rc = header_read(&s->header, s->dir_fd, s->dir, &why);
	int rc_copy = header_read_file(&copy, s->dir_fd, s->dir, HEADER_COPY_NAME, NULL);
	if (rc_copy == -ENOMEM) {
		rc = err_sys(c->err, rc_copy, "cannot read %s", s->dir);
	} else if (rc == -ENOENT && rc_copy) {
		rc = err_set(c->err, -EINVAL, "%s is not a store of ascribe: it has no %s", s->dir,
			     HEADER_NAME);
	} else if (rc == -EBADMSG || rc == -ENOENT) {
		snprintf(path, sizeof(path), "%s/%s", s->dir, HEADER_NAME);
		check_tell(c, STORE_DAMAGED, path, 0, "the header is %s",
			   rc == -ENOENT ? "missing" : "damaged");
		rc = rc_copy ? err_set(c->err, -EBADMSG,
				       "%s and its copy are damaged: nothing can be read", path)
			     : 0;
		if (!rc) {
			s->header = copy;
			copy = (struct header){ 0 };
		}
		if (!rc && c->repair)
			rc = header_write(s->dir_fd, s->dir, &s->header, c->err);
	} else if (rc) {
		rc = err_set(c->err, rc, "%s", why.text);
	} else if (rc_copy || copy.store_id != s->header.store_id) {
		snprintf(path, sizeof(path), "%s/%s", s->dir, HEADER_COPY_NAME);
		check_tell(c, STORE_DAMAGED, path, 0,
			   "the copy of the header is missing or damaged");
		if (c->repair)
			rc = header_write(s->dir_fd, s->dir, &s->header, c->err);
	}
	header_fini(&copy);
	return rc;
}

/* ---- the manifest ---- */

static int add_found_segment(struct check *c, uint8_t level, uint32_t serial)
{
	struct manifest_segment m = { .serial = serial, .level = level };
	if (serial > c->s.manifest.next_segment)
		c->s.manifest.next_segment = serial;
	return store_add_segment(&c->s, &m, NULL);
}

/* What a name in the directory of segments is: the opposite of file_name. */
static int add_found(struct check *c, const char *name)
{
	const char *number = strrchr(name, '-');
	char *end = NULL;
	unsigned long serial = number ? strtoul(number + 1, &end, 10) : 0;
	if (!serial || serial > UINT32_MAX || strcmp(end, ".seg"))
		return 0;
	for (uint8_t k = 0; k < N_SEGMENT_LEVELS; k++)
		if (strlen(levels[k].name) == (size_t)(number - name) &&
		    !memcmp(levels[k].name, name, (size_t)(number - name)))
			return add_found_segment(c, k, (uint32_t)serial);
	return 0;
}

static int by_serial(const void *pa, const void *pb)
{
	const struct segment *a = pa, *b = pb;
	return (a->m.serial > b->m.serial) - (a->m.serial < b->m.serial);
}

/* From the names of the files. Anchors and what was cut are lost. */
static int rebuild_manifest(struct check *c)
{
	DIR *d = dir_open(c->s.dir_fd, "seg");
	int rc = d ? 0 : dir_failed();
	for (struct dirent *e; d && !rc && (e = readdir(d));)
		rc = add_found(c, e->d_name);
	if (d)
		closedir(d);
	if (c->s.n_segments)
		qsort(c->s.segments, c->s.n_segments, sizeof(*c->s.segments), by_serial);
	c->changed = c->rebuilt = true;
	return rc ? err_sys(c->err, rc, "cannot read %s", c->s.dir) : 0;
}

static int check_manifest(struct check *c)
{
	struct store *s = &c->s;
	struct err why = { 0 };
	struct manifest_segment *segments;
	size_t n;
	char path[512];
	int rc = manifest_read(&s->manifest, &segments, &n, s->dir_fd, s->dir, s->header.store_id,
			       &why);
	if (!rc)
		return store_take_segments(s, segments, n)
			       ? err_sys(c->err, -ENOMEM, "cannot read %s", s->dir)
			       : 0;
	if (rc != -EBADMSG && rc != -ENOENT)
		return err_set(c->err, rc, "%s", why.text);
	snprintf(path, sizeof(path), "%s/%s", s->dir, MANIFEST_NAME);
	check_tell(c, STORE_DAMAGED, path, 0, "the manifest is %s",
		   rc == -ENOENT ? "missing" : "damaged");
	return rebuild_manifest(c);
}

/* ---- blocks ---- */

/* What a block says of idle CPUs is true of this leaf. */
static bool idle_is_right(const struct store_block *b, const struct dicts *d, uint32_t leaf)
{
	return !b->idle || (leaf && leaf + 1 == b->idle) == dicts_is_idle(d, d->leaves[leaf]);
}

/* To the end: every group, every row. */
static int read_rows(struct rows_reader *r, const struct store_block *b, const struct dicts *d)
{
	int rc;
	while ((rc = rows_next_group(r)) > 0)
		if (!idle_is_right(b, d, r->group.stack))
			return -EBADMSG;
	return rc;
}

static int read_values(struct check *c, const struct block_ref *r, const struct block_data *d,
		       const struct block_key *key, struct err *why)
{
	struct store *s = &c->s;
	const struct dicts *dicts;
	struct value_list list = { 0 };
	struct buf raw = BUF_INIT;
	int more, rc = store_dicts(s, r, SYMBOLS_ALL, &dicts, why);
	const struct block_column at = { key->at, key->raw_len, key->stored_len, key->crc,
					 key->codec };
	rc = rc ? rc : block_read_piece(s, r, &d->head, COLUMN_VALUES, &at, &raw, why);
	if (!rc && value_list_begin(&list, &raw, dicts->n_events, dicts->events))
		rc = block_damaged(s, r, why);
	while (!rc && (more = value_list_next(&list))) {
		const struct block_column groups = { list.at, list.raw_len, list.stored_len,
						     list.crc, list.codec };
		struct buf data = BUF_INIT;
		struct groups_reader in;
		if (more < 0)
			rc = more == -ENOMEM ? err_sys(why, more, "cannot read %s", s->dir)
					     : block_damaged(s, r, why);
		else
			rc = block_read_piece(s, r, &d->head, COLUMN_PROJECTIONS, &groups, &data,
					      why);
		if (!rc)
			groups_begin(&in, &list, &data, d->head.mark.count[KIND_LEAVES]);
		while (!rc && (more = groups_next(&in)))
			rc = more < 0 ? block_damaged(s, r, why) : 0;
		buf_fini(&data);
	}
	value_list_fini(&list);
	buf_fini(&raw);
	return rc;
}

static int read_labels(struct check *c, struct segment *g, const struct block_ref *r,
		       const struct block_data *d, struct err *why)
{
	struct block_keys keys = { 0 };
	struct set_sums_reader sums;
	int more, rc = contents_keys(&c->s, r, d, &keys, why);
	for (size_t i = 0; !rc && i < keys.n; i++) {
		if (keys.v[i].state & KEY_PROJECTED)
			rc = read_values(c, r, d, &keys.v[i], why);
		if (!rc && c->rebuilt && !r->b.level &&
		    manifest_set_wide(&g->m, keys.v[i].key, keys.v[i].len, 0))
			rc = err_sys(why, -ENOMEM, "cannot read %s", c->s.dir);
	}
	block_keys_fini(&keys);
	if (rc || !block_has(&d->head, COLUMN_SUMS))
		return rc;
	rc = contents_sums(&c->s, r, d, &sums, why);
	while (!rc && (more = set_sums_next(&sums)))
		rc = more < 0 ? block_damaged(&c->s, r, why) : 0;
	return rc;
}

/* Everything in it decodes. */
static int check_block(struct check *c, struct segment *g, const struct block_ref *r,
		       struct err *why)
{
	struct store *s = &c->s;
	struct block_data d;
	struct rows_reader rows;
	struct settable table = { 0 };
	struct totals totals = { 0 };
	struct top top = { 0 };
	const struct dicts *dicts;
	int rc = block_read(s, r, UINT32_MAX, &d, why);
	if (rc)
		return rc;
	rc = store_dicts(s, r, SYMBOLS_ALL, &dicts, why);
	if (!rc && r->b.level != LEVEL_POSTINGS) {
		rc = contents_rows(s, r, &d, SYMBOLS_ALL, &rows, why);
		if (!rc && read_rows(&rows, &r->b, dicts))
			rc = block_damaged(s, r, why);
		if (!rc)
			rc = contents_table(s, r, &d, true, NULL, &table, why);
		if (!rc)
			rc = contents_totals(s, r, &d, &totals, why);
		if (!rc)
			rc = contents_top(s, r, &d, &top, why);
		if (!rc)
			rc = read_labels(c, g, r, &d, why);
	}
	top_fini(&top);
	totals_fini(&totals);
	settable_fini(&table);
	block_data_fini(&d);
	return rc;
}

/* ---- frames of a segment ---- */

/* The frame at offset. A block becomes one of the segment's; whether it is whole is looked at
 * later. -EBADMSG. */
static int look_at_frame(struct check *c, struct segment *g, uint64_t offset, struct frame *ret,
			 struct scan *scan)
{
	struct buf payload = BUF_INIT;
	struct block_head h;
	struct frame f;
	int rc = file_frame(&g->file, offset, g->file.size, &f, &payload);
	if (!rc && f.kind == KIND_BLOCKS) {
		size_t len = payload.len < BLOCK_HEAD_MAX ? payload.len : BLOCK_HEAD_MAX;
		rc = payload.data ? block_decode_head(&h, payload.data, len, payload.len)
				  : -EBADMSG;
		if (!rc && (h.info.level != g->m.level || h.info.seq != f.first ||
			    (g->n_refs && g->refs[g->n_refs - 1].b.seq >= f.first)))
			rc = -EBADMSG;
		if (!rc)
			rc = segment_add_ref(&c->s, g, &h, offset, f.stored_len);
		scan->symbols_at = scan->index_at = 0;
	} else if (!rc && f.kind == KIND_INDEX) {
		scan->symbols_at = scan->symbols_at ? scan->symbols_at : offset;
		scan->index_at = offset;
	} else if (!rc) {
		scan->symbols_at = scan->symbols_at ? scan->symbols_at : offset;
	}
	buf_fini(&payload);
	if (!rc)
		*ret = f;
	return rc == -ENODATA ? -EBADMSG : rc;
}

static int scan_frames(struct check *c, struct segment *g, struct scan *scan)
{
	/* What a failed write left behind the end of a closed one means nothing. */
	bool closed = g->m.state == SEGMENT_CLOSED && !c->rebuilt && g->m.end <= g->file.size;
	uint64_t at = FILE_HEADER_SIZE, end = closed ? g->m.end : g->file.size;
	while (at < end) {
		struct frame f;
		uint64_t next = UINT64_MAX;
		int rc = look_at_frame(c, g, at, &f, scan);
		if (!rc) {
			at = frame_end(&f);
			continue;
		}
		if (rc != -EBADMSG)
			return err_sys(c->err, rc, "cannot read %s", g->file.path);
		/* What a writer was sealing may be there in parts. */
		rc = file_find_frame(&g->file, g->m.state == SEGMENT_OPEN ? KIND_BLOCKS : 0, at + 1,
				     &next);
		if (rc)
			return err_sys(c->err, rc, "cannot read %s", g->file.path);
		bool torn = next == UINT64_MAX && g->m.state == SEGMENT_OPEN && at >= g->m.end &&
			    !c->rebuilt;
		if (torn)
			scan->torn = at;
		scan->bad |= !torn;
		check_tell(c, torn ? STORE_TORN : STORE_DAMAGED, g->file.path, at,
			   "%s, %" PRIu64 " bytes",
			   torn ? "the last block is incomplete" : "no whole block",
			   (next < end ? next : end) - at);
		at = next;
	}
	return 0;
}

static uint64_t size_of(struct check *c, struct place p)
{
	char name[FILE_NAME_SIZE];
	struct stat st;
	file_name(name, p);
	return fstatat(c->s.dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) ? 0 : (uint64_t)st.st_size;
}

/* An index that is whole as a frame may still say something else than the blocks. */
static void check_end(struct check *c, struct segment *g, struct scan *scan)
{
	struct manifest_segment m = g->m;
	bool sealed = m.state == SEGMENT_SEALED;
	if (sealed && (scan->index_at != m.index_at || scan->symbols_at != m.symbols_at ||
		       m.end != g->file.size || m.n_blocks != g->n_refs)) {
		if (!scan->bad)
			check_tell(c, STORE_DAMAGED, g->file.path, m.index_at,
				   "the index is missing or wrong");
		scan->bad = true;
	} else if (m.end > g->file.size) {
		if (!scan->bad)
			check_tell(c, STORE_DAMAGED, g->file.path, g->file.size,
				   "the file is cut short");
		scan->bad = true;
	}
}

/*
 * Where the dictionaries of a file are when the manifest is lost: in it, if it ends with an index;
 * else beside it.
 */
static void find_symbols(const struct check *c, struct segment *g, const struct scan *scan)
{
	if (!c->rebuilt || !scan->index_at)
		return;
	g->m.state = SEGMENT_SEALED;
	g->m.symbols_at = scan->symbols_at;
	g->m.index_at = scan->index_at;
	g->m.end = g->file.size;
}

/*
 * Readers believe no event that the manifest lacks. A writer names a new event in the manifest
 * first, so where the manifest has been replaced meanwhile nothing is known.
 */
static int check_events(struct check *c, const struct segment *g, const struct dicts *d)
{
	bool new, any = false;
	for (uint32_t i = 0; i < d->n_events; i++) {
		if (manifest_add_event(&c->s.manifest, &d->events[i], &new))
			return err_sys(c->err, -ENOMEM, "cannot read %s", c->s.dir);
		any |= new;
	}
	if (any && !c->rebuilt && (c->repair || !store_is_stale(&c->s))) {
		check_tell(c, STORE_DAMAGED, g->file.path, 0,
			   "its dictionaries have an event that the manifest lacks");
		c->changed = true;
	}
	return 0;
}

static int check_symbols(struct check *c, struct segment *g, struct scan *scan)
{
	struct place p = { KIND_SYMBOLS, g->m.serial, g->m.level };
	struct block_ref r = { .segment = (uint32_t)(g - c->s.segments) };
	const struct dicts *d;
	struct err why = { 0 };
	bool open = g->m.state == SEGMENT_OPEN;
	int rc = store_dicts(&c->s, &r, SYMBOLS_ALL, &d, &why);
	if (rc && rc != -EBADMSG && rc != -EPROTONOSUPPORT && rc != -ESTALE)
		return err_set(c->err, rc, "%s", why.text);
	if (rc) {
		tell_file(c, STORE_DAMAGED, p, 0, why.text);
		scan->bad = true;
		return 0;
	}
	rc = check_events(c, g, d);
	if (rc)
		return rc;
	uint64_t good = g->symbols->good, last = g->n_refs ? g->refs[g->n_refs - 1].mark : 0;
	if (g->m.state == SEGMENT_SEALED) {
		if (good == g->m.index_at - g->m.symbols_at)
			return 0;
		check_tell(c, STORE_DAMAGED, g->file.path, g->m.symbols_at + good,
			   "the dictionaries are damaged");
		scan->bad = true;
		return 0;
	}
	uint64_t size = size_of(c, p);
	if (size < FILE_HEADER_SIZE) {
		tell_file(c, STORE_DAMAGED, p, 0, "the file is missing or shorter than its header");
		scan->bad = true;
	} else if (size > good + FILE_HEADER_SIZE && (g->m.state == SEGMENT_OPEN || last > good)) {
		bool torn = open && last <= good && !c->rebuilt;
		tell_file(c, torn ? STORE_TORN : STORE_DAMAGED, p, good + FILE_HEADER_SIZE,
			  "no whole frame from here on");
		if (torn)
			scan->torn = scan->torn == UINT64_MAX ? g->file.size : scan->torn;
		scan->bad |= !torn;
	}
	return 0;
}

/* Those that are whole stay. */
static int check_blocks(struct check *c, struct segment *g, struct scan *scan)
{
	size_t n = 0;
	for (size_t i = 0; i < g->n_refs; i++) {
		struct err why = { 0 };
		const struct block_ref r = g->refs[i];
		int rc = check_block(c, g, &r, &why);
		if (rc && rc != -EBADMSG && rc != -ESTALE)
			return err_set(c->err, rc, "%s", why.text);
		if (rc) {
			check_tell(c, STORE_DAMAGED, g->file.path, r.offset, "%s",
				   why.text[0] ? why.text : "no whole block");
			scan->bad = true;
			continue;
		}
		g->refs[n++] = r;
	}
	g->n_refs = n;
	return 0;
}

static int check_segment(struct check *c, size_t i)
{
	struct segment *g = &c->s.segments[i];
	struct scan scan = { .torn = UINT64_MAX };
	struct err why = { 0 };
	bool keep = true;
	int rc = segment_open(&c->s, g, &why);
	if (rc == -EBADMSG || rc == -ENODATA || rc == -ENOENT) {
		bool young = rc == -ENODATA && g->m.state == SEGMENT_OPEN && !g->m.end;
		check_tell(c, young ? STORE_TORN : STORE_DAMAGED, g->file.path, 0, "%s", why.text);
		c->changed = true;
		c->kept[i] = false;
		return 0;
	}
	if (rc)
		return err_set(c->err, rc, "%s", why.text);
	uint32_t had = g->m.n_blocks;
	char path[sizeof(g->file.path)];
	snprintf(path, sizeof(path), "%s", g->file.path);
	g->loaded = true;
	rc = scan_frames(c, g, &scan);
	if (rc)
		return rc;
	check_end(c, g, &scan);
	find_symbols(c, g, &scan);
	rc = check_symbols(c, g, &scan);
	if (!rc)
		rc = check_blocks(c, g, &scan);
	if (!rc && c->repair)
		rc = repair_segment(c, g, &scan, &keep);
	c->kept[i] = keep;
	if (!rc && c->repair && scan.bad)
		check_tell(c, STORE_CUT, path, 0,
			   had ? "%zu blocks are kept of %u" : "%zu blocks are kept", g->n_refs,
			   had);
	symbols_free(g);
	return rc;
}

static int check(struct check *c, const char *dir)
{
	int rc = setpool_init(&c->s.sets) || dicts_init(&c->s.sym, false)
			 ? err_sys(c->err, -ENOMEM, "cannot read %s", dir)
			 : 0;
	store_stamp(&c->s);
	if (!rc)
		rc = check_header(c);
	if (!rc)
		rc = check_manifest(c);
	if (!rc && !(c->kept = calloc(c->s.n_segments, sizeof(*c->kept))))
		rc = err_sys(c->err, -ENOMEM, "cannot read %s", dir);
	for (size_t i = 0; !rc && i < c->s.n_segments; i++) {
		c->segment = &c->s.segments[i];
		rc = check_segment(c, i);
	}
	c->segment = NULL;
	rc = rc ? rc : check_tracks(c);
	if (!rc && c->repair)
		rc = repair_finish(c);
	free(c->kept);
	return rc;
}

int store_verify(const char *dir, void (*cb)(void *ctx, const struct store_finding *f), void *ctx,
		 struct err *err)
{
	struct check c = { .cb = cb, .ctx = ctx, .err = err };
	store_init(&c.s);
	int rc = store_open_dir(&c.s, dir, err);
	if (!rc)
		rc = check(&c, dir);
	store_fini(&c.s);
	return rc;
}

int store_repair(const char *dir, void (*cb)(void *ctx, const struct store_finding *f), void *ctx,
		 struct err *err)
{
	struct check c = { .repair = true, .cb = cb, .ctx = ctx, .err = err };
	struct store_writer lock = { .lock_fd = -1 };
	store_init(&lock.s);
	store_init(&c.s);
	int rc = store_open_dir(&lock.s, dir, err);
	if (!rc)
		rc = writer_take_lock(&lock, err);
	if (!rc)
		rc = store_open_dir(&c.s, dir, err);
	if (!rc)
		rc = check(&c, dir);
	store_fini(&c.s);
	store_fini(&lock.s);
	if (lock.lock_fd >= 0)
		close(lock.lock_fd);
	return rc;
}
