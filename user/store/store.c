/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_int.h"

#include <errno.h>
#include <stdlib.h>

int store_open(struct store **ret, const char *dir, struct err *err)
{
	struct store *s = malloc(sizeof(*s));
	if (!s)
		return err_sys(err, -ENOMEM, "cannot open %s", dir);
	store_init(s);
	int rc = store_open_dir(s, dir, err);
	if (!rc)
		rc = store_load(s, false, err);
	if (rc) {
		store_close(s);
		return rc;
	}
	for (int k = 1; k <= N_DICTS; k++)
		file_close(&s->files[k]);
	*ret = s;
	return 0;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	store_fini(s);
	free(s);
}

const char *store_damage(const struct store *s)
{
	return s->damage[0] ? s->damage : NULL;
}

const struct store_meta *store_meta(const struct store *s)
{
	return &s->header.meta;
}

const char *store_string(const struct store *s, uint32_t id, size_t *ret_len)
{
	return strings_get(&s->dicts.strings, id, ret_len);
}

const struct store_frame *store_frame(const struct store *s, uint32_t id)
{
	return id && id < s->dicts.n_frames ? &s->dicts.frames[id] : NULL;
}

void store_stack(const struct store *s, uint32_t id, uint32_t *ret_parent, uint32_t *ret_frame)
{
	struct stack_node n = id < s->dicts.n_stacks ? s->dicts.stacks[id] : (struct stack_node){ 0 };
	*ret_parent = n.parent;
	*ret_frame = n.frame;
}

size_t store_set_copy(const struct store *s, uint32_t id, struct label *out, size_t cap)
{
	const struct set_label *v;
	size_t n = dicts_set(&s->dicts, id, &v);
	for (size_t i = 0; i < n && i < cap; i++)
		out[i] = dicts_label(&s->dicts, &v[i]);
	return n;
}

/* Label sets are kept packed; those that somebody asks for are unpacked once. */
size_t store_set(const struct store *s, uint32_t id, const struct label **ret_labels)
{
	struct store *own = (struct store *)s;
	const struct set_label *v;
	size_t n = dicts_set(&s->dicts, id, &v);
	*ret_labels = NULL;
	if (!n)
		return 0;
	if (!own->set_cache)
		own->set_cache = calloc(s->dicts.n_sets, sizeof(*own->set_cache));
	if (!own->set_cache)
		return 0;
	if (!own->set_cache[id]) {
		own->set_cache[id] = malloc(n * sizeof(**own->set_cache));
		if (!own->set_cache[id])
			return 0;
		store_set_copy(s, id, own->set_cache[id], n);
	}
	*ret_labels = own->set_cache[id];
	return n;
}

const struct store_event *store_event(const struct store *s, uint32_t id)
{
	return id < s->dicts.n_events ? &s->dicts.events[id] : NULL;
}

uint32_t store_n_strings(const struct store *s)
{
	return s->dicts.strings.n;
}

uint32_t store_n_frames(const struct store *s)
{
	return s->dicts.n_frames;
}

uint32_t store_n_stacks(const struct store *s)
{
	return s->dicts.n_stacks;
}

uint32_t store_n_sets(const struct store *s)
{
	return s->dicts.n_sets;
}

uint32_t store_n_events(const struct store *s)
{
	return s->dicts.n_events;
}

size_t store_n_windows(const struct store *s)
{
	return s->n_blocks;
}

const struct store_window *store_window(const struct store *s, size_t i)
{
	return i < s->n_blocks ? &s->blocks[s->order[i]].block.window : NULL;
}

int store_rows(struct store *s, size_t i, int (*cb)(void *ctx, const struct store_row *row), void *ctx, struct err *err)
{
	if (i >= s->n_blocks)
		return err_set(err, -EINVAL, "there is no window %zu", i);
	const struct stored_block *b = &s->blocks[s->order[i]];
	const struct file *f = &s->files[KIND_BLOCKS];
	struct buf payload = BUF_INIT;
	struct store_row *rows = NULL;
	struct frame h;
	int rc = file_frame(f, b->offset, b->end, &h, &payload);
	if (!rc)
		rc = payload.len < BLOCK_SIZE
			     ? -EBADMSG
			     : block_rows(&b->block, payload.data, payload.len, s->dicts.events, &rows);
	if (rc == -EBADMSG || rc == -ENODATA)
		rc = err_set(err, -EBADMSG, "%s is damaged at offset %llu", f->path, (unsigned long long)b->offset);
	else if (rc)
		err_sys(err, rc, "cannot read %s", f->path);
	buf_fini(&payload);
	for (uint64_t k = 0; !rc && k < b->block.window.n_rows; k++)
		rc = cb(ctx, &rows[k]);
	free(rows);
	return rc;
}
