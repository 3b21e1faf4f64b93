/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups in the table of symbols, and `reach`, which keeps them short. */
#include "symbols/table.h"

#include "util/bisect.h"

#include <errno.h>
#include <stdlib.h>

static uint32_t entry_end(const struct table_entry *e)
{
	uint64_t end = (uint64_t)e->addr + (e->size & ~TABLE_SIZE_GUESSED);
	return end < UINT32_MAX ? (uint32_t)end : UINT32_MAX;
}

int table_make_reach(struct table *t)
{
	size_t blocks = (t->n + TABLE_BLOCK - 1) / TABLE_BLOCK;
	uint32_t all = 0;
	t->reach = calloc(blocks ? blocks : 1, sizeof(*t->reach));
	if (!t->reach)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		struct table_reach *b = &t->reach[i / TABLE_BLOCK];
		uint32_t end = entry_end(&t->entries[i]);
		if (end > b->block)
			b->block = end;
		if (end > all)
			all = end;
		b->all = all;
	}
	return 0;
}

/* The first entry behind addr. */
static size_t entry_behind(const struct table *t, uint32_t addr)
{
	return bisect(i, 0, t->n, t->entries[i].addr <= addr);
}

int64_t table_find(const struct table *t, uint64_t vaddr)
{
	if (!t->n || vaddr < t->base || vaddr - t->base >= UINT32_MAX)
		return -ENOENT;
	uint32_t addr = (uint32_t)(vaddr - t->base);
	for (size_t i = entry_behind(t, addr); i > 0;) {
		const struct table_reach *b = &t->reach[(i - 1) / TABLE_BLOCK];
		size_t begin = (i - 1) / TABLE_BLOCK * TABLE_BLOCK;
		if (b->all <= addr)
			return -ENOENT;
		for (; b->block > addr && i > begin; i--)
			if (entry_end(&t->entries[i - 1]) > addr)
				return (int64_t)(i - 1);
		i = begin;
	}
	return -ENOENT;
}

/*
 * Up to the next entry the same ones begin before an address. So what is in the last of them stays
 * in it up to its end, and what is in none of them is in none further on.
 */
bool table_piece(const struct table *t, uint64_t vaddr, int64_t found, uint64_t *ret_start,
		 uint64_t *ret_end)
{
	if (!t->n || vaddr < t->base || vaddr - t->base >= UINT32_MAX)
		return false;
	uint32_t addr = (uint32_t)(vaddr - t->base);
	size_t next = entry_behind(t, addr);
	uint32_t start = addr, end = next < t->n ? t->entries[next].addr : UINT32_MAX;
	if (found >= 0) {
		if ((size_t)found + 1 != next)
			return false;
		start = t->entries[found].addr;
		uint32_t last = entry_end(&t->entries[found]);
		end = last < end ? last : end;
	}
	*ret_start = t->base + start;
	*ret_end = t->base + end;
	return true;
}

size_t table_memory(const struct table *t)
{
	return t->n * sizeof(*t->entries) +
	       (t->n + TABLE_BLOCK - 1) / TABLE_BLOCK * sizeof(*t->reach) + t->names_len;
}
