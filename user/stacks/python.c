/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/python.h"

#include "python_wire.h"
#include "store/writer.h"
#include "util/array.h"
#include "util/idhash.h"
#include "util/quota.h"
#include "util/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CODES_MAX (1u << 17) /* of all processes; 48 bytes each */
#define UTF8_MAX (PYTHON_TEXT_MAX * 2)

struct code {
	uint64_t start_ns, code;
	uint32_t tgid, exec_id;
	uint32_t frame, user;
	struct wait_frame says; /* what the frame says of waits, where that is asked for */
};

struct pythons {
	struct store_writer *store;
	struct frame_reasons *reasons; /* NULL: not asked for */
	struct code *codes;
	size_t n, cap;
	struct quota quota; /* of codes */
	struct idhash hash;
	uint32_t module, unknown; /* string, frame */
};

static int set_up(struct pythons *p)
{
	struct store_frame f = { .kind = FRAME_USER };
	int rc = store_add_string(p->store, "[python]", 8, &p->module);
	rc = rc ? rc : store_add_string(p->store, "[unknown]", 9, &f.function);
	f.module = p->module;
	return rc ? rc : store_add_frame(p->store, &f, &p->unknown);
}

int pythons_new(struct pythons **ret, struct store_writer *w)
{
	struct pythons *p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->store = w;
	p->quota.max = CODES_MAX;
	int rc = set_up(p);
	if (rc) {
		pythons_free(p);
		return rc;
	}
	*ret = p;
	return 0;
}

void pythons_note_reasons(struct pythons *p, struct frame_reasons *r)
{
	p->reasons = r;
}

int pythons_renewed(struct pythons *p)
{
	int rc = set_up(p);
	for (size_t i = 0; !rc && i < p->n; i++) {
		rc = store_carry_frame(p->store, p->codes[i].frame, &p->codes[i].frame);
		if (!rc && p->reasons)
			frame_reasons_put(p->reasons, p->codes[i].frame, &p->codes[i].says);
	}
	if (rc) { /* better no names than wrong ones */
		p->n = 0;
		p->quota = (struct quota){ .max = CODES_MAX };
		idhash_clear(&p->hash);
	}
	return rc;
}

void pythons_free(struct pythons *p)
{
	if (!p)
		return;
	free(p->codes);
	idhash_fini(&p->hash);
	free(p);
}

/* ---- processes ---- */

static int layout_of(uint32_t version)
{
	for (int i = 0; i < PYTHON_LAYOUTS; i++)
		if (python_layouts[i].version && python_layouts[i].version == version >> 16)
			return i;
	return -1;
}

/*
 * Find CPython in the mappings of a process. Return its mapping, with the bias of that; NULL: there
 * is none.
 */
static const struct proc_map *find_python(struct resolver *r, const struct proc_image *im,
					  struct binary_python *ret, uint64_t *ret_bias)
{
	for (uint32_t i = 0; i < im->n_maps; i++) {
		const struct proc_map *m = &im->maps[i];
		struct binary *b = resolver_binary(r, im, m);
		if (b && !binary_python(b, ret) && !binary_bias(b, m->start, m->pgoff, ret_bias))
			return m;
	}
	return NULL;
}

bool python_is_in(struct resolver *r, const struct proc_image *im)
{
	struct binary_python py;
	uint64_t bias;
	return find_python(r, im, &py, &bias);
}

bool python_is_known(uint32_t version)
{
	return layout_of(version) >= 0;
}

uint32_t python_locate(struct resolver *r, const struct proc_image *im, struct proc_entry *e)
{
	struct binary_python py;
	uint64_t bias;
	const struct proc_map *m = find_python(r, im, &py, &bias);
	int layout = m ? layout_of(py.version) : -1;
	e->python_runtime = layout < 0 ? 0 : bias + py.runtime;
	e->python_layout = layout < 0 ? 0 : (uint64_t)layout;
	return m && layout < 0 ? py.version : 0;
}

/* ---- code objects ---- */

static bool same_code(const void *ctx, uint32_t id, const void *key)
{
	const struct code *a = &((const struct pythons *)ctx)->codes[id], *b = key;
	return a->code == b->code && a->start_ns == b->start_ns && a->tgid == b->tgid &&
	       a->exec_id == b->exec_id;
}

static uint32_t hash_of(struct pythons *p, const struct code *c)
{
	const uint64_t key[3] = { c->code, c->start_ns, (uint64_t)c->exec_id << 32 | c->tgid };
	return idhash_hash(&p->hash, key, sizeof(key));
}

/* Convert characters of 1, 2 or 4 bytes to UTF-8, and invalid ones to question marks. */
static size_t to_utf8(const uint8_t *text, size_t bytes, size_t width, char out[UTF8_MAX])
{
	size_t n = 0;
	for (size_t i = 0; i + width <= bytes && n + 4 <= UTF8_MAX; i += width) {
		uint32_t c = text[i];
		if (width > 1)
			c |= (uint32_t)text[i + 1] << 8;
		if (width > 2)
			c |= (uint32_t)text[i + 2] << 16 | (uint32_t)text[i + 3] << 24;
		if (c < 0x20 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			c = '?';
		n += utf8_put(out + n, c);
	}
	return n;
}

static bool is_width(uint32_t width)
{
	return width == 1 || width == 2 || width == 4;
}

static int add_frame(struct pythons *p, const struct wire_python *w, struct code *c)
{
	char text[UTF8_MAX + 1], file[UTF8_MAX + 1];
	struct store_frame f = { .kind = FRAME_USER,
				 .module = p->module,
				 .line = w->line < INT32_MAX ? w->line : 0 };
	size_t n = to_utf8(w->name.text, w->name.bytes, w->name.width, text);
	int rc = n ? store_add_string(p->store, text, n, &f.function)
		   : store_add_string(p->store, "[unknown]", 9, &f.function);
	text[n] = 0;
	n = to_utf8(w->file.text, w->file.bytes, w->file.width, file);
	file[n] = 0;
	if (!rc && n)
		rc = store_add_string(p->store, file, n, &f.file);
	rc = rc ? rc
		: frame_reasons_add(p->reasons, p->store, &f,
				    &(struct frame_names){ text, "[python]", file }, &c->frame);
	if (!rc && p->reasons)
		c->says = *frame_reasons_get(p->reasons, c->frame);
	return rc;
}

void pythons_record(struct pythons *p, const struct wire_record *r, const void *payload,
		    uint32_t user)
{
	struct wire_python w;
	if (r->size != sizeof(w))
		return;
	memcpy(&w, payload, sizeof(w));
	if (w.name.bytes > PYTHON_TEXT_MAX || w.file.bytes > PYTHON_TEXT_MAX ||
	    !is_width(w.name.width) || !is_width(w.file.width))
		return;
	struct code c = { .start_ns = r->start_ns,
			  .code = w.id,
			  .tgid = r->tgid,
			  .exec_id = r->exec_id,
			  .user = user };
	if (add_frame(p, &w, &c))
		return;
	uint32_t hash = hash_of(p, &c), id = idhash_find(&p->hash, hash, same_code, p, &c);
	if (id != IDHASH_NONE) {
		c.user = p->codes[id].user;
		p->codes[id] = c; /* described again, after its entry was evicted */
		return;
	}
	if (ARRAY_RESERVE(p->codes, p->cap, p->n + 1) || idhash_reserve(&p->hash) ||
	    !quota_take(&p->quota, user, 1))
		return;
	p->codes[p->n] = c;
	idhash_put(&p->hash, hash, (uint32_t)p->n++);
}

uint32_t pythons_frame(const struct pythons *p, const struct row *row, uint64_t word)
{
	struct code c = { .start_ns = row->start_ns,
			  .code = word & ~PYTHON_ENTRY,
			  .tgid = row->tgid,
			  .exec_id = row->exec_id };
	uint32_t id = idhash_find(&p->hash, hash_of((struct pythons *)p, &c), same_code, p, &c);
	return id == IDHASH_NONE ? p->unknown : p->codes[id].frame;
}

void pythons_forget(struct pythons *p, struct procs *procs)
{
	size_t n = 0;
	uint32_t last = 0;
	bool alive = false;
	for (size_t i = 0; i < p->n; i++) {
		if (!i || p->codes[i].tgid != last)
			alive = procs_find(procs, last = p->codes[i].tgid, UINT64_MAX) != NULL;
		if (alive)
			p->codes[n++] = p->codes[i];
		else
			quota_give(&p->quota, p->codes[i].user, 1);
	}
	if (n == p->n)
		return;
	p->n = n;
	idhash_clear(&p->hash);
	for (size_t i = 0; i < n && !idhash_reserve(&p->hash); i++)
		idhash_put(&p->hash, hash_of(p, &p->codes[i]), (uint32_t)i);
}
