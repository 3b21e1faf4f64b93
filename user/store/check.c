/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verify and repair. Both look at every file by itself and go on behind what is bad: at the next
 * intact frame of a segment. A block is whole when every column has its checksum and decodes, and
 * its dictionaries reach its marks.
 */
#include "store/writer_int.h"

#include "util/array.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct check {
	struct store s;
	bool repair;
	bool changed;		 /* the manifest has to be written */
	bool rebuilt;		 /* it was lost */
	struct manifest_segment *kept; /* repair: what becomes of the segments */
	size_t n_kept, kept_cap;
	uint64_t n_bad;
	void (*cb)(void *ctx, const struct store_finding *f);
	void *ctx;
	struct err *err;
};

__attribute__((format(printf, 5, 6))) static void tell(struct check *c, enum store_finding_kind kind, const char *path,
							uint64_t offset, const char *fmt, ...)
{
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	struct store_finding f = { kind, path, offset, text };
	c->n_bad += kind != STORE_TORN;
	c->cb(c->ctx, &f);
}

static void tell_file(struct check *c, enum store_finding_kind kind, struct place p, uint64_t offset, const char *text)
{
	char path[512], name[FILE_NAME_SIZE];
	file_name(name, p);
	snprintf(path, sizeof(path), "%s/%s", c->s.dir, name);
	tell(c, kind, path, offset, "%s", text);
}

/* ---- header and manifest ---- */

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
		rc = err_set(c->err, -EINVAL, "%s is not a store of ascribe: it has no %s", s->dir, HEADER_NAME);
	} else if (rc == -EBADMSG || rc == -ENOENT) {
		snprintf(path, sizeof(path), "%s/%s", s->dir, HEADER_NAME);
		tell(c, STORE_DAMAGED, path, 0, "the header is %s", rc == -ENOENT ? "missing" : "damaged");
		rc = rc_copy ? err_set(c->err, -EBADMSG, "%s and its copy are damaged: nothing can be read", path) : 0;
		if (!rc) {
			s->header = copy;
			copy = (struct header){ 0 };
		}
		if (!rc && c->repair)
			rc = header_write(s->dir_fd, s->dir, s->header.store_id, &s->header.meta, c->err);
	} else if (rc) {
		rc = err_set(c->err, rc, "%s", why.text);
	} else if (rc_copy || copy.store_id != s->header.store_id) {
		snprintf(path, sizeof(path), "%s/%s", s->dir, HEADER_COPY_NAME);
		tell(c, STORE_DAMAGED, path, 0, "the copy of the header is missing or damaged");
		if (c->repair)
			rc = header_write(s->dir_fd, s->dir, s->header.store_id, &s->header.meta, c->err);
	}
	header_fini(&copy);
	return rc;
}

static int add_found_segment(struct check *c, uint8_t level, uint32_t serial)
{
	struct manifest *m = &c->s.manifest;
	struct manifest_segment *v = realloc(m->segments, (m->n_segments + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	m->segments = v;
	v[m->n_segments++] = (struct manifest_segment){ .serial = serial, .level = level };
	if (serial > m->next_segment)
		m->next_segment = serial;
	return 0;
}

/* What a name in a directory of the store is: the opposite of file_name. */
static int add_found(struct check *c, const char *dir, const char *name)
{
	struct manifest *m = &c->s.manifest;
	char *end;
	const char *number = !strcmp(dir, "seg") ? strrchr(name, '-') : name;
	unsigned long serial = number ? strtoul(number + (*number == '-'), &end, 10) : 0;
	if (!serial || serial > UINT32_MAX || strstr(name, ".tmp"))
		return 0;
	if (!strcmp(dir, "sym"))
		return manifest_add_generation(m, (uint32_t)serial, 0);
	if (!strcmp(dir, "lab")) {
		struct manifest_epoch e = { .serial = (uint32_t)serial };
		return manifest_add_epoch(m, &e);
	}
	for (uint8_t k = 0; k < N_SEGMENT_LEVELS; k++)
		if (strlen(levels[k].name) == (size_t)(number - name) &&
		    !memcmp(levels[k].name, name, (size_t)(number - name)))
			return add_found_segment(c, k, (uint32_t)serial);
	return 0;
}

static int by_generation(const void *pa, const void *pb)
{
	const struct manifest_generation *a = pa, *b = pb;
	return (a->serial > b->serial) - (a->serial < b->serial);
}

static int by_epoch(const void *pa, const void *pb)
{
	const struct manifest_epoch *a = pa, *b = pb;
	return (a->serial > b->serial) - (a->serial < b->serial);
}

static int by_serial(const void *pa, const void *pb)
{
	const struct manifest_segment *a = pa, *b = pb;
	return (a->serial > b->serial) - (a->serial < b->serial);
}

/* From the names of the files. Which keys were wide, anchors and what was cut are lost. */
static int rebuild_manifest(struct check *c)
{
	static const char *const dirs[] = { "sym", "lab", "seg" };
	struct manifest *m = &c->s.manifest;
	int rc = 0;
	for (size_t i = 0; !rc && i < 3; i++) {
		int fd = openat(c->s.dir_fd, dirs[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		DIR *d = fd < 0 ? NULL : fdopendir(fd);
		for (struct dirent *e; d && !rc && (e = readdir(d));)
			rc = add_found(c, dirs[i], e->d_name);
		if (d)
			closedir(d);
		else if (fd >= 0)
			close(fd);
	}
	if (m->n_generations)
		qsort(m->generations, m->n_generations, sizeof(*m->generations), by_generation);
	if (m->n_epochs)
		qsort(m->epochs, m->n_epochs, sizeof(*m->epochs), by_epoch);
	if (m->n_segments)
		qsort(m->segments, m->n_segments, sizeof(*m->segments), by_serial);
	c->changed = c->rebuilt = true;
	return rc ? err_sys(c->err, rc, "cannot read %s", c->s.dir) : 0;
}

static int check_manifest(struct check *c)
{
	struct store *s = &c->s;
	struct err why = { 0 };
	char path[512];
	int rc = manifest_read(&s->manifest, s->dir_fd, s->dir, s->header.store_id, &why);
	if (rc == -EBADMSG || rc == -ENOENT) {
		snprintf(path, sizeof(path), "%s/%s", s->dir, MANIFEST_NAME);
		tell(c, STORE_DAMAGED, path, 0, "the manifest is %s", rc == -ENOENT ? "missing" : "damaged");
		rc = rebuild_manifest(c);
	} else if (rc) {
		return err_set(c->err, rc, "%s", why.text);
	}
	for (size_t i = 0; !rc && i < s->manifest.n_segments; i++)
		if (store_add_segment(s, &s->manifest.segments[i], NULL))
			rc = err_sys(c->err, -ENOMEM, "cannot read %s", s->dir);
	return rc;
}

/* ---- dictionaries ---- */

static uint64_t size_of(struct check *c, struct place p)
{
	char name[FILE_NAME_SIZE];
	struct stat st;
	file_name(name, p);
	return fstatat(c->s.dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) ? 0 : (uint64_t)st.st_size;
}

/* Whether the blocks of any segment need what is behind `good` is told with the blocks. */
static void check_dict(struct check *c, const struct dict_gen *g, enum file_kind kind, bool newest)
{
	struct place p = { kind, g->serial, 0 };
	uint64_t size = size_of(c, p);
	if (size > g->good[kind])
		tell_file(c, newest ? STORE_TORN : STORE_DAMAGED, p, g->good[kind], "no whole frame from here on");
	else if (size < FILE_HEADER_SIZE)
		tell_file(c, STORE_DAMAGED, p, 0, "the file is missing or shorter than its header");
}

static int check_gen(struct check *c, uint32_t serial, bool epoch, bool newest)
{
	struct block_ref r = { .b = { .generation = serial, .epoch = serial } };
	struct dict_gen *g;
	struct err why = { 0 };
	int rc = epoch ? store_epoch(&c->s, &r, &g, &why) : store_gen(&c->s, &r, &g, &why);
	if (rc == -EBADMSG || rc == -EPROTONOSUPPORT) {
		for (int k = 1; k <= N_DICTS; k++)
			if ((k == KIND_SETS) == epoch && !strncmp(why.text, c->s.dir, strlen(c->s.dir))) {
				tell_file(c, STORE_DAMAGED, (struct place){ k, serial, 0 }, 0, why.text);
				break;
			}
		return 0;
	}
	if (rc)
		return err_set(c->err, rc, "%s", why.text);
	for (int k = 1; k <= N_DICTS; k++)
		if ((k == KIND_SETS) == epoch)
			check_dict(c, g, k, newest);
	return 0;
}

static int check_dicts(struct check *c)
{
	const struct manifest *m = &c->s.manifest;
	int rc = 0;
	for (size_t i = 0; !rc && i < m->n_generations; i++)
		rc = check_gen(c, m->generations[i].serial, false, i + 1 == m->n_generations);
	for (size_t i = 0; !rc && i < m->n_epochs; i++)
		rc = check_gen(c, m->epochs[i].serial, true, i + 1 == m->n_epochs);
	return rc;
}

/* ---- blocks ---- */

/* To the end: every group, every row. */
static int read_rows(struct rows_reader *r)
{
	int rc;
	while ((rc = rows_next_group(r)) > 0)
		;
	return rc;
}

/* Everything in it decodes. */
static int check_block(struct check *c, const struct block_ref *r, struct err *why)
{
	struct store *s = &c->s;
	struct block_data d;
	struct rows_reader rows;
	struct settable table = { 0 };
	struct totals totals = { 0 };
	struct top top = { 0 };
	struct dropped_key *dropped = NULL;
	size_t n;
	struct dict_gen *g;
	int rc = block_read(s, r, UINT32_MAX, &d, why);
	if (rc)
		return rc;
	rc = store_gen(s, r, &g, why);
	if (!rc)
		rc = store_epoch(s, r, &g, why);
	if (!rc && r->b.level != LEVEL_POSTINGS) {
		rc = contents_rows(s, r, &d, true, &rows, why);
		if (!rc && read_rows(&rows))
			rc = block_damaged(s, r, why);
		if (!rc)
			rc = contents_table(s, r, &d, true, NULL, &table, why);
		if (!rc)
			rc = contents_totals(s, r, &d, &totals, why);
		if (!rc)
			rc = contents_top(s, r, &d, &top, why);
		if (!rc)
			rc = contents_dropped(s, r, &d, &dropped, &n, why);
	}
	free(dropped);
	top_fini(&top);
	totals_fini(&totals);
	settable_fini(&table);
	block_data_fini(&d);
	return rc;
}

/* The frame at offset, if it is a whole block of this segment; -EBADMSG. */
static int look_at_block(struct check *c, struct segment *g, uint64_t offset, struct frame *ret, struct err *why)
{
	struct buf payload = BUF_INIT;
	struct block_head h;
	struct frame f;
	int rc = file_frame(&g->file, offset, g->file.size, &f, &payload);
	if (!rc && f.count) {
		size_t len = payload.len < BLOCK_HEAD_MAX ? payload.len : BLOCK_HEAD_MAX;
		rc = payload.data ? block_decode_head(&h, payload.data, len, payload.len) : -EBADMSG;
		if (!rc && (h.info.level != g->m.level || h.info.seq != f.first))
			rc = -EBADMSG;
		if (!rc)
			rc = segment_add_ref(&c->s, g, &h, offset, f.stored_len);
		if (!rc) {
			rc = check_block(c, &g->refs[g->n_refs - 1], why);
			g->n_refs -= rc != 0;
		}
	}
	buf_fini(&payload);
	if (!rc)
		*ret = f;
	return rc == -ENODATA ? -EBADMSG : rc;
}

struct scan {
	uint64_t index_at; /* of the index that was found last */
	uint64_t torn;	   /* where the torn end begins */
	bool bad;
};

/* The refs of g become those of its whole blocks. */
static int scan_segment(struct check *c, struct segment *g, struct scan *ret)
{
	struct scan scan = { .torn = UINT64_MAX };
	uint64_t at = FILE_HEADER_SIZE;
	while (at < g->file.size) {
		struct frame f;
		struct err why = { 0 };
		uint64_t next = UINT64_MAX;
		int rc = look_at_block(c, g, at, &f, &why);
		if (!rc) {
			scan.index_at = f.count ? scan.index_at : at;
			at = frame_end(&f);
			continue;
		}
		if (rc != -EBADMSG)
			return err_sys(c->err, rc, "cannot read %s", g->file.path);
		rc = file_find_frame(&g->file, at + 1, &next);
		if (rc)
			return err_sys(c->err, rc, "cannot read %s", g->file.path);
		bool torn = next == UINT64_MAX && g->m.state == SEGMENT_OPEN && at >= g->m.end;
		if (torn)
			scan.torn = at;
		scan.bad |= !torn;
		tell(c, torn ? STORE_TORN : STORE_DAMAGED, g->file.path, at, "%s, %" PRIu64 " bytes",
		     torn ? "the last block is incomplete" : why.text[0] ? why.text : "no whole block",
		     (next < g->file.size ? next : g->file.size) - at);
		at = next;
	}
	*ret = scan;
	return 0;
}

/* An index that is whole as a frame may still say something else than the blocks. */
static void check_index(struct check *c, struct segment *g, struct scan *scan)
{
	struct manifest_segment m = g->m;
	if (m.state == SEGMENT_SEALED && (scan->index_at != m.index_at || m.end != g->file.size || m.n_blocks != g->n_refs)) {
		if (!scan->bad)
			tell(c, STORE_DAMAGED, g->file.path, m.index_at, "the index is missing or wrong");
		scan->bad = true;
	} else if (m.end > g->file.size) {
		if (!scan->bad)
			tell(c, STORE_DAMAGED, g->file.path, g->file.size, "the file is cut short");
		scan->bad = true;
	}
}

/* ---- repair ---- */

static int keep(struct check *c, const struct manifest_segment *m)
{
	if (ARRAY_RESERVE(c->kept, c->kept_cap, c->n_kept + 1))
		return err_sys(c->err, -ENOMEM, "cannot repair %s", c->s.dir);
	c->kept[c->n_kept++] = *m;
	return 0;
}

static int copy_blocks(struct check *c, const struct segment *g, struct file *to)
{
	struct buf payload = BUF_INIT;
	struct frame f;
	int rc = 0;
	for (size_t i = 0; !rc && i < g->n_refs; i++) {
		rc = file_frame(&g->file, g->refs[i].offset, g->file.size, &f, &payload);
		if (!rc)
			rc = file_append(to, f.first, f.count, f.codec, f.raw_len, &payload);
	}
	buf_fini(&payload);
	if (!rc)
		rc = file_sync(to);
	return rc ? err_sys(c->err, rc, "cannot write %s", to->path) : 0;
}

/* Its whole blocks in a new file; the old one is unlinked when the manifest names the new one. */
static int rewrite_segment(struct check *c, struct segment *g)
{
	struct store *s = &c->s;
	struct manifest_segment m = { .serial = ++s->manifest.next_segment, .level = g->m.level };
	struct place p = { KIND_BLOCKS, m.serial, m.level };
	struct file to = { .fd = -1 };
	c->changed = true;
	if (!g->n_refs)
		return 0;
	int rc = file_create(s->dir_fd, s->dir, p, s->header.store_id, c->err);
	if (!rc)
		rc = file_open(&to, s->dir_fd, s->dir, p, s->header.store_id, true, c->err);
	if (!rc)
		rc = copy_blocks(c, g, &to);
	if (!rc) {
		m.end = to.tail;
		g->m = m;
		segment_describe(g);
		g->m.state = SEGMENT_CLOSED;
		rc = keep(c, &g->m);
	}
	file_close(&to);
	return rc;
}

static int repair_segment(struct check *c, struct segment *g, const struct scan *scan)
{
	uint32_t next = g->n_refs ? g->refs[g->n_refs - 1].b.seq + 1 : 0;
	if (c->s.manifest.seq[g->m.level] < next)
		c->s.manifest.seq[g->m.level] = next;
	/* Without a manifest nothing is known of a segment but its blocks. */
	if (scan->bad || scan->torn != UINT64_MAX || c->rebuilt)
		return rewrite_segment(c, g);
	return keep(c, &g->m);
}

static int check_segment(struct check *c, size_t i)
{
	struct segment *g = &c->s.segments[i];
	struct scan scan = { 0 };
	struct err why = { 0 };
	int rc = segment_open(&c->s, g, &why);
	if (rc == -EBADMSG || rc == -ENODATA || rc == -ENOENT) {
		bool young = rc == -ENODATA && g->m.state == SEGMENT_OPEN && !g->m.end;
		tell(c, young ? STORE_TORN : STORE_DAMAGED, g->file.path, 0, "%s", why.text);
		c->changed = true;
		return 0;
	}
	if (rc)
		return err_set(c->err, rc, "%s", why.text);
	rc = scan_segment(c, g, &scan);
	if (rc)
		return rc;
	check_index(c, g, &scan);
	uint32_t had = g->m.n_blocks;
	if (c->repair) {
		char path[sizeof(g->file.path)];
		snprintf(path, sizeof(path), "%s", g->file.path);
		rc = repair_segment(c, g, &scan);
		if (!rc && scan.bad)
			tell(c, STORE_CUT, path, 0, had ? "%zu blocks are kept of %u" : "%zu blocks are kept", g->n_refs, had);
	}
	return rc;
}

/* Behind the last whole frame nothing can be read, and a writer would refuse what it finds. */
static int cut_dicts(struct check *c)
{
	for (size_t i = 0; i < c->s.n_gens + c->s.n_epochs; i++) {
		bool epoch = i >= c->s.n_gens;
		const struct dict_gen *g = epoch ? c->s.epochs[i - c->s.n_gens] : c->s.gens[i];
		for (int k = 1; g->loaded && k <= N_DICTS; k++) {
			struct place p = { k, g->serial, 0 };
			char name[FILE_NAME_SIZE];
			if ((k == KIND_SETS) != epoch || g->good[k] < FILE_HEADER_SIZE || size_of(c, p) <= g->good[k])
				continue;
			file_name(name, p);
			int fd = openat(c->s.dir_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
			int rc = fd < 0 || ftruncate(fd, (off_t)g->good[k]) || fsync(fd) ? -errno : 0;
			if (fd >= 0)
				close(fd);
			if (rc)
				return err_sys(c->err, rc, "cannot write %s/%s", c->s.dir, name);
			tell_file(c, STORE_CUT, p, g->good[k], "cut here");
		}
	}
	return 0;
}

/*
 * A generation or epoch whose files cannot be opened is of no use to a writer, and no block that is
 * kept names it.
 */
static void drop_unreadable(struct check *c)
{
	struct manifest *m = &c->s.manifest;
	for (size_t i = m->n_generations; i-- > 0;)
		for (size_t k = 0; k < c->s.n_gens; k++)
			if (c->s.gens[k]->serial == m->generations[i].serial && !c->s.gens[k]->loaded) {
				manifest_drop_generation(m, i);
				c->changed = true;
				break;
			}
	for (size_t i = m->n_epochs; i-- > 0;)
		for (size_t k = 0; k < c->s.n_epochs; k++)
			if (c->s.epochs[k]->serial == m->epochs[i].serial && !c->s.epochs[k]->loaded) {
				manifest_drop_epoch(m, i);
				c->changed = true;
				break;
			}
}

static int finish_repair(struct check *c)
{
	struct manifest *m = &c->s.manifest;
	int rc = cut_dicts(c);
	if (rc)
		return rc;
	drop_unreadable(c);
	if (!c->changed)
		return 0;
	free(m->segments);
	m->segments = c->kept;
	m->n_segments = c->n_kept;
	c->kept = NULL;
	/* Parents may be gone: whether a block has one is found out again. */
	memset(m->covered, 0, sizeof(m->covered));
	return manifest_write(m, c->s.dir_fd, c->s.dir, c->s.header.store_id, c->err);
}

static int check(struct check *c, const char *dir)
{
	int rc = setpool_init(&c->s.sets) || dicts_init(&c->s.sym, false) ? err_sys(c->err, -ENOMEM, "cannot read %s", dir)
									    : 0;
	if (!rc)
		rc = check_header(c);
	if (!rc)
		rc = check_manifest(c);
	if (!rc)
		rc = check_dicts(c);
	for (size_t i = 0; !rc && i < c->s.n_segments; i++)
		rc = check_segment(c, i);
	if (!rc && c->repair)
		rc = finish_repair(c);
	free(c->kept);
	return rc;
}

int store_verify(const char *dir, void (*cb)(void *ctx, const struct store_finding *f), void *ctx, struct err *err)
{
	struct check c = { .cb = cb, .ctx = ctx, .err = err };
	store_init(&c.s);
	int rc = store_open_dir(&c.s, dir, err);
	if (!rc)
		rc = check(&c, dir);
	store_fini(&c.s);
	return rc;
}

int store_repair(const char *dir, void (*cb)(void *ctx, const struct store_finding *f), void *ctx, struct err *err)
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
