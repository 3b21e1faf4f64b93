/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of one binary whose symbol was asked for already: so that its table, which may be a
 * hundred times as large, need not be read again for them. Each entry is a piece of code in which
 * every address has the same answer. Not thread-safe.
 */
#ifndef ASCRIBE_SYMBOLS_KNOWN_H
#define ASCRIBE_SYMBOLS_KNOWN_H

#include "symbols/cells.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one binary; what is asked for beyond it is looked up in the table each time */
#define KNOWN_MAX 16384u

struct known_piece {
	uint64_t start, end;
	uint64_t symbol, size; /* where it begins; its size, 0: the file did not say it */
	struct cell *cell;     /* NULL: no symbol is here */
};

struct known {
	struct known_piece *v; /* by start; none overlap */
	size_t n, cap;
};

const struct known_piece *known_find(const struct known *k, uint64_t vaddr);
/* A piece that was not found. Where there is no memory for it, it is not kept. */
void known_add(struct known *k, const struct known_piece *piece);
void known_fini(struct known *k);

#endif
