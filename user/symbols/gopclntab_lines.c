/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inlined calls have a tree for each function, outside of the table: at gofunc, an address that
 * only the runtime's struct moduledata has, plus an offset in the function's _func. moduledata has
 * no symbol in a stripped file. It begins with the addresses of the table and of its names. An
 * entry of the tree has the name of the function that was inlined, and an instruction of the call
 * (parentPc). Its number at an address is in pctab.
 */
#include "elf/go.h"
#include "symbols/gopclntab_int.h"

#include <errno.h>

#define INLINE_NUMBER 2u /* of a function's tables in pctab (PCDATA_InlTreeIndex) */
#define INLINE_TREE 3u	 /* of what it has at gofunc (FUNCDATA_InlTree) */
#define MODULE_SECTION_MAX (16u << 20)
#define WORDS 512 /* read at a time */

/* Where gofunc stands in moduledata; 0: not known of this version. */
static uint64_t gofunc_in_module(unsigned version)
{
	static const struct {
		unsigned from;
		uint64_t at;
	} known[] = { { 128, 0 }, { 127, 344 }, { 120, 320 }, { 118, 304 } };
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (version >= known[i].from)
			return known[i].at;
	return 0;
}

/*
 * Search a section for moduledata; 0: it is not there. Where a linker leaves zeros for the loader
 * to fill in, it is not found.
 */
static uint64_t find_module(const struct pclntab *t, const char *section)
{
	struct elf_place s;
	uint64_t words[WORDS];
	if (elf_section_find(t->img, section, &s) || s.compressed || s.size > MODULE_SECTION_MAX)
		return 0;
	for (uint64_t at = 0, n; (n = (s.size - at) / 8) > 1; at += 8 * (n - 1)) {
		n = n < WORDS ? n : WORDS;
		if (elf_image_read(t->img, s.offset + at, words, n * 8))
			return 0;
		for (uint64_t i = 0; i + 1 < n; i++)
			if (words[i] == t->place.vaddr && words[i + 1] == words[i] + t->names)
				return s.vaddr + at + 8 * i;
	}
	return 0;
}

static uint64_t gofunc_of(struct pclntab *t)
{
	static const char *const sections[] = { ".go.module", ".noptrdata", ".data" };
	uint64_t at = gofunc_in_module(elf_go_version(t->img)), module = 0, gofunc;
	for (size_t i = 0; at && !module && i < sizeof(sections) / sizeof(sections[0]); i++)
		module = find_module(t, sections[i]);
	return module && !elf_image_read_at(t->img, module + at, &gofunc, sizeof(gofunc)) ? gofunc
											  : 0;
}

/* The inlined calls of a function. */
struct calls {
	uint64_t tree;	  /* vaddr */
	uint32_t numbers; /* its table in pctab; 0: there are none */
};

/* n_tables: of the function in pctab. */
static struct calls calls_of(const struct go_function *f, uint32_t n_tables)
{
	struct pclntab *t = f->table;
	uint64_t own = t->funcs + f->func, end = own + t->kind + 4; /* of what all have */
	struct calls c = { 0 };
	uint32_t offset;
	uint8_t n;
	if (t->entry_size != 4 || n_tables <= INLINE_NUMBER ||
	    gopclntab_get(t, FUNCS, own + t->kind + 3, &n, 1) || n <= INLINE_TREE ||
	    gopclntab_get(t, FUNCS, end + 4 * ((uint64_t)n_tables + INLINE_TREE), &offset, 4) ||
	    offset == UINT32_MAX)
		return c;
	if (!t->looked_for_gofunc)
		t->gofunc = gofunc_of(t);
	t->looked_for_gofunc = true;
	c.tree = t->gofunc + offset;
	if (t->gofunc && gopclntab_get(t, FUNCS, end + 4 * INLINE_NUMBER, &c.numbers, 4))
		c.numbers = 0;
	return c;
}

struct call {
	uint32_t name, parent; /* parent: from the start of the function to the call */
};

/* The inlined call that an address is in. False: in none, or it lies. */
static bool call_at(const struct go_function *f, const struct calls *c, uint64_t vaddr,
		    struct call *ret)
{
	struct pclntab *t = f->table;
	const bool old = t->kind == 36; /* Go 1.18 and 1.19 */
	const uint64_t size = old ? 20 : 16, name = old ? 12 : 4;
	uint32_t number;
	uint8_t before = 0;
	return c->numbers && !gopclntab_value(f, c->numbers, vaddr, &number) &&
	       number <= INT16_MAX &&
	       !elf_image_read_at(t->img, c->tree + number * size + name, ret, sizeof(*ret)) &&
	       ret->parent < f->size && ret->name &&
	       !gopclntab_get(t, NAMES, t->names + ret->name - 1, &before, 1) && !before;
}

static int get_text(struct pclntab *t, uint64_t at, char ret[GOPCLNTAB_TEXT_MAX + 1])
{
	uint64_t left = at < t->place.size ? t->place.size - at : 0;
	size_t len = left < GOPCLNTAB_TEXT_MAX ? (size_t)left : GOPCLNTAB_TEXT_MAX;
	ret[len] = 0;
	return len ? gopclntab_get(t, NAMES, at, ret, len) : -EBADMSG;
}

/* Where in pctab files and lines of a function stand; how many tables follow; its unit. */
struct numbers {
	uint32_t files, lines, n_tables, unit;
};

static int get_line(const struct go_function *f, const struct numbers *n, uint64_t vaddr,
		    struct go_line *ret)
{
	struct pclntab *t = f->table;
	uint32_t number, path;
	int rc = gopclntab_value(f, n->files, vaddr, &number);
	rc = rc ? rc : gopclntab_value(f, n->lines, vaddr, &ret->line);
	rc = rc ? rc
		: gopclntab_get(t, UNITS, t->units + 4 * ((uint64_t)n->unit + number), &path, 4);
	if (rc || path == UINT32_MAX || !ret->line || ret->line > INT32_MAX)
		return rc ? rc : -ENOENT;
	return get_text(t, t->files + path, ret->file);
}

int gopclntab_lines(const struct go_function *f, uint64_t vaddr, unsigned max,
		    int (*add)(void *ctx, const struct go_line *l), void *ctx)
{
	struct pclntab *t = f->table;
	struct numbers n;
	struct go_line line;
	struct call call;
	if (!t->files)
		return -ENOENT;
	int rc = gopclntab_get(t, FUNCS, t->funcs + f->func + t->entry_size + 16, &n, sizeof(n));
	struct calls calls = rc ? (struct calls){ 0 } : calls_of(f, n.n_tables);
	for (bool more = true; !rc && more && max--;) {
		more = max && call_at(f, &calls, vaddr, &call);
		rc = get_line(f, &n, vaddr, &line);
		rc = rc ? rc : get_text(t, t->names + (more ? call.name : f->name), line.function);
		rc = rc ? rc : add(ctx, &line);
		if (more)
			vaddr = f->vaddr + call.parent;
	}
	return rc;
}
