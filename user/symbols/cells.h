/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept for the symbols that were looked up, and only for these: the demangled name and the
 * caller's tag. A hash table from a symbol's index to its cell; a cell never moves and lives until
 * cells_fini. Not thread-safe.
 */
#ifndef ASCRIBE_SYMBOLS_CELLS_H
#define ASCRIBE_SYMBOLS_CELLS_H

#include <stddef.h>
#include <stdint.h>

struct cell {
	uint32_t index;
	uint64_t tag;
	char name[];
};

struct cells {
	struct cell **slots;
	size_t n_slots; /* 0 or a power of two */
	size_t n;
	size_t bytes;
};

/* The cell of index, or NULL. */
struct cell *cells_find(const struct cells *c, uint32_t index);

/*
 * Make the cell of index, which must not have one; raw is demangled and made printable. NULL: no
 * memory.
 */
struct cell *cells_add(struct cells *c, uint32_t index, const char *raw);
void cells_fini(struct cells *c);

#endif
