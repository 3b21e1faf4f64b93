/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/gopclntab.h"

#include "elf/section.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GO_1_2 0xfffffffbu
#define GO_1_16 0xfffffffau
#define GO_1_18 0xfffffff0u
#define GO_1_20 0xfffffff1u

#define WINDOW (256u * 1024)

/* A stretch of the file that is read ahead; functab and _funcs are each walked forwards. */
struct window {
	uint8_t *bytes;
	uint64_t at;
	size_t len;
};

struct pclntab {
	const struct elf_image *img;
	struct elf_place place;
	uint64_t n;
	uint64_t functab; /* distances from the start of the section */
	uint64_t funcs;
	uint64_t names;
	uint64_t text; /* what entries are counted from */
	unsigned entry_size;
	unsigned kind; /* where in a _func stands what it is, and then its flags; 0: nowhere */
};

#define TOP_FRAME 1 /* of the flags; a signal's trampoline has it, too, but is nothing special: kind 0 */

/* len bytes of the section from `at`. */
static int get(const struct pclntab *t, struct window *w, uint64_t at, void *out, size_t len)
{
	if (at > t->place.size || len > t->place.size - at)
		return -EBADMSG;
	if (at < w->at || at + len > w->at + w->len) {
		uint64_t left = t->place.size - at;
		w->at = at;
		w->len = left < WINDOW ? (size_t)left : WINDOW;
		int rc = elf_image_read(t->img, t->place.offset + at, w->bytes, w->len);
		if (rc) {
			w->len = 0;
			return rc;
		}
	}
	memcpy(out, w->bytes + (at - w->at), len);
	return 0;
}

/* In position-independent programs the header's own address of text is filled in when the program starts. */
static uint64_t text_start(const struct elf_image *img, uint64_t said)
{
	struct elf_place text;
	for (size_t i = 0; said && i < img->n_text; i++)
		if (said - img->text[i].vaddr < img->text[i].size)
			return said;
	return elf_section_find(img, ".text", &text) ? 0 : text.vaddr;
}

static int read_header(struct pclntab *t, struct window *w)
{
	uint8_t head[8];
	uint32_t magic;
	uint64_t v[9] = { 0 };
	int rc = get(t, w, 0, head, sizeof(head));
	if (rc)
		return rc;
	memcpy(&magic, head, sizeof(magic));
	if (head[4] || head[5] || head[7] != 8)
		return -EPROTONOSUPPORT;
	size_t words = magic == GO_1_2 ? 1 : magic == GO_1_16 ? 7 : 8;
	rc = get(t, w, 8, v, words * 8);
	if (rc)
		return rc;
	t->n = v[0];
	t->entry_size = 8;
	if (magic == GO_1_2) {
		t->functab = 16;
	} else if (magic == GO_1_16) {
		t->names = v[2];
		t->functab = t->funcs = v[6];
		t->kind = 40;
	} else if (magic == GO_1_18 || magic == GO_1_20) {
		t->text = text_start(t->img, v[2]);
		t->names = v[3];
		t->functab = t->funcs = v[7];
		t->entry_size = 4;
		t->kind = magic == GO_1_18 ? 36 : 40;
	} else {
		return -EPROTONOSUPPORT;
	}
	return t->names > t->place.size || t->n > t->place.size / (2 * t->entry_size) ? -EBADMSG : 0;
}

/* Entry i of functab: its address and its _func; the last one is the end. */
static int read_entry(const struct pclntab *t, struct window *w, uint64_t i, uint64_t *ret_vaddr, uint64_t *ret_func)
{
	uint8_t b[16];
	uint64_t pair = 2 * t->entry_size;
	int rc = get(t, w, t->functab + i * pair, b, i < t->n ? pair : t->entry_size);
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

static int walk(const struct pclntab *t, struct window w[2], int (*add)(void *, const struct go_function *), void *ctx)
{
	uint64_t vaddr = 0, func = 0, next, next_func;
	int rc = t->functab > t->place.size ? -EBADMSG : read_entry(t, &w[0], 0, &vaddr, &func);
	for (uint64_t i = 0; !rc && i < t->n; i++) {
		struct go_function f = { .vaddr = vaddr };
		uint8_t what[2] = { 0 };
		rc = read_entry(t, &w[0], i + 1, &next, &next_func);
		if (rc)
			break;
		if (next < vaddr)
			return -EBADMSG; /* not sorted */
		if (func > t->place.size)
			return -EBADMSG;
		f.size = next - vaddr;
		rc = get(t, &w[1], t->funcs + func + t->entry_size, &f.name, sizeof(f.name));
		if (!rc && t->kind && !get(t, &w[1], t->funcs + func + t->kind, what, sizeof(what)))
			f.top = what[0] && what[1] & TOP_FRAME;
		if (!rc && f.size && f.name < INT32_MAX)
			rc = add(ctx, &f);
		vaddr = next;
		func = next_func;
	}
	return rc;
}

int gopclntab_walk(const struct elf_image *img, size_t max, struct go_names *ret_names,
		   int (*add)(void *ctx, const struct go_function *f), void *ctx)
{
	struct pclntab t = { .img = img };
	struct window w[2] = { 0 };
	int rc = elf_section_find(img, ".gopclntab", &t.place);
	if (rc == -ENOENT)
		rc = elf_section_find(img, ".data.rel.ro.gopclntab", &t.place); /* position-independent */
	if (rc)
		return rc;
	if (t.place.compressed)
		return -EPROTONOSUPPORT;
	for (size_t i = 0; i < 2; i++) {
		w[i].bytes = malloc(WINDOW);
		if (!w[i].bytes)
			rc = -ENOMEM;
	}
	rc = rc ? rc : read_header(&t, &w[0]);
	if (!rc && t.n > max)
		rc = -E2BIG;
	if (!rc)
		*ret_names = (struct go_names){ t.place.offset + t.names, t.place.size - t.names };
	rc = rc ? rc : walk(&t, w, add, ctx);
	free(w[0].bytes);
	free(w[1].bytes);
	return rc;
}
