/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building an unwind table: pieces of code with their rules, in ascending order. For user/unwind
 * alone.
 */
#ifndef ASCRIBE_UNWIND_TABLE_H
#define ASCRIBE_UNWIND_TABLE_H

#include "unwind/unwind.h"
#include "util/idhash.h"

#include <stdbool.h>

#define TABLE_RECENT 256 /* rules that are found without their hash in the table */

struct table_builder {
	struct unwind_table *t;
	struct idhash rules;
	uint32_t recent[TABLE_RECENT]; /* ids by a cheap hash; 0: none */
	uint64_t first, end;	       /* the text: [first, end) */
	uint64_t at;		       /* up to here everything has its rule */
	uint32_t page;		       /* the page that rows are added to */
	uint32_t rule;		       /* what holds at `at` */
	uint32_t padding; /* gaps of so many bytes are not told from what stands before them */
};

/*
 * Text is the executable segments of the image. Up to `padding` bytes between two pieces have the
 * rule of the first one: rows to say that nothing is there would be one in five. 0, -ENOENT when
 * there is no text, -E2BIG.
 */
int table_begin(struct table_builder *b, const struct elf_image *img, uint32_t padding);

/*
 * This rule (cfa UNWIND_CFA_NONE: no rule) holds in [start, end). What is before an earlier piece's
 * end is left out.
 */
int table_add(struct table_builder *b, uint64_t start, uint64_t end,
	      const struct unwind_rule *rule);

/* No more pieces. The table is the caller's. */
int table_end(struct table_builder *b, struct unwind_table **ret);
void table_abort(struct table_builder *b);

#endif
