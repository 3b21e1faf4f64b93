/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols of one binary, 12 bytes each beside their names, sorted by address.
 *
 *   base       the lowest address; entries hold the distance to it
 *   entries    {addr, size, name}, sorted by addr; at most two with one addr: first a longer one
 *              that is second choice, then the first choice
 *   reach      for every TABLE_BLOCK entries: the furthest end in the block, and the furthest of
 *              all up to it
 *   names      NUL-terminated names, shared suffixes kept shared
 *
 * Symbols may nest (an entry point inside a bigger function). So a look-up takes the last symbol
 * that starts at or before the address and walks back until one reaches over it; `reach` skips what
 * cannot.
 */
#ifndef ASCRIBE_SYMBOLS_TABLE_H
#define ASCRIBE_SYMBOLS_TABLE_H

#include "elf/image.h"
#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_SYMBOLS_MAX (2u << 20) /* functions of one file, both tables */
#define TABLE_SCAN_MAX (16u << 20)   /* symbols of any kind looked at in one table */
#define TABLE_NAMES_MAX (64u << 20)  /* bytes of function names of one file */
#define TABLE_NAME_MAX 4096u	     /* bytes of one name; longer ones are left out */
#define TABLE_BLOCK 32u
#define TABLE_SIZE_GUESSED 0x80000000u /* in size: the file did not say it */

struct table_entry {
	uint32_t addr;
	uint32_t size;
	uint32_t name;
};

struct table_reach {
	uint32_t block;
	uint32_t all;
};

struct table {
	uint64_t base;
	struct table_entry *entries;
	size_t n;
	struct table_reach *reach;
	char *names;
	size_t names_len;
	void *memory; /* what entries and names are parts of; NULL: each has its own */
};

/*
 * Read the symbols of a file, images[0], and of n - 1 further images that say more about it: its
 * .gnu_debugdata, its separate debug file. They are read as though nothing had been stripped: every
 * .symtab in order; where there is none, .gopclntab; then the file's .dynsym for what is still
 * without a name. Without .symtab and .gopclntab, the starts in .eh_frame_hdr follow, as functions
 * named "", or by what ends in them (tails.h). A source that cannot be read leaves the others in
 * place: ret is valid (perhaps empty) in every case, and the first error is returned.
 */
int table_read(struct table *ret, const struct elf_image *const *images, size_t n, const char *path,
	       struct err *err);

/*
 * The same of one file, with those functions of .gopclntab alone that hold one of these addresses,
 * which are sorted.
 */
#define TABLE_PARTS_MAX 256
struct table_parts {
	uint64_t vaddr[TABLE_PARTS_MAX];
	size_t n;
};
int table_read_parts(struct table *ret, const struct elf_image *img,
		     const struct table_parts *parts, const char *path, struct err *err);

/* Fill reach, from sorted entries. 0 or -ENOMEM. */
int table_make_reach(struct table *t);
void table_fini(struct table *t);

/* Index of the entry that holds vaddr, or -ENOENT. */
int64_t table_find(const struct table *t, uint64_t vaddr);
size_t table_memory(const struct table *t);

/*
 * All addresses of [*ret_start, *ret_end), which has vaddr, have the answer found (an index or
 * -ENOENT) that table_find gave for vaddr. False: no such piece is known.
 */
bool table_piece(const struct table *t, uint64_t vaddr, int64_t found, uint64_t *ret_start,
		 uint64_t *ret_end);

#endif
