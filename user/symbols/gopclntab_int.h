/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by gopclntab.c (functions and the depths of their stacks) and gopclntab_lines.c. */
#ifndef ASCRIBE_SYMBOLS_GOPCLNTAB_INT_H
#define ASCRIBE_SYMBOLS_GOPCLNTAB_INT_H

#include "elf/section.h"
#include "symbols/gopclntab.h"

enum { FUNCTAB, FUNCS, NAMES, PCTAB, UNITS, WINDOWS };

struct window {
	uint8_t *bytes;
	uint64_t at;
	size_t len, size;
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
	uint64_t pctab;
	uint64_t units, files; /* cutab, filetab; files 0: none before Go 1.16 */
	unsigned quantum;      /* bytes of code */
	unsigned kind;	 /* where in a _func stands what it is, and then its flags; 0: nowhere */
	uint64_t gofunc; /* vaddr of what functions have outside of the table; 0: not known */
	bool looked_for_gofunc;
	struct window w[WINDOWS];
};

/* Read len bytes of the section from `at`, fewer than a window has. */
int gopclntab_get(struct pclntab *t, int window, uint64_t at, void *out, size_t len);

/*
 * What the table of a function that begins at `table` in pctab says of an address in it. -ENOENT:
 * nothing; -EBADMSG: it lies.
 */
int gopclntab_value(const struct go_function *f, uint64_t table, uint64_t vaddr, uint32_t *ret);

#endif
