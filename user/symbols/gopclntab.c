/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/gopclntab_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GO_1_2 0xfffffffbu
#define GO_1_16 0xfffffffau
#define GO_1_18 0xfffffff0u
#define GO_1_20 0xfffffff1u

#define STRETCHES_MAX 65536u /* of one function */

/*
 * How far is read ahead: functab and _funcs are each walked forwards, unless functions are looked
 * up; functions that are alike share what they have in pctab.
 */
#define WALK_WINDOW (256u * 1024)
#define JUMP_WINDOW 4096u

/* Of the flags; a signal's trampoline has it, too, but is nothing special: kind 0 */
#define TOP_FRAME 1

int gopclntab_get(struct pclntab *t, int window, uint64_t at, void *out, size_t len)
{
	struct window *w = &t->w[window];
	if (at > t->place.size || len > t->place.size - at)
		return -EBADMSG;
	if (at < w->at || at + len > w->at + w->len) {
		uint64_t left = t->place.size - at;
		w->at = at;
		w->len = left < w->size ? (size_t)left : w->size;
		int rc = elf_image_read(t->img, t->place.offset + at, w->bytes, w->len);
		if (rc) {
			w->len = 0;
			return rc;
		}
	}
	memcpy(out, w->bytes + (at - w->at), len);
	return 0;
}

/*
 * In position-independent programs the header's own address of text is filled in when the program
 * starts.
 */
static uint64_t text_start(const struct elf_image *img, uint64_t said)
{
	struct elf_place text;
	for (size_t i = 0; said && i < img->n_text; i++)
		if (said - img->text[i].vaddr < img->text[i].size)
			return said;
	return elf_section_find(img, ".text", &text) ? 0 : text.vaddr;
}

static int read_header(struct pclntab *t)
{
	uint8_t head[8];
	uint32_t magic;
	uint64_t v[9] = { 0 };
	int rc = gopclntab_get(t, FUNCTAB, 0, head, sizeof(head));
	if (rc)
		return rc;
	memcpy(&magic, head, sizeof(magic));
	if (head[4] || head[5] || head[7] != 8)
		return -EPROTONOSUPPORT;
	size_t words = magic == GO_1_2 ? 1 : magic == GO_1_16 ? 7 : 8;
	rc = gopclntab_get(t, FUNCTAB, 8, v, words * 8);
	if (rc)
		return rc;
	t->n = v[0];
	t->entry_size = 8;
	t->quantum = head[6];
	if (magic == GO_1_2) {
		t->functab = 16;
	} else if (magic == GO_1_16) {
		t->names = v[2];
		t->units = v[3];
		t->files = v[4];
		t->pctab = v[5];
		t->functab = t->funcs = v[6];
		t->kind = 40;
	} else if (magic == GO_1_18 || magic == GO_1_20) {
		t->text = text_start(t->img, v[2]);
		t->names = v[3];
		t->units = v[4];
		t->files = v[5];
		t->pctab = v[6];
		t->functab = t->funcs = v[7];
		t->entry_size = 4;
		t->kind = magic == GO_1_18 ? 36 : 40;
	} else {
		return -EPROTONOSUPPORT;
	}
	return t->names > t->place.size || t->n > t->place.size / (2 * t->entry_size) ? -EBADMSG
										      : 0;
}

/* Entry i of functab: its address and its _func; the last one is the end. */
static int read_entry(struct pclntab *t, uint64_t i, uint64_t *ret_vaddr, uint64_t *ret_func)
{
	uint8_t b[16];
	uint64_t pair = 2 * t->entry_size;
	int rc = gopclntab_get(t, FUNCTAB, t->functab + i * pair, b,
			       i < t->n ? pair : t->entry_size);
	uint32_t low[2];
	uint64_t wide[2];
	if (rc)
		return rc;
	memcpy(low, b, sizeof(low));
	memcpy(wide, b, sizeof(wide));
	*ret_vaddr = t->text + (t->entry_size == 4 ? low[0] : wide[0]);
	*ret_func = t->entry_size == 4 ? low[1] : wide[1];
	return 0;
}

static int read_func(struct pclntab *t, uint64_t func, struct go_function *f)
{
	uint32_t v[4]; /* name, arguments, deferreturn, pcsp */
	uint8_t what[2] = { 0 };
	if (func > t->place.size)
		return -EBADMSG;
	int rc = gopclntab_get(t, FUNCS, t->funcs + func + t->entry_size, v, sizeof(v));
	if (rc)
		return rc;
	f->name = v[0];
	f->depths = v[3];
	f->func = func;
	if (t->kind && !gopclntab_get(t, FUNCS, t->funcs + func + t->kind, what, sizeof(what))) {
		f->top = what[0] && what[1] & TOP_FRAME;
		f->plain = !what[0];
	}
	return 0;
}

static int walk(struct pclntab *t, int (*add)(void *, const struct go_function *), void *ctx)
{
	uint64_t vaddr = 0, func = 0, next, next_func;
	int rc = t->functab > t->place.size ? -EBADMSG : read_entry(t, 0, &vaddr, &func);
	for (uint64_t i = 0; !rc && i < t->n; i++) {
		struct go_function f = { .vaddr = vaddr, .table = t };
		rc = read_entry(t, i + 1, &next, &next_func);
		if (rc)
			break;
		if (next < vaddr)
			return -EBADMSG; /* not sorted */
		f.size = next - vaddr;
		rc = read_func(t, func, &f);
		if (!rc && f.size && f.name < INT32_MAX)
			rc = add(ctx, &f);
		vaddr = next;
		func = next_func;
	}
	return rc;
}

bool gopclntab_is_named(const struct go_function *f, const char *prefix)
{
	char name[64];
	size_t len = strlen(prefix);
	return len < sizeof(name) &&
	       !gopclntab_get(f->table, NAMES, f->table->names + f->name, name, len) &&
	       !memcmp(name, prefix, len);
}

static int get_varint(struct pclntab *t, uint64_t *at, uint32_t *ret)
{
	uint64_t v = 0;
	uint8_t b = 0x80;
	for (unsigned shift = 0; b & 0x80; shift += 7) {
		int rc = shift < 35 ? gopclntab_get(t, PCTAB, (*at)++, &b, 1) : -EBADMSG;
		if (rc)
			return rc;
		v |= (uint64_t)(b & 0x7f) << shift;
	}
	*ret = (uint32_t)v;
	return 0;
}

/* A stretch of a function's code, and what a table of pctab says of it. */
struct stretch {
	uint64_t vaddr, end;
	uint32_t value;
	uint64_t at; /* in the table */
	unsigned n;
};

/* Go on to the next stretch. -ENOENT: there is none. */
static int next_stretch(struct pclntab *t, struct stretch *s)
{
	uint32_t change, len;
	int rc = s->n < STRETCHES_MAX ? get_varint(t, &s->at, &change) : -EBADMSG;
	if (!rc && s->n++ && !change)
		rc = -ENOENT;
	rc = rc ? rc : get_varint(t, &s->at, &len);
	if (rc)
		return rc;
	s->value += change >> 1 ^ -(change & 1);
	s->vaddr = s->end;
	s->end += (uint64_t)len * t->quantum;
	return 0;
}

/* Begin a table of a function, before its first stretch. False: it has none. */
static bool begin_stretches(const struct go_function *f, uint64_t table, struct stretch *ret)
{
	const struct pclntab *t = f->table;
	*ret = (struct stretch){ .end = f->vaddr, .value = UINT32_MAX, .at = t->pctab + table };
	return table && t->pctab && ret->at <= t->place.size;
}

int gopclntab_depths(const struct go_function *f,
		     int (*add)(void *ctx, uint64_t vaddr, uint64_t end, uint32_t depth), void *ctx)
{
	uint64_t end = f->vaddr + f->size;
	struct stretch s;
	int rc = begin_stretches(f, f->depths, &s) ? 0 : -ENOENT;
	while (!rc && s.end < end) {
		rc = next_stretch(f->table, &s);
		rc = rc ? rc : add(ctx, s.vaddr, s.end < end ? s.end : end, s.value);
	}
	return rc == -ENOENT ? 0 : rc;
}

int gopclntab_value(const struct go_function *f, uint64_t table, uint64_t vaddr, uint32_t *ret)
{
	struct stretch s;
	int rc = begin_stretches(f, table, &s) ? 0 : -ENOENT;
	while (!rc && s.end <= vaddr)
		rc = next_stretch(f->table, &s);
	*ret = s.value;
	return rc;
}

/* Close it in any case. ahead: how far functab and _funcs are read. */
static int open_table(struct pclntab *t, const struct elf_image *img, size_t ahead,
		      struct go_names *ret_names)
{
	*t = (struct pclntab){ .img = img };
	int rc = img->is_32 ? -ENOENT : elf_section_find(img, ".gopclntab", &t->place);
	if (rc == -ENOENT)
		/* position-independent */
		rc = elf_section_find(img, ".data.rel.ro.gopclntab", &t->place);
	if (rc)
		return rc;
	if (t->place.compressed)
		return -EPROTONOSUPPORT;
	for (int i = 0; i < WINDOWS; i++) {
		size_t size = i == FUNCTAB || i == FUNCS ? ahead : JUMP_WINDOW;
		t->w[i] = (struct window){ .bytes = malloc(size), .size = size };
		if (!t->w[i].bytes)
			rc = -ENOMEM;
	}
	rc = rc ? rc : read_header(t);
	if (!rc)
		*ret_names =
			(struct go_names){ t->place.offset + t->names, t->place.size - t->names };
	return rc;
}

static void close_table(struct pclntab *t)
{
	for (int i = 0; i < WINDOWS; i++)
		free(t->w[i].bytes);
}

bool gopclntab_is_there(const struct elf_image *img)
{
	struct go_names names;
	struct pclntab t;
	int rc = open_table(&t, img, JUMP_WINDOW, &names);
	close_table(&t);
	return !rc;
}

int gopclntab_walk(const struct elf_image *img, size_t max, struct go_names *ret_names,
		   int (*add)(void *ctx, const struct go_function *f), void *ctx)
{
	struct pclntab t;
	int rc = open_table(&t, img, WALK_WINDOW, ret_names);
	if (!rc && t.n > max)
		rc = -E2BIG;
	rc = rc ? rc : walk(&t, add, ctx);
	close_table(&t);
	return rc;
}

/* Find the function that holds vaddr. -ENOENT: none does. */
static int look_up(struct pclntab *t, uint64_t vaddr, struct go_function *ret)
{
	uint64_t low = 0, high = t->n, func = 0, end, none;
	while (low < high) { /* the first entry behind vaddr */
		uint64_t at, i = low + (high - low) / 2;
		int rc = read_entry(t, i, &at, &none);
		if (rc)
			return rc;
		*(at <= vaddr ? &low : &high) = at <= vaddr ? i + 1 : i;
	}
	*ret = (struct go_function){ .table = t };
	int rc = low ? read_entry(t, low - 1, &ret->vaddr, &func) : -ENOENT;
	rc = rc ? rc : read_entry(t, low, &end, &none);
	if (rc || end <= vaddr)
		return rc ? rc : -ENOENT;
	ret->size = end - ret->vaddr;
	return read_func(t, func, ret);
}

int gopclntab_walk_at(const struct elf_image *img, const uint64_t *vaddr, size_t n,
		      struct go_names *ret_names,
		      int (*add)(void *ctx, const struct go_function *f), void *ctx)
{
	struct pclntab t;
	struct go_function f = { 0 };
	int rc = open_table(&t, img, JUMP_WINDOW, ret_names);
	for (size_t i = 0; !rc && i < n; i++) {
		if (vaddr[i] - f.vaddr < f.size)
			continue;
		rc = look_up(&t, vaddr[i], &f);
		if (!rc && f.name < INT32_MAX)
			rc = add(ctx, &f);
		rc = rc == -ENOENT ? 0 : rc;
	}
	close_table(&t);
	return rc;
}
