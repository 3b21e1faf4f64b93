/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting blocks into files.
 *
 *  1. files' `end` is durable and agrees with the last acknowledged block; saved[k] is what stands
 *     before it.
 *  2. Ids at or above saved[k] are in memory only; the next block that succeeds writes them. A
 *     failure changes no id that was handed out.
 *  3. A file exists, empty and synced with its directory, before the manifest names it; the
 *     manifest is durable before the file is written to, and before a file that it names no longer
 *     is unlinked.
 *  4. After an fdatasync that failed, that file is not appended to again: what the page cache says
 *     of it is not believed. The segment is closed at `end` and another begun, which gets all
 *     dictionaries from memory, with the same ids.
 */
#include "store/write/writer_int.h"

#include "store/file/columns.h"
#include "store/file/reserve.h"
#include "store/read/symbols.h"
#include "store/writer.h"
#include "util/array.h"

#include <errno.h>
#include <unistd.h>

#define FILES_OF_CAP 64
/* bytes of level 1's dictionaries that are not read again for every block */
#define KEPT_LOADED (16u << 20)

int pending_reserve(struct pending *p)
{
	return ARRAY_RESERVE(p->v, p->cap, p->n + 1);
}

int pending_add(struct pending *p, const struct block_ref *r)
{
	int rc = pending_reserve(p);
	if (!rc)
		p->v[p->n++] = *r;
	return rc;
}

/* ---- the manifest ---- */

static uint32_t first_pending(const struct pending *p, uint32_t none)
{
	uint32_t seq = none;
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].b.seq < seq)
			seq = p->v[i].b.seq;
	return seq;
}

int writer_save_manifest(struct store_writer *w, struct err *err)
{
	struct store *s = &w->s;
	struct manifest *m = &s->manifest;
	const struct manifest_segment **v = malloc(s->n_segments * sizeof(*v));
	if (!v)
		return err_sys(err, -ENOMEM, "cannot write %s", s->dir);
	for (size_t i = 0; i < s->n_segments; i++)
		v[i] = &s->segments[i].m;
	for (int k = 0; k < N_LEVELS; k++)
		m->covered[k] = first_pending(&w->pending[k], m->seq[k]);
	m->covered[LEVEL_POSTINGS] = first_pending(&w->unposted, m->seq[0]);
	int rc = manifest_write(m, v, s->n_segments, s->dir_fd, s->dir, s->header.store_id, err);
	if (rc == -ENOSPC && reserve_spend(s->dir_fd))
		rc = manifest_write(m, v, s->n_segments, s->dir_fd, s->dir, s->header.store_id,
				    err);
	free(v);
	w->manifest_due &= rc != 0;
	return rc;
}

/* ---- the open segments ---- */

struct segment *writer_segment(struct store_writer *w, uint8_t level)
{
	for (size_t i = w->s.n_segments; i-- > 0;) {
		struct segment *g = &w->s.segments[i];
		if (g->m.level == level && g->m.state == SEGMENT_OPEN)
			return g;
	}
	return NULL;
}

static int64_t file_unit(const struct store_writer *w, uint8_t level, int64_t t_ns)
{
	return floor_div(t_ns, w->opt.recent_ns ? w->opt.recent_ns / 2 : levels[level].file_ns);
}

/*
 * A file is what retention cuts at once: it takes a small part of the cap, but most of it are
 * blocks.
 */
static bool is_full(const struct store_writer *w, const struct segment *g)
{
	uint64_t part = w->cap / FILES_OF_CAP, symbols = 2 * w->out[g->m.level].file.end;
	return !w->opt.windows_only && g->file.end > (part > symbols ? part : symbols);
}

bool writer_ends_file(struct store_writer *w, uint8_t level, int64_t t_ns)
{
	const struct segment *g = writer_segment(w, level);
	if (g && g->n_refs && is_full(w, g))
		return true;
	return g && g->n_refs &&
	       file_unit(w, level, g->refs[g->n_refs - 1].b.t0_ns) != file_unit(w, level, t_ns);
}

static void nothing_saved(struct output *o)
{
	for (int k = 1; k <= N_DICTS; k++)
		o->saved[k] = (struct dict_mark){ dicts_first(k), k == KIND_SETS };
}

static void all_saved(struct output *o)
{
	for (int k = 1; k <= N_DICTS; k++)
		o->saved[k] = (struct dict_mark){ dicts_count(&o->d, k),
						  k == KIND_SETS ? o->d.label_text.n : 0 };
}

static int load_output(struct store_writer *w, uint8_t level, struct segment *g, struct err *err)
{
	struct store *s = &w->s;
	struct output *o = &w->out[level];
	struct place p = { KIND_SYMBOLS, g->m.serial, level };
	struct symbols y = { 0 };
	int rc = symbols_load(s, g, SYMBOLS_ALL, true, &y, err);
	if (rc) {
		dicts_fini(&y.d);
		return rc;
	}
	if (g->n_refs && g->refs[g->n_refs - 1].mark > y.good) {
		dicts_fini(&y.d);
		char name[FILE_NAME_SIZE];
		file_name(name, p);
		return err_set(err, -EBADMSG, "%s/%s is damaged at offset %llu", s->dir, name,
			       (unsigned long long)(y.good + FILE_HEADER_SIZE));
	}
	if (o->file.fd < 0)
		rc = file_open(&o->file, s->dir_fd, s->dir, p, s->header.store_id, true, err);
	if (!rc) {
		o->file.end = o->file.tail = y.good + FILE_HEADER_SIZE;
		if (o->file.size > o->file.end && ftruncate(o->file.fd, (off_t)o->file.end))
			rc = err_sys(err, -errno, "cannot truncate %s", o->file.path);
	}
	if (rc) {
		dicts_fini(&y.d);
		return rc;
	}
	o->d = y.d;
	o->loaded = true;
	all_saved(o);
	g->live = &o->d;
	return 0;
}

/* Dictionaries that no segment has yet. */
static int begin_fresh(struct store_writer *w, uint8_t level, struct err *err)
{
	struct output *o = &w->out[level];
	struct segment *g = writer_segment(w, level);
	struct dicts fresh;
	if (dicts_init(&fresh, true)) {
		dicts_fini(&fresh);
		return err_sys(err, -ENOMEM, "cannot write %s", w->s.dir);
	}
	if (g)
		g->live = NULL;
	dicts_fini(&o->d);
	o->d = fresh;
	o->loaded = o->fresh = true;
	o->full = false;
	return 0;
}

/* Behind the last block; what an interrupted writer left there is cut off. */
static int stand_at_end(struct store_writer *w, struct segment *g, bool *ret_clean, struct err *err)
{
	struct store *s = &w->s;
	const struct block_ref *last = g->n_refs ? &g->refs[g->n_refs - 1] : NULL;
	int rc = segment_open(s, g, err);
	if (rc)
		return rc;
	g->file.end = last ? last->offset + FRAME_SIZE + last->stored_len : FILE_HEADER_SIZE;
	g->file.tail = g->file.end;
	if (g->file.size > g->file.end && ftruncate(g->file.fd, (off_t)g->file.end))
		return err_sys(err, -errno, "cannot truncate %s", g->file.path);
	*ret_clean |= g->m.end != 0;
	g->m.end = 0; /* from here on it may be torn */
	if (last && s->manifest.seq[g->m.level] <= last->b.seq)
		s->manifest.seq[g->m.level] = last->b.seq + 1;
	return load_output(w, g->m.level, g, err);
}

/* A third is left for what the next block brings. */
static bool is_full_of_symbols(const struct store_writer *w, const struct output *o)
{
	return w->opt.symbols_memory && dicts_bytes(&o->d) >= w->opt.symbols_memory / 3 * 2;
}

static void unload(struct store_writer *w, uint8_t level)
{
	struct output *o = &w->out[level];
	struct segment *g = writer_segment(w, level);
	if (!level || !o->loaded || o->fresh)
		return;
	if (g)
		g->live = NULL;
	o->full = is_full_of_symbols(w, o);
	dicts_fini(&o->d);
	o->loaded = false;
}

int writer_open_outputs(struct store_writer *w, bool *ret_clean, struct err *err)
{
	struct store *s = &w->s;
	int rc = 0;
	for (size_t i = 0; !rc && i < s->n_segments; i++)
		if (s->segments[i].m.state == SEGMENT_OPEN) {
			rc = stand_at_end(w, &s->segments[i], ret_clean, err);
			unload(w, s->segments[i].m.level);
		}
	if (!rc && !w->out[0].loaded)
		rc = begin_fresh(w, 0, err);
	return rc;
}

int writer_begin_parent(struct store_writer *w, uint8_t level, int64_t t_ns, struct err *err)
{
	struct output *o = &w->out[level];
	struct segment *g = writer_segment(w, level);
	if (o->fresh)
		return 0;
	if ((!g && !o->broken) || o->full || writer_ends_file(w, level, t_ns))
		return begin_fresh(w, level, err);
	int rc = o->loaded ? 0 : g ? load_output(w, level, g, err) : begin_fresh(w, level, err);
	return !rc && is_full_of_symbols(w, o) ? begin_fresh(w, level, err) : rc;
}

void writer_replace_parent(struct store_writer *w, uint8_t level, const struct dicts *d)
{
	struct output *o = &w->out[level];
	struct segment *g = writer_segment(w, level);
	if (g)
		g->live = NULL;
	dicts_fini(&o->d);
	o->d = *d;
	o->fresh = true;
}

void writer_drop_parent(struct store_writer *w, uint8_t level)
{
	struct output *o = &w->out[level];
	struct segment *g = writer_segment(w, level);
	if (!level)
		return;
	if (g)
		g->live = NULL;
	dicts_fini(&o->d);
	o->loaded = o->fresh = false;
}

void writer_drop_read(struct store_writer *w)
{
	for (size_t i = 0; i < w->s.n_segments; i++)
		symbols_free(&w->s.segments[i]);
	for (uint8_t level = 1; level < N_SEGMENT_LEVELS; level++)
		if (level > 1 || dicts_bytes(&w->out[level].d) > KEPT_LOADED)
			unload(w, level);
}

/* ---- dictionaries ---- */

static bool unsaved(const struct output *o, enum kind kind, const struct dict_mark *mark)
{
	return mark->next < dicts_count(&o->d, kind) ||
	       (kind == KIND_SETS && mark->text < o->d.label_text.n);
}

static int write_batch(struct output *o, enum kind kind, struct dict_mark *mark)
{
	struct buf raw = BUF_INIT, packed = BUF_INIT;
	struct frame h = { .kind = kind, .first = mark->next };
	struct dict_mark next;
	int rc = dicts_encode(&o->d, kind, mark, &raw, &next);
	if (!rc)
		rc = codec_pack(&packed, raw.data, raw.len, &h.codec);
	h.count = next.next - mark->next;
	h.raw_len = (uint32_t)raw.len;
	if (!rc)
		rc = file_append(&o->file, &h, &packed);
	buf_fini(&raw);
	buf_fini(&packed);
	if (!rc)
		*mark = next;
	return rc;
}

/* *ret_lost: what was written cannot be believed any more. */
static int write_dicts(struct output *o, struct dict_mark *marks, bool *ret_lost)
{
	int rc = 0;
	for (int k = 1; !rc && k <= N_DICTS; k++)
		while (!rc && unsaved(o, k, &marks[k]))
			rc = write_batch(o, k, &marks[k]);
	if (rc || o->file.tail == o->file.end)
		return rc;
	rc = file_sync(&o->file);
	*ret_lost = rc != 0;
	return rc;
}

/* Readers ask for events by name before they read a block. */
static int name_events(struct store_writer *w, const struct dicts *d, struct err *err)
{
	bool new;
	for (uint32_t i = 0; i < d->n_events; i++) {
		if (manifest_add_event(&w->s.manifest, &d->events[i], &new))
			return err_sys(err, -ENOMEM, "cannot write %s", w->s.dir);
		w->manifest_due |= new;
	}
	return w->manifest_due ? writer_save_manifest(w, err) : 0;
}

/* ---- segments ---- */

/* It gets no more blocks. Its dictionaries stay the file that they are. */
static void close_segment(struct store_writer *w, struct segment *g)
{
	struct output *o = &w->out[g->m.level];
	segment_describe(g);
	g->m.end = g->file.end;
	g->m.state = SEGMENT_CLOSED;
	g->live = NULL;
	file_close(&o->file);
	o->broken = true;
}

static int copy_frame(void *ctx, const struct frame *h, const uint8_t *payload)
{
	const struct buf stored = { (uint8_t *)payload, h->stored_len, h->stored_len };
	return file_append(ctx, h, &stored);
}

/* The dictionaries, then the index: a file that stands by itself. */
static int append_end(struct store_writer *w, struct segment *g, uint64_t *ret_index_at)
{
	struct output *o = &w->out[g->m.level];
	struct buf raw = BUF_INIT, packed = BUF_INIT;
	struct frame h = { .kind = KIND_INDEX };
	uint64_t end;
	int rc = file_each_frame(&o->file, FILE_HEADER_SIZE, o->file.end, copy_frame, &g->file,
				 &end);
	if (!rc && end != o->file.end)
		rc = -EBADMSG; /* what was synced cannot be read again */
	*ret_index_at = g->file.tail;
	if (!rc)
		rc = segment_encode_index(&raw, g);
	if (!rc)
		rc = codec_pack(&packed, raw.data, raw.len, &h.codec);
	h.raw_len = (uint32_t)raw.len;
	if (!rc)
		rc = file_append(&g->file, &h, &packed);
	buf_fini(&raw);
	buf_fini(&packed);
	return rc;
}

static int seal(struct store_writer *w, struct segment *g, struct err *err)
{
	struct output *o = &w->out[g->m.level];
	uint64_t at = g->file.end, index_at;
	int rc = retain_reserve(w, 1) ? -ENOMEM : append_end(w, g, &index_at);
	if (rc) {
		(void)file_rollback(&g->file);
		if (rc == -EBADMSG)
			close_segment(w, g);
	} else {
		w->state.bytes_written += g->file.tail - g->file.end;
		rc = file_sync(&g->file);
		if (rc)
			close_segment(w, g);
	}
	if (rc)
		return err_sys(err, rc, "cannot write %s", g->file.path);
	file_commit(&g->file);
	segment_describe(g);
	g->m.symbols_at = at;
	g->m.index_at = index_at;
	g->m.end = g->file.end;
	g->m.state = SEGMENT_SEALED;
	g->live = NULL;
	file_close(&o->file);
	w->gone[w->n_gone++] = (struct place){ KIND_SYMBOLS, g->m.serial, g->m.level };
	return 0;
}

static int new_segment(struct store_writer *w, uint8_t level, struct segment **ret, struct err *err)
{
	struct store *s = &w->s;
	struct output *o = &w->out[level];
	struct manifest_segment m = { .serial = ++s->manifest.next_segment, .level = level };
	const struct place blocks = { KIND_BLOCKS, m.serial, level },
			   symbols = { KIND_SYMBOLS, m.serial, level };
	if (retain_reserve(w, 2))
		return err_sys(err, -ENOMEM, "cannot write %s", s->dir);
	int rc = file_create(s->dir_fd, s->dir, blocks, s->header.store_id, err);
	if (!rc)
		rc = file_create(s->dir_fd, s->dir, symbols, s->header.store_id, err);
	if (!rc)
		rc = file_open(&o->file, s->dir_fd, s->dir, symbols, s->header.store_id, true, err);
	bool added = !rc && !store_add_segment(s, &m, NULL);
	if (!rc && !added)
		rc = err_sys(err, -ENOMEM, "cannot write %s", s->dir);
	size_t i = s->n_segments - 1;
	if (!rc) {
		s->segments[i].loaded = true;
		rc = segment_open(s, &s->segments[i], err);
		if (!rc)
			rc = writer_save_manifest(w, err);
	}
	if (rc) { /* the files may be there, and a manifest on the disk may name them */
		if (added)
			store_drop_segment(s, i);
		file_close(&o->file);
		w->gone[w->n_gone++] = blocks;
		w->gone[w->n_gone++] = symbols;
		return rc;
	}
	nothing_saved(o);
	o->fresh = o->broken = false;
	s->segments[i].live = &o->d;
	*ret = &s->segments[i];
	retain_unlink(w);
	return 0;
}

/* A segment that has no block yet takes other dictionaries. */
static int begin_again(struct output *o, struct segment *g, struct err *err)
{
	o->file.end = FILE_HEADER_SIZE;
	int rc = file_rollback(&o->file);
	if (rc)
		return err_sys(err, rc, "cannot truncate %s", o->file.path);
	nothing_saved(o);
	o->fresh = false;
	g->live = &o->d;
	return 0;
}

int writer_need_segment(struct store_writer *w, uint8_t level, int64_t t_ns, struct segment **ret,
			struct err *err)
{
	struct output *o = &w->out[level];
	struct segment *g = writer_segment(w, level);
	if (!o->loaded) { /* postings, and a parent that was begun: there is one */
		int rc = g ? load_output(w, level, g, err) : begin_fresh(w, level, err);
		if (rc)
			return rc;
	}
	if (g && !o->fresh && !writer_ends_file(w, level, t_ns)) {
		*ret = g;
		return 0;
	}
	if (g && !g->n_refs) {
		*ret = g;
		return begin_again(o, g, err);
	}
	int rc = g ? seal(w, g, err) : 0;
	return rc ? rc : new_segment(w, level, ret, err);
}

static int append_block(struct store_writer *w, struct segment *g, struct block *b, struct err *err)
{
	struct buf out = BUF_INIT;
	struct frame f = {
		.kind = KIND_BLOCKS, .first = b->info.seq, .count = 1, .codec = CODEC_RAW
	};
	int rc = block_encode(&out, b);
	f.raw_len = (uint32_t)out.len;
	if (!rc)
		rc = file_append(&g->file, &f, &out);
	struct block_head h;
	size_t len = out.len < BLOCK_HEAD_MAX ? out.len : BLOCK_HEAD_MAX;
	if (!rc) /* room in the index, so that nothing can fail behind the sync */
		rc = block_decode_head(&h, out.data, len, out.len);
	if (!rc) /* should the block fail, the segment seems younger than it is */
		rc = age_note(w, g, &h.info);
	if (!rc)
		rc = segment_add_ref(&w->s, g, &h, g->file.end, (uint32_t)out.len);
	if (!rc) {
		rc = file_sync(&g->file);
		if (rc)
			g->n_refs--;
		if (rc)
			close_segment(w, g);
	}
	buf_fini(&out);
	return rc ? err_sys(err, rc, "cannot write %s", g->file.path) : 0;
}

/*
 * The block first: without it, what stands in the dictionaries has no meaning. With it, all that it
 * names must stay. Nothing is written to these files any more, and they are cut when the manifest
 * says that the segment ends before the block. Until then it may come back, as after a crash.
 */
static void roll_back(struct store_writer *w, struct segment *g)
{
	struct output *o = &w->out[g->m.level];
	if (g->m.state == SEGMENT_OPEN && file_rollback(&g->file))
		close_segment(w, g);
	/* Where this fails the bytes stay until the next append writes over them. */
	else if (o->file.fd >= 0)
		(void)file_rollback(&o->file);
}

static void count_bytes(struct store_writer *w, const struct file *f)
{
	w->state.bytes_written += f->tail - f->end;
}

int writer_put_block(struct store_writer *w, struct block *b, struct block_ref *ret,
		     struct err *err)
{
	struct store *s = &w->s;
	struct output *o = &w->out[b->info.level];
	struct dict_mark marks[N_DICTS + 1];
	struct segment *g;
	bool lost = false;
	int rc = writer_need_segment(w, b->info.level, b->info.t0_ns, &g, err);
	if (!rc)
		rc = name_events(w, &o->d, err);
	if (rc)
		return rc;
	memcpy(marks, o->saved, sizeof(marks));
	rc = write_dicts(o, marks, &lost);
	if (rc)
		err_sys(err, rc, "cannot write %s", o->file.path);
	if (lost)
		close_segment(w, g);
	b->mark.bytes = o->file.tail - FILE_HEADER_SIZE;
	for (int k = 1; k <= N_DICTS; k++)
		b->mark.count[k] = dicts_count(&o->d, k);
	b->info.idle = o->d.idle;
	b->info.seq = s->manifest.seq[b->info.level];
	if (!b->info.level) {
		b->info.window_lo = b->info.seq;
		b->info.window_hi = b->info.seq + 1;
	}
	if (!rc)
		rc = append_block(w, g, b, err);
	if (rc) {
		roll_back(w, g);
		return rc;
	}
	count_bytes(w, &o->file);
	file_commit(&o->file);
	count_bytes(w, &g->file);
	file_commit(&g->file);
	memcpy(o->saved, marks, sizeof(marks));
	s->manifest.seq[b->info.level]++;
	*ret = g->refs[g->n_refs - 1];
	return 0;
}
