/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/cells.h"

#include "symbols/symbols.h"

#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 8192 /* of a demangled name; longer ones stay mangled */

/* Fibonacci hashing: consecutive indices spread over the table. */
static size_t slot_of(const struct cells *c, uint32_t index)
{
	return (size_t)((index * 0x9e3779b97f4a7c15ull) >> 32) & (c->n_slots - 1);
}

struct cell *cells_find(const struct cells *c, uint32_t index)
{
	if (!c->n_slots)
		return NULL;
	for (size_t i = slot_of(c, index); c->slots[i]; i = (i + 1) & (c->n_slots - 1))
		if (c->slots[i]->index == index)
			return c->slots[i];
	return NULL;
}

static void put(struct cells *c, struct cell *cell)
{
	size_t i = slot_of(c, cell->index);
	while (c->slots[i])
		i = (i + 1) & (c->n_slots - 1);
	c->slots[i] = cell;
}

static int grow(struct cells *c)
{
	struct cells bigger = { .n_slots = c->n_slots ? 2 * c->n_slots : 16,
				.n = c->n,
				.bytes = c->bytes };
	bigger.slots = calloc(bigger.n_slots, sizeof(struct cell *));
	if (!bigger.slots)
		return -1;
	for (size_t i = 0; i < c->n_slots; i++)
		if (c->slots[i])
			put(&bigger, c->slots[i]);
	bigger.bytes += (bigger.n_slots - c->n_slots) * sizeof(struct cell *);
	free(c->slots);
	*c = bigger;
	return 0;
}

/* Names come from foreign files and end on terminals. */
static void make_printable(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
}

struct cell *cells_add(struct cells *c, uint32_t index, const char *raw)
{
	char name[NAME_MAX_BYTES];
	if (4 * (c->n + 1) > 3 * c->n_slots && grow(c))
		return NULL;
	symbol_demangle(raw, name, sizeof(name));
	make_printable(name);
	size_t len = strlen(name) + 1;
	struct cell *cell = malloc(sizeof(*cell) + len);
	if (!cell)
		return NULL;
	cell->index = index;
	cell->tag = 0;
	memcpy(cell->name, name, len);
	put(c, cell);
	c->n++;
	c->bytes += sizeof(*cell) + len;
	return cell;
}

void cells_fini(struct cells *c)
{
	for (size_t i = 0; i < c->n_slots; i++)
		free(c->slots[i]);
	free(c->slots);
	*c = (struct cells){ 0 };
}
