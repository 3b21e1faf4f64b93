/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generations and epochs: reading their files, and translating their ids into those of store.sym.
 *
 * A dictionary is read up to its end or its first bad frame. What stands behind the marks of the
 * blocks was never acknowledged and harms nobody; a block whose marks go beyond what was intact is
 * refused when it is read.
 */
#include "store/store_int.h"

#include "store/columns.h"
#include "util/array.h"

#include <errno.h>

void dict_gen_free(struct dict_gen *g)
{
	if (!g)
		return;
	dicts_fini(&g->d);
	free(g->strings);
	free(g->frames);
	free(g->stacks);
	free(g->events);
	free(g->sets);
	free(g);
}

static int decode_frame(struct dicts *d, enum file_kind kind, const struct frame *h, const struct buf *payload,
			struct buf *raw)
{
	raw->len = 0;
	if (h->raw_len > FRAME_RAW_MAX || h->first != dicts_count(d, kind))
		return -EBADMSG;
	int rc = codec_unpack(raw, h->codec, payload->data, payload->len, h->raw_len);
	return rc ? rc : dicts_decode(d, kind, raw->data, raw->len, h->count);
}

static int load_frames(struct dict_gen *g, const struct file *f, struct err *err)
{
	struct buf payload = BUF_INIT, raw = BUF_INIT;
	enum file_kind kind = f->place.kind;
	uint64_t offset = FILE_HEADER_SIZE;
	struct frame h;
	int rc;
	while (!(rc = file_frame(f, offset, f->size, &h, &payload))) {
		rc = decode_frame(&g->d, kind, &h, &payload, &raw);
		if (rc)
			break;
		offset = frame_end(&h);
	}
	g->good[kind] = offset;
	buf_fini(&payload);
	buf_fini(&raw);
	return rc == -ENODATA || rc == -EBADMSG ? 0 : err_sys(err, rc, "cannot read %s", f->path);
}

static int load_file(struct store *s, struct dict_gen *g, enum file_kind kind, struct err *err)
{
	struct file f;
	struct err why = { 0 };
	int rc = file_open(&f, s->dir_fd, s->dir, (struct place){ kind, g->serial, 0 }, s->header.store_id, false, &why);
	if (!rc)
		rc = load_frames(g, &f, &why);
	file_close(&f);
	if (rc == -ENOENT)
		return store_missing(s, f.path, err);
	if (rc == -ENODATA) /* shorter than its header: no block can need it but a damaged one */
		return 0;
	return rc ? err_set(err, rc, "%s", why.text) : 0;
}

int dict_gen_load(struct store *s, struct dict_gen *g, bool epoch, bool index, struct err *err)
{
	int rc = dicts_init(&g->d, index);
	if (rc)
		err_sys(err, rc, "cannot read %s", s->dir);
	for (int k = 1; !rc && k <= N_DICTS; k++)
		if ((k == KIND_SETS) == epoch)
			rc = load_file(s, g, k, err);
	g->loaded = !rc;
	if (rc)
		dicts_fini(&g->d);
	return rc;
}

int dict_gen_load_events(struct store *s, struct dict_gen *g, struct err *err)
{
	int rc = dicts_init(&g->d, false);
	return rc ? err_sys(err, rc, "cannot read %s", s->dir) : load_file(s, g, KIND_EVENTS, err);
}

static int find_gen(struct dict_gen ***list, size_t *n, size_t *cap, uint32_t serial, struct dict_gen **ret)
{
	for (size_t i = *n; i-- > 0;) {
		if ((*list)[i]->serial != serial)
			continue;
		*ret = (*list)[i];
		return 0;
	}
	int rc = ARRAY_RESERVE(*list, *cap, *n + 1);
	struct dict_gen *g = rc ? NULL : calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->serial = serial;
	(*list)[(*n)++] = g;
	*ret = g;
	return 0;
}

/* Nothing in the block may name what the dictionary does not have. */
static int check_marks(struct store *s, const struct dict_gen *g, const struct block_ref *r, bool epoch, struct err *err)
{
	for (int k = 1; k <= N_DICTS; k++) {
		char name[FILE_NAME_SIZE];
		if ((k == KIND_SETS) != epoch || r->mark_bytes[k] <= g->good[k])
			continue;
		file_name(name, (struct place){ k, g->serial, 0 });
		return err_set(err, -EBADMSG, "%s/%s is damaged or cut short at offset %llu", s->dir, name,
			       (unsigned long long)g->good[k]);
	}
	return 0;
}

int store_gen(struct store *s, const struct block_ref *r, struct dict_gen **ret, struct err *err)
{
	struct dict_gen *g;
	int rc = find_gen(&s->gens, &s->n_gens, &s->gens_cap, r->b.generation, &g);
	if (rc)
		return err_sys(err, rc, "cannot read %s", s->dir);
	if (!g->loaded && !g->same)
		rc = dict_gen_load(s, g, false, false, err);
	if (!rc)
		rc = check_marks(s, g, r, false, err);
	if (!rc)
		*ret = g;
	return rc;
}

int store_epoch(struct store *s, const struct block_ref *r, struct dict_gen **ret, struct err *err)
{
	struct dict_gen *g;
	int rc = find_gen(&s->epochs, &s->n_epochs, &s->epochs_cap, r->b.epoch, &g);
	if (rc)
		return err_sys(err, rc, "cannot read %s", s->dir);
	if (!g->loaded)
		rc = dict_gen_load(s, g, true, s->write, err);
	if (!rc)
		rc = check_marks(s, g, r, true, err);
	if (!rc)
		*ret = g;
	return rc;
}

const struct manifest_epoch *store_epoch_info(const struct store *s, uint32_t serial)
{
	const struct manifest *m = &s->manifest;
	size_t lo = 0, hi = m->n_epochs;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (m->epochs[mid].serial < serial)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < m->n_epochs && m->epochs[lo].serial == serial ? &m->epochs[lo] : NULL;
}

/* ---- translation ---- */

static int map_string(struct store *s, struct dict_gen *g, uint32_t id, uint32_t *ret)
{
	size_t len;
	if (!id || g->strings[id]) {
		*ret = id ? g->strings[id] - 1 : 0;
		return 0;
	}
	const char *text = strings_get(&g->d.strings, id, &len);
	int rc = strings_add(&s->sym.strings, text, len, ret);
	if (!rc)
		g->strings[id] = *ret + 1;
	return rc;
}

static int map_frame(struct store *s, struct dict_gen *g, uint32_t id, uint32_t *ret)
{
	if (g->frames[id]) {
		*ret = g->frames[id] - 1;
		return 0;
	}
	struct store_frame f = g->d.frames[id];
	int rc = map_string(s, g, f.function, &f.function);
	if (!rc)
		rc = map_string(s, g, f.module, &f.module);
	if (!rc)
		rc = map_string(s, g, f.build_id, &f.build_id);
	if (!rc)
		rc = map_string(s, g, f.file, &f.file);
	if (!rc)
		rc = dicts_add_frame(&s->sym, &f, ret);
	if (!rc)
		g->frames[id] = *ret + 1;
	return rc;
}

static int prepare(struct store *s, struct dict_gen *g)
{
	int rc = dicts_make_index(&s->sym);
	if (rc || g->stacks)
		return rc;
	g->strings = calloc(g->d.strings.n, sizeof(*g->strings));
	g->frames = calloc(g->d.n_frames, sizeof(*g->frames));
	uint32_t *stacks = calloc(g->d.n_stacks, sizeof(*g->stacks));
	if (!g->strings || !g->frames || !stacks) {
		free(g->strings);
		free(g->frames);
		free(stacks);
		g->strings = g->frames = NULL;
		return -ENOMEM;
	}
	stacks[0] = 1;
	g->stacks = stacks;
	return 0;
}

int dict_gen_stack(struct store *s, struct dict_gen *g, uint32_t id, uint32_t *ret)
{
	if (g->same) {
		*ret = id;
		return 0;
	}
	int rc = g->stacks ? 0 : prepare(s, g);
	if (rc)
		return rc;
	/* Climb to what is known, then come down; chains are as long as stacks are deep, and parent < id. */
	while (!g->stacks[id]) {
		uint32_t at = id, frame, mine;
		while (!g->stacks[g->d.stacks[at].parent])
			at = g->d.stacks[at].parent;
		rc = map_frame(s, g, g->d.stacks[at].frame, &frame);
		if (!rc)
			rc = dicts_add_stack(&s->sym, g->stacks[g->d.stacks[at].parent] - 1, frame, &mine);
		if (rc)
			return rc;
		g->stacks[at] = mine + 1;
	}
	*ret = g->stacks[id] - 1;
	return 0;
}

int dict_gen_leaf(struct store *s, struct dict_gen *g, uint32_t leaf, uint32_t *ret)
{
	if (!g->same)
		return dict_gen_stack(s, g, g->d.leaves[leaf], ret);
	*ret = s->sym.leaves[leaf];
	return 0;
}

const struct dicts *dict_gen_dicts(const struct store *s, const struct dict_gen *g)
{
	return g->same ? &s->sym : &g->d;
}

int dict_gen_event(struct store *s, struct dict_gen *g, uint32_t id, uint32_t *ret)
{
	if (g->same) {
		*ret = id;
		return 0;
	}
	return dicts_add_event(&s->sym, &g->d.events[id], ret);
}
