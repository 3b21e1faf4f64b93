/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwind tables of many files in the arrays of include/unwind_wire.h. Pages and rules are of
 * fixed size, rows are in shards that are made when they are needed, up to a budget. Rules are kept
 * once for all files; when the last of them is given out, those that no file uses any more are used
 * again.
 *
 * Users share blocks of rows and rules (util/quota.h).
 *
 * Rows are given out in blocks of 1 << UNWIND_BLOCK_BITS, so that files that come and go leave no
 * gaps. The lowest go first, so that shards that are not needed any more can be given back. Not
 * thread-safe.
 */
#ifndef ASCRIBE_UNWIND_POOL_H
#define ASCRIBE_UNWIND_POOL_H

#include "unwind/unwind.h"

#include <stdbool.h>

struct unwind_pool;

struct unwind_pool_config {
	struct unwind_page *pages; /* [UNWIND_PAGES], borrowed */
	struct unwind_rule *rules; /* [UNWIND_RULES], borrowed */
	size_t rows_bytes_max;	   /* budget of the rows; at most 64 MiB */
	uint32_t rules_max;	   /* 0: UNWIND_RULES */
	/* Make shard number `shard`: its rows stay until it is dropped or the pool is freed. */
	int (*add_shard)(void *ctx, unsigned shard, uint32_t **ret_rows);
	/*
	 * Where it is, during one call of the pool; NULL: there is no memory for that. NULL itself:
	 * where add_shard said.
	 */
	uint32_t *(*map_shard)(void *ctx, unsigned shard);
	int (*drop_shard)(void *ctx, unsigned shard); /* NULL: they are kept */
	void *ctx;
};

/* One file's part of it. All zero: none. */
struct unwind_code {
	uint64_t first_page; /* vaddr >> 12 of the first page */
	uint32_t page, n_pages;
	uint32_t *blocks;
	uint32_t n_blocks;
	uint32_t n_rows;
	uint32_t *rules; /* [n_rules]: those that it uses; [0] is no rule */
	uint32_t n_rules;
	uint32_t user; /* who is charged */
};

int unwind_pool_new(struct unwind_pool **ret, const struct unwind_pool_config *cfg);
void unwind_pool_free(struct unwind_pool *p);

/* Make shards for so many bytes of rows now. As unwind_pool_add. */
int unwind_pool_reserve(struct unwind_pool *p, size_t rows_bytes);

/*
 * Charge a file to a user. -ENOSPC: the budget is spent, or the pages or rules are. -EDQUOT: the
 * same for this user. Room can be made by removing other files. -E2BIG: the file alone is more than
 * the budget. -ENOMEM.
 */
int unwind_pool_add(struct unwind_pool *p, const struct unwind_table *t, uint32_t user,
		    struct unwind_code *ret);

/* Whether there is room for this file in the shards that were made. */
bool unwind_pool_fits(const struct unwind_pool *p, const struct unwind_table *t);
/* Bytes of the shards that were made. */
size_t unwind_pool_made(const struct unwind_pool *p);
/* Give back the last shard, if it is empty and more than so much was made. True: it was. */
bool unwind_pool_trim(struct unwind_pool *p, size_t keep_bytes);

/* Nobody may be looking any more. */
void unwind_pool_remove(struct unwind_pool *p, struct unwind_code *c);

/* The memory of a part alone, when the pool is gone or goes. */
void unwind_code_fini(struct unwind_code *c);

/* What the BPF program finds: the rule at vaddr, or NULL. */
const struct unwind_rule *unwind_pool_find(const struct unwind_pool *p, const struct unwind_code *c,
					   uint64_t vaddr);

struct unwind_pool_stats {
	size_t rows_bytes;     /* in blocks that are taken */
	size_t made_bytes;     /* of the shards that were made */
	uint32_t rules, pages; /* in use */
};
void unwind_pool_stats(const struct unwind_pool *p, struct unwind_pool_stats *ret);

#endif
