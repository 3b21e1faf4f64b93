/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of a Go program from .gopclntab, which stripping leaves in place. Headers of Go
 * 1.2, 1.16, 1.18 and 1.20:
 *
 *   magic u32, 0 u16, quantum u8, pointer size u8, number of functions, ...
 *   functab: {entry, offset of its _func} for every function, then the end of the last
 *   _func:   entry, offset of its name, two numbers, pcsp, three numbers, cuOffset since 1.16,
 *            startLine since 1.20, u8 what it is, u8 flags since 1.17
 *   pcsp:    where in pctab the depths of its stack stand: pairs of varints, a change of the depth
 *            (zigzag, the first from -1) and the length of code (in quanta) that it holds for; a
 *            change of 0 that is not the first ends them
 *   numbers: behind pcsp: where in pctab the numbers of its files and of its lines stand, likewise;
 *            u32 [cuOffset + number of a file] of cutab is the offset of its path in filetab
 *
 * Entries are addresses of 8 bytes until 1.16 and distances of 4 bytes from the start of text since
 * 1.18. Only tables of 64-bit little-endian programs are read; the table of a large program has
 * over 100 MB and is read in pieces.
 */
#ifndef ASCRIBE_SYMBOLS_GOPCLNTAB_H
#define ASCRIBE_SYMBOLS_GOPCLNTAB_H

#include "elf/image.h"

#include <stdbool.h>

struct go_function {
	uint64_t vaddr;
	uint64_t size;
	uint32_t name; /* offset in the names */
	bool top;      /* the runtime's outermost functions of a stack: goexit, mstart, rt0_go */
	/*
	 * Known to be none of those that the runtime treats in a way of their own: those may change
	 * stacks
	 */
	bool plain;
	uint64_t depths; /* for gopclntab_depths */
	uint64_t func;	 /* offset of its _func, for gopclntab_lines */
	struct pclntab *table;
};

struct go_names {
	uint64_t offset; /* in the file */
	uint64_t size;
};

/*
 * Call add for each function, in order of address; what it returns other than 0 ends the walk.
 * -ENOENT: there is no such table; -EBADMSG: it lies; -EPROTONOSUPPORT: a version that we do not
 * know; -E2BIG: over max functions.
 */
int gopclntab_walk(const struct elf_image *img, size_t max, struct go_names *ret_names,
		   int (*add)(void *ctx, const struct go_function *f), void *ctx);

/* The same for the functions that hold one of n addresses, which are sorted. */
int gopclntab_walk_at(const struct elf_image *img, const uint64_t *vaddr, size_t n,
		      struct go_names *ret_names,
		      int (*add)(void *ctx, const struct go_function *f), void *ctx);

/* False where there is no such table, or a version that we do not know. */
bool gopclntab_is_there(const struct elf_image *img);

/*
 * Whether the name of a function that the walk gives, while it does, begins so; at most 63 bytes.
 */
bool gopclntab_is_named(const struct go_function *f, const char *prefix);

/*
 * For a function that the walk gives, while it does. Call add for each stretch [vaddr, end) of its
 * code, in order, in which the stack pointer is `depth` bytes below where it was when the function
 * was entered. What add returns other than 0 ends it. -EBADMSG: it lies.
 */
int gopclntab_depths(const struct go_function *f,
		     int (*add)(void *ctx, uint64_t vaddr, uint64_t end, uint32_t depth),
		     void *ctx);

/*
 * For a function that the walk gives, while it does. Call add for the inlined calls around an
 * address in it, innermost first, and for the function itself, `max` at most: each with its name
 * and the line that runs, or that made the call before. What add returns other than 0 ends it.
 * Texts are cut to GOPCLNTAB_TEXT_MAX bytes. -ENOENT: not said; -EBADMSG: it lies.
 */
#define GOPCLNTAB_TEXT_MAX 1024
struct go_line {
	char function[GOPCLNTAB_TEXT_MAX + 1], file[GOPCLNTAB_TEXT_MAX + 1];
	uint32_t line;
};
int gopclntab_lines(const struct go_function *f, uint64_t vaddr, unsigned max,
		    int (*add)(void *ctx, const struct go_line *l), void *ctx);

#endif
