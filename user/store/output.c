/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting blocks into files.
 *
 *  1. files' `end` is durable and agrees with the last acknowledged block; saved[k] is what stands before it.
 *  2. Ids at or above saved[k] are in memory only; the next block that succeeds writes them. A failure changes no
 *     id that was handed out.
 *  3. A file exists, empty and synced with its directory, before the manifest names it; the manifest is durable before the
 *     file is written to, and before a file that it names no longer is unlinked.
 *  4. After an fdatasync that failed, that file is not appended to again: what the page cache says of it is not believed. A
 *     segment is closed at `end` and another begun; dictionaries are written again from memory as a new generation or
 *     epoch, with the same ids.
 */
#include "store/writer_int.h"

#include "store/columns.h"
#include "store/reserve.h"
#include "util/array.h"

#include <errno.h>
#include <unistd.h>

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
	struct manifest_segment *v = malloc((s->n_segments + 1) * sizeof(*v));
	if (!v)
		return err_sys(err, -ENOMEM, "cannot write %s", s->dir);
	for (size_t i = 0; i < s->n_segments; i++)
		v[i] = s->segments[i].m;
	free(m->segments);
	m->segments = v;
	m->n_segments = s->n_segments;
	for (int k = 0; k < N_LEVELS; k++)
		m->covered[k] = first_pending(&w->pending[k], m->seq[k]);
	m->covered[LEVEL_POSTINGS] = first_pending(&w->unposted, m->seq[0]);
	int rc = manifest_write(m, s->dir_fd, s->dir, s->header.store_id, err);
	if (rc == -ENOSPC && reserve_spend(s->dir_fd))
		rc = manifest_write(m, s->dir_fd, s->dir, s->header.store_id, err);
	return rc;
}

/* ---- dictionaries ---- */

static const enum file_kind gen_kinds[] = { KIND_STRINGS, KIND_FRAMES, KIND_STACKS, KIND_EVENTS, KIND_LEAVES };

static int open_dict(struct store_writer *w, enum file_kind kind, uint32_t serial, struct file *ret, struct err *err)
{
	struct store *s = &w->s;
	return file_open(ret, s->dir_fd, s->dir, (struct place){ kind, serial, 0 }, s->header.store_id, true, err);
}

static int create_dict(struct store_writer *w, enum file_kind kind, uint32_t serial, struct file *ret, struct err *err)
{
	struct store *s = &w->s;
	int rc = file_create(s->dir_fd, s->dir, (struct place){ kind, serial, 0 }, s->header.store_id, err);
	return rc ? rc : open_dict(w, kind, serial, ret, err);
}

static void close_files(struct file *v)
{
	for (int k = 1; k <= N_DICTS; k++)
		file_close(&v[k]);
}

/* Not written to any more. What a failure has left behind its end goes, in case it could not be cut then. */
static void give_up(struct file *f)
{
	if (f->fd >= 0)
		(void)file_rollback(f);
	file_close(f);
}

static uint32_t newest_generation(const struct store_writer *w)
{
	const struct manifest *m = &w->s.manifest;
	return m->n_generations ? m->generations[m->n_generations - 1].serial : 0;
}

/* Take the new files in the place of the old ones; everything in memory is to be written into them. */
static void switch_generation(struct store_writer *w, struct file *files, uint32_t serial)
{
	struct store *s = &w->s;
	for (size_t i = 0; i < sizeof(gen_kinds) / sizeof(gen_kinds[0]); i++) {
		enum file_kind k = gen_kinds[i];
		give_up(&w->dict[k]);
		w->dict[k] = files[k];
		w->saved[k] = (struct dict_mark){ dicts_first(k), 0 };
	}
	for (size_t i = 0; i < s->n_gens; i++)
		s->gens[i]->same = false; /* what it has is read from its files when it is needed */
	s->gens[s->n_gens - 1]->same = true;
	s->gens[s->n_gens - 1]->serial = serial;
	memset(s->gens[s->n_gens - 1]->good, 0xff, sizeof(s->gens[0]->good));
	w->gen_broken = false;
}

int writer_need_generation(struct store_writer *w, int64_t t_ns, struct err *err)
{
	struct store *s = &w->s;
	struct file files[N_DICTS + 1];
	uint32_t serial = newest_generation(w) + 1;
	if (newest_generation(w) && !w->gen_broken)
		return 0;
	compact_abandon(w);
	for (int k = 0; k <= N_DICTS; k++)
		files[k].fd = -1;
	int rc = ARRAY_RESERVE(s->gens, s->gens_cap, s->n_gens + 1);
	struct dict_gen *g = rc ? NULL : calloc(1, sizeof(*g));
	if (!g)
		return err_sys(err, -ENOMEM, "cannot write %s", s->dir);
	for (size_t i = 0; !rc && i < sizeof(gen_kinds) / sizeof(gen_kinds[0]); i++)
		rc = create_dict(w, gen_kinds[i], serial, &files[gen_kinds[i]], err);
	if (!rc && manifest_add_generation(&s->manifest, serial, t_ns))
		rc = err_sys(err, -ENOMEM, "cannot write %s", s->dir);
	if (!rc) {
		rc = writer_save_manifest(w, err);
		if (rc)
			manifest_drop_generation(&s->manifest, s->manifest.n_generations - 1);
	}
	if (rc) {
		close_files(files);
		free(g);
		return rc;
	}
	s->gens[s->n_gens++] = g;
	switch_generation(w, files, serial);
	return 0;
}

/* The label sets begin anew. */
int writer_new_epoch(struct store_writer *w, int64_t t_ns, struct err *err)
{
	struct store *s = &w->s;
	struct manifest *m = &s->manifest;
	struct manifest_epoch e = { .serial = m->n_epochs ? m->epochs[m->n_epochs - 1].serial + 1 : 1, .t0_ns = t_ns };
	struct file f = { .fd = -1 };
	compact_abandon(w);
	int rc = ARRAY_RESERVE(s->epochs, s->epochs_cap, s->n_epochs + 1);
	struct dict_gen *g = rc ? NULL : calloc(1, sizeof(*g));
	if (!g || dicts_init(&g->d, true)) {
		dict_gen_free(g);
		return err_sys(err, -ENOMEM, "cannot write %s", s->dir);
	}
	g->serial = e.serial;
	g->loaded = true;
	memset(g->good, 0xff, sizeof(g->good));
	rc = create_dict(w, KIND_SETS, e.serial, &f, err);
	if (!rc && (wide_list(w, &e) || manifest_add_epoch(m, &e))) {
		manifest_epoch_fini(&e);
		rc = err_sys(err, -ENOMEM, "cannot write %s", s->dir);
	}
	if (!rc) {
		rc = writer_save_manifest(w, err);
		if (rc)
			manifest_drop_epoch(m, m->n_epochs - 1);
	}
	if (rc) {
		file_close(&f);
		dict_gen_free(g);
		return rc;
	}
	give_up(&w->dict[KIND_SETS]);
	w->dict[KIND_SETS] = f;
	w->saved[KIND_SETS] = (struct dict_mark){ 1, 1 };
	s->epochs[s->n_epochs++] = g;
	w->epoch = g;
	w->epoch_broken = false;
	w->epoch_slot = floor_div(t_ns, SET_EPOCH_NS);
	return 0;
}

/* Cut off what was not whole, and stand at the end. */
static int stand_at(struct store_writer *w, enum file_kind kind, uint32_t serial, uint64_t good, struct err *err)
{
	struct file *f = &w->dict[kind];
	int rc = open_dict(w, kind, serial, f, err);
	if (rc)
		return rc;
	f->end = f->tail = good;
	if (f->size > good && ftruncate(f->fd, (off_t)good))
		return err_sys(err, -errno, "cannot truncate %s", f->path);
	return 0;
}

/* A block that needs more than there is: damage, and the store is left alone. */
static int check_refs(struct store_writer *w, const struct dict_gen *gen, const struct dict_gen *epoch, struct err *err)
{
	struct store *s = &w->s;
	for (size_t i = 0; i < s->n_segments; i++)
		for (size_t k = 0; k < s->segments[i].n_refs; k++) {
			const struct block_ref *r = &s->segments[i].refs[k];
			struct dict_gen *g;
			int rc = 0;
			if (gen && r->b.generation == gen->serial)
				rc = store_gen(s, r, &g, err);
			if (!rc && epoch && r->b.epoch == epoch->serial)
				rc = store_epoch(s, r, &g, err);
			if (rc)
				return rc;
		}
	return 0;
}

int writer_open_dicts(struct store_writer *w, struct err *err)
{
	struct store *s = &w->s;
	const struct manifest *m = &s->manifest;
	struct dict_gen *gen = s->n_gens ? s->gens[s->n_gens - 1] : NULL, *epoch = NULL;
	int rc = 0;
	if (m->n_epochs) {
		struct block_ref r = { .b.epoch = m->epochs[m->n_epochs - 1].serial };
		rc = store_epoch(s, &r, &epoch, err);
	}
	if (!rc)
		rc = check_refs(w, gen, epoch, err);
	for (size_t i = 0; !rc && gen && i < sizeof(gen_kinds) / sizeof(gen_kinds[0]); i++) {
		enum file_kind k = gen_kinds[i];
		rc = stand_at(w, k, gen->serial, gen->good[k], err);
		/* Events that only older generations have are not in the file of this one. */
		w->saved[k].next = k == KIND_EVENTS ? s->n_own_events : dicts_count(&s->sym, k);
	}
	if (!rc && epoch) {
		rc = stand_at(w, KIND_SETS, epoch->serial, epoch->good[KIND_SETS], err);
		w->saved[KIND_SETS] = (struct dict_mark){ epoch->d.n_sets, epoch->d.label_text.n };
		w->epoch = epoch;
		w->epoch_slot = floor_div(m->epochs[m->n_epochs - 1].t0_ns, SET_EPOCH_NS);
		memset(epoch->good, 0xff, sizeof(epoch->good));
	}
	if (gen)
		memset(gen->good, 0xff, sizeof(gen->good));
	return rc;
}

void writer_drop_read(struct store_writer *w)
{
	struct store *s = &w->s;
	size_t n = 0;
	for (size_t i = 0; i < s->n_gens; i++) {
		if (s->gens[i]->same)
			s->gens[n++] = s->gens[i];
		else
			dict_gen_free(s->gens[i]);
	}
	s->n_gens = n;
	n = 0;
	for (size_t i = 0; i < s->n_epochs; i++) {
		if (s->epochs[i] == w->epoch)
			s->epochs[n++] = s->epochs[i];
		else
			dict_gen_free(s->epochs[i]);
	}
	s->n_epochs = n;
}

static const struct dicts *dicts_of(const struct store_writer *w, enum file_kind kind)
{
	return kind == KIND_SETS ? &w->epoch->d : &w->s.sym;
}

static bool unsaved(const struct store_writer *w, enum file_kind kind, const struct dict_mark *mark)
{
	const struct dicts *d = dicts_of(w, kind);
	return mark->next < dicts_count(d, kind) || (kind == KIND_SETS && mark->text < d->label_text.n);
}

static int write_batch(struct store_writer *w, enum file_kind kind, struct dict_mark *mark)
{
	struct buf raw = BUF_INIT, packed = BUF_INIT;
	struct dict_mark next;
	uint8_t codec;
	int rc = dicts_encode(dicts_of(w, kind), kind, mark, &raw, &next);
	if (!rc)
		rc = codec_pack(&packed, raw.data, raw.len, &codec);
	if (!rc)
		rc = file_append(&w->dict[kind], mark->next, next.next - mark->next, codec, (uint32_t)raw.len, &packed);
	buf_fini(&raw);
	buf_fini(&packed);
	if (!rc)
		*mark = next;
	return rc;
}

static int write_dict(struct store_writer *w, enum file_kind kind, struct dict_mark *mark, bool *ret_broken)
{
	bool any = unsaved(w, kind, mark);
	int rc = 0;
	while (!rc && unsaved(w, kind, mark))
		rc = write_batch(w, kind, mark);
	if (rc || !any)
		return rc;
	rc = file_sync(&w->dict[kind]);
	if (rc)
		*ret_broken = true;
	return rc;
}

static int write_dicts(struct store_writer *w, struct dict_mark *marks, struct err *err)
{
	for (int k = 1; k <= N_DICTS; k++) {
		int rc = write_dict(w, k, &marks[k], k == KIND_SETS ? &w->epoch_broken : &w->gen_broken);
		if (rc)
			return err_sys(err, rc, "cannot write %s", w->dict[k].path);
	}
	return 0;
}

/* ---- segments ---- */

static int64_t file_unit(const struct store_writer *w, uint8_t level, int64_t t_ns)
{
	return floor_div(t_ns, w->opt.recent_ns ? w->opt.recent_ns / 2 : levels[level].file_ns);
}

static struct segment *open_segment(struct store_writer *w, uint8_t level)
{
	for (size_t i = w->s.n_segments; i-- > 0;) {
		struct segment *g = &w->s.segments[i];
		if (g->m.level == level && g->m.state == SEGMENT_OPEN)
			return g;
	}
	return NULL;
}

static void close_segment(struct segment *g)
{
	segment_describe(g);
	g->m.end = g->file.end;
	g->m.state = SEGMENT_CLOSED;
}

static int seal(struct store_writer *w, struct segment *g, struct err *err)
{
	struct buf raw = BUF_INIT, packed = BUF_INIT;
	uint64_t at = g->file.end;
	uint8_t codec;
	int rc = segment_encode_index(&raw, g);
	if (!rc)
		rc = codec_pack(&packed, raw.data, raw.len, &codec);
	if (!rc)
		rc = file_append(&g->file, 0, 0, codec, (uint32_t)raw.len, &packed);
	if (rc) {
		(void)file_rollback(&g->file);
	} else {
		w->state.bytes_written += FRAME_SIZE + packed.len;
		rc = file_sync(&g->file);
		if (rc)
			close_segment(g);
	}
	buf_fini(&raw);
	buf_fini(&packed);
	if (rc)
		return err_sys(err, rc, "cannot write %s", g->file.path);
	file_commit(&g->file);
	segment_describe(g);
	g->m.index_at = at;
	g->m.end = g->file.end;
	g->m.state = SEGMENT_SEALED;
	return 0;
}

static int new_segment(struct store_writer *w, uint8_t level, struct segment **ret, struct err *err)
{
	struct store *s = &w->s;
	struct manifest_segment m = { .serial = ++s->manifest.next_segment, .level = level };
	struct place p = { KIND_BLOCKS, m.serial, level };
	if (retain_reserve(w, 1))
		return err_sys(err, -ENOMEM, "cannot write %s", s->dir);
	int rc = file_create(s->dir_fd, s->dir, p, s->header.store_id, err);
	if (!rc && store_add_segment(s, &m, NULL))
		rc = err_sys(err, -ENOMEM, "cannot write %s", s->dir);
	size_t i = s->n_segments - 1;
	if (!rc) {
		s->segments[i].loaded = true;
		rc = segment_open(s, &s->segments[i], err);
		if (!rc)
			rc = writer_save_manifest(w, err);
		if (rc)
			store_drop_segment(s, i);
	}
	if (rc) /* the file may be there, and a manifest on the disk may name it */
		w->gone[w->n_gone++] = p;
	else
		*ret = &s->segments[i];
	return rc;
}

static int need_segment(struct store_writer *w, const struct store_block *b, struct segment **ret, struct err *err)
{
	struct segment *g = open_segment(w, b->level);
	if (g && (!g->n_refs || file_unit(w, b->level, g->refs[g->n_refs - 1].b.t0_ns) == file_unit(w, b->level, b->t0_ns))) {
		*ret = g;
		return 0;
	}
	int rc = g ? seal(w, g, err) : 0;
	return rc ? rc : new_segment(w, b->level, ret, err);
}

static int append_block(struct store_writer *w, struct segment *g, struct block *b, struct err *err)
{
	struct buf out = BUF_INIT;
	int rc = block_encode(&out, b);
	if (!rc)
		rc = file_append(&g->file, b->info.seq, 1, CODEC_RAW, (uint32_t)out.len, &out);
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
			close_segment(g);
	}
	buf_fini(&out);
	return rc ? err_sys(err, rc, "cannot write %s", g->file.path) : 0;
}

static void roll_back(struct store_writer *w, struct segment *g)
{
	/* The block first: without it, what stands in the dictionaries has no meaning. */
	if (g && file_rollback(&g->file)) {
		/*
		 * With it, all that it names must stay: nothing is written to these files any more,
		 * and they are cut when the manifest says that the segment ends before the block.
		 * Until then it may come back, as after a crash.
		 */
		close_segment(g);
		w->gen_broken = w->epoch_broken = true;
		return;
	}
	/* Where this fails the bytes stay until the next append writes over them. */
	for (int k = 1; k <= N_DICTS; k++)
		if (w->dict[k].fd >= 0)
			(void)file_rollback(&w->dict[k]);
}

static void count_bytes(struct store_writer *w, const struct file *f)
{
	w->state.bytes_written += f->tail - f->end;
}

int writer_put_block(struct store_writer *w, struct block *b, struct block_ref *ret, struct err *err)
{
	struct store *s = &w->s;
	struct dict_mark marks[N_DICTS + 1];
	struct segment *g = NULL;
	memcpy(marks, w->saved, sizeof(marks));
	int rc = need_segment(w, &b->info, &g, err);
	if (!rc)
		rc = write_dicts(w, marks, err);
	for (int k = 1; k <= N_DICTS; k++)
		b->marks[k] = (struct block_mark){ w->dict[k].tail, dicts_count(dicts_of(w, k), k) };
	b->info.seq = s->manifest.seq[b->info.level];
	if (!b->info.level) {
		b->info.window_lo = b->info.seq;
		b->info.window_hi = b->info.seq + 1;
	}
	b->info.generation = newest_generation(w);
	b->info.epoch = w->epoch->serial;
	if (!rc)
		rc = append_block(w, g, b, err);
	if (rc) {
		roll_back(w, g);
		return rc;
	}
	for (int k = 1; k <= N_DICTS; k++) {
		count_bytes(w, &w->dict[k]);
		file_commit(&w->dict[k]);
	}
	count_bytes(w, &g->file);
	file_commit(&g->file);
	memcpy(w->saved, marks, sizeof(marks));
	s->manifest.seq[b->info.level]++;
	*ret = g->refs[g->n_refs - 1];
	return 0;
}
