/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/pool.h"

#include "util/bisect.h"
#include "util/extent.h"
#include "util/idhash.h"
#include "util/quota.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_ROWS (1u << UNWIND_BLOCK_BITS)
#define SHARD_ROWS (1u << UNWIND_SHARD_BITS)
#define SHARD_BLOCKS (SHARD_ROWS / BLOCK_ROWS)
_Static_assert(SHARD_BLOCKS % 64 == 0, "whole words of bits");

struct unwind_pool {
	struct unwind_pool_config cfg;
	uint32_t *shards[UNWIND_SHARDS];
	unsigned n_shards, shards_max;
	struct extents pages;
	uint64_t free_blocks[UNWIND_SHARDS][SHARD_BLOCKS / 64]; /* a bit for each */
	uint32_t n_free;
	struct idhash rules;
	uint32_t n_rules, rules_max; /* [0] is no rule; n_rules have been used at some time */
	uint32_t *rule_users;	     /* [rules_max]: files with rows of it */
	uint32_t *free_rules;	     /* a stack, filled when n_rules is rules_max */
	uint32_t n_free_rules;
	uint32_t *rule_owner; /* [rules_max]: the user who is charged */
	struct quota block_quota, rule_quota;
};

int unwind_pool_new(struct unwind_pool **ret, const struct unwind_pool_config *cfg)
{
	struct unwind_pool *p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->cfg = *cfg;
	size_t shards = cfg->rows_bytes_max / (SHARD_ROWS * sizeof(uint32_t));
	p->shards_max = shards < UNWIND_SHARDS ? (unsigned)shards : UNWIND_SHARDS;
	p->n_rules = 1;
	p->rules_max = cfg->rules_max ? cfg->rules_max : UNWIND_RULES;
	p->rule_users = calloc(p->rules_max, sizeof(*p->rule_users));
	p->free_rules = malloc(p->rules_max * sizeof(*p->free_rules));
	p->rule_owner = malloc(p->rules_max * sizeof(*p->rule_owner));
	p->block_quota.max = p->shards_max * SHARD_BLOCKS;
	p->rule_quota.max = p->rules_max;
	if (!p->rule_users || !p->free_rules || !p->rule_owner ||
	    extents_init(&p->pages, UNWIND_PAGES)) {
		unwind_pool_free(p);
		return -ENOMEM;
	}
	*ret = p;
	return 0;
}

void unwind_pool_free(struct unwind_pool *p)
{
	if (!p)
		return;
	extents_fini(&p->pages);
	idhash_fini(&p->rules);
	free(p->rule_owner);
	free(p->free_rules);
	free(p->rule_users);
	free(p);
}

/* ---- blocks ---- */

static void give_block(struct unwind_pool *p, uint32_t block)
{
	p->free_blocks[block / SHARD_BLOCKS][block % SHARD_BLOCKS / 64] |= 1ull << block % 64;
	p->n_free++;
}

/* The lowest one, so that the last shards get empty; there is one. */
static uint32_t take_block(struct unwind_pool *p)
{
	uint32_t i = 0;
	uint64_t *words = p->free_blocks[0];
	while (!words[i])
		i++;
	uint32_t bit = (uint32_t)__builtin_ctzll(words[i]);
	words[i] &= words[i] - 1;
	p->n_free--;
	return i * 64 + bit;
}

/* At least n blocks free. */
static int need_blocks(struct unwind_pool *p, uint32_t n)
{
	while (p->n_free < n) {
		if (p->n_shards >= p->shards_max)
			return -ENOSPC;
		int rc = p->cfg.add_shard(p->cfg.ctx, p->n_shards, &p->shards[p->n_shards]);
		if (rc)
			return rc;
		for (uint32_t b = 0; b < SHARD_BLOCKS; b++)
			give_block(p, p->n_shards * SHARD_BLOCKS + b);
		p->n_shards++;
	}
	return 0;
}

static bool is_empty(const struct unwind_pool *p, unsigned shard)
{
	for (unsigned i = 0; i < SHARD_BLOCKS / 64; i++)
		if (p->free_blocks[shard][i] != UINT64_MAX)
			return false;
	return true;
}

bool unwind_pool_trim(struct unwind_pool *p, size_t keep_bytes)
{
	if (!p->cfg.drop_shard || unwind_pool_made(p) <= keep_bytes ||
	    !is_empty(p, p->n_shards - 1))
		return false;
	if (p->cfg.drop_shard(p->cfg.ctx, p->n_shards - 1))
		return false;
	p->n_shards--;
	memset(p->free_blocks[p->n_shards], 0, sizeof(p->free_blocks[0]));
	p->shards[p->n_shards] = NULL;
	p->n_free -= SHARD_BLOCKS;
	return true;
}

size_t unwind_pool_made(const struct unwind_pool *p)
{
	return (size_t)p->n_shards * SHARD_ROWS * sizeof(uint32_t);
}

int unwind_pool_reserve(struct unwind_pool *p, size_t rows_bytes)
{
	return need_blocks(p, (uint32_t)(rows_bytes / (BLOCK_ROWS * sizeof(uint32_t))));
}

/* NULL: no memory. */
static uint32_t *shard_at(const struct unwind_pool *p, uint32_t shard)
{
	return p->cfg.map_shard ? p->cfg.map_shard(p->cfg.ctx, shard) : p->shards[shard];
}

static uint32_t *row_at(const struct unwind_pool *p, uint32_t row)
{
	uint32_t *rows = shard_at(p, row >> UNWIND_SHARD_BITS);
	return rows ? &rows[row & (SHARD_ROWS - 1)] : NULL;
}

static uint32_t page_rows(const struct unwind_table *t, uint32_t page)
{
	uint32_t n = t->page_at[page + 1] - t->page_at[page];
	return n <= UNWIND_PAGE_ROWS_MAX ? n : 0;
}

/* A page's rows lie in one block. */
static uint32_t count_blocks(const struct unwind_table *t)
{
	uint32_t blocks = 0, left = 0;
	for (uint32_t i = 0; i < t->n_pages; i++) {
		uint32_t n = page_rows(t, i);
		if (n > left) {
			blocks++;
			left = BLOCK_ROWS;
		}
		left -= n;
	}
	return blocks;
}

bool unwind_pool_fits(const struct unwind_pool *p, const struct unwind_table *t)
{
	return count_blocks(t) <= p->n_free;
}

/* ---- rules ---- */

static bool same_rule(const void *ctx, uint32_t id, const void *key)
{
	const struct unwind_rule *rules = ctx;
	return !memcmp(&rules[id], key, sizeof(rules[id]));
}

/* Rules that no file uses any more may be used again. */
static void reclaim_rules(struct unwind_pool *p)
{
	idhash_clear(&p->rules);
	p->n_free_rules = 0;
	p->rule_quota = (struct quota){ .max = p->rules_max };
	for (uint32_t id = p->n_rules - 1; id > 0; id--) {
		const struct unwind_rule *r = &p->cfg.rules[id];
		if (p->rule_users[id]) {
			idhash_put(&p->rules, idhash_hash(&p->rules, r, sizeof(*r)), id);
			quota_take(&p->rule_quota, p->rule_owner[id], 1);
		} else {
			p->free_rules[p->n_free_rules++] = id;
		}
	}
}

static int new_rule(struct unwind_pool *p, const struct unwind_rule *r, uint32_t hash,
		    uint32_t user, uint32_t *ret)
{
	bool greedy = quota_is_greedy(&p->rule_quota, user, 1);
	if (greedy || (p->n_rules == p->rules_max && !p->n_free_rules))
		reclaim_rules(p);
	if (greedy && quota_is_greedy(&p->rule_quota, user, 1))
		return -EDQUOT;
	if (p->n_free_rules)
		*ret = p->free_rules[--p->n_free_rules];
	else if (p->n_rules < p->rules_max)
		*ret = p->n_rules++;
	else
		return -ENOSPC;
	quota_take(&p->rule_quota, user, 1);
	p->rule_owner[*ret] = user;
	p->cfg.rules[*ret] = *r;
	idhash_put(&p->rules, hash, *ret);
	return 0;
}

/*
 * The number of this rule for all files, which is used once more from now on. As unwind_pool_add.
 */
static int rule_id(struct unwind_pool *p, const struct unwind_rule *r, uint32_t user, uint32_t *ret)
{
	int rc = idhash_reserve(&p->rules);
	if (rc)
		return rc;
	uint32_t hash = idhash_hash(&p->rules, r, sizeof(*r));
	uint32_t id = idhash_find(&p->rules, hash, same_rule, p->cfg.rules, r);
	if (id == IDHASH_NONE)
		rc = new_rule(p, r, hash, user, &id);
	if (!rc) {
		p->rule_users[id]++;
		*ret = id;
	}
	return rc;
}

static void drop_rules(struct unwind_pool *p, const uint32_t *ids, size_t n)
{
	for (size_t i = 1; i < n; i++)
		p->rule_users[ids[i]]--;
}

/* On failure nothing is held. */
static int map_rules(struct unwind_pool *p, const struct unwind_table *t, uint32_t user,
		     uint32_t *ids)
{
	ids[0] = 0;
	for (size_t i = 1; i < t->n_rules; i++) {
		int rc = rule_id(p, &t->rules[i], user, &ids[i]);
		if (rc) {
			drop_rules(p, ids, i);
			return rc;
		}
	}
	return 0;
}

/* ---- files ---- */

static int copy_rows(struct unwind_pool *p, const struct unwind_table *t, const uint32_t *ids,
		     struct unwind_code *c)
{
	uint32_t block = 0, left = 0, at = 0;
	for (uint32_t i = 0; i < t->n_pages; i++) {
		uint32_t n = page_rows(t, i);
		const uint32_t *from = t->rows + t->page_at[i];
		if (n > left) {
			at = c->blocks[block++] * BLOCK_ROWS;
			left = BLOCK_ROWS;
		}
		uint32_t *to = n ? row_at(p, at) : NULL;
		if (n && !to)
			return -ENOMEM;
		for (uint32_t k = 0; k < n; k++) {
			uint32_t rule = ids[from[k] & UNWIND_RULE_MASK];
			to[k] = (from[k] & ~UNWIND_RULE_MASK) | rule;
		}
		p->cfg.pages[c->page + i] = (struct unwind_page){ at, n };
		at += n;
		left -= n;
	}
	return 0;
}

int unwind_pool_add(struct unwind_pool *p, const struct unwind_table *t, uint32_t user,
		    struct unwind_code *ret)
{
	struct unwind_code c = { .first_page = t->first_page,
				 .n_pages = t->n_pages,
				 .n_blocks = count_blocks(t),
				 .n_rows = (uint32_t)t->n_rows,
				 .n_rules = (uint32_t)t->n_rules,
				 .user = user };
	uint32_t *ids = malloc(t->n_rules * sizeof(*ids));
	c.blocks = malloc((c.n_blocks ? c.n_blocks : 1) * sizeof(*c.blocks));
	int rc = ids && c.blocks ? 0 : -ENOMEM;
	if (!rc && c.n_blocks > p->shards_max * SHARD_BLOCKS)
		rc = -E2BIG;
	if (!rc && quota_is_greedy(&p->block_quota, user, c.n_blocks))
		rc = -EDQUOT;
	rc = rc ? rc : need_blocks(p, c.n_blocks);
	rc = rc ? rc : extents_take(&p->pages, c.n_pages, &c.page);
	if (!rc && (rc = map_rules(p, t, user, ids)))
		extents_give(&p->pages, c.page, c.n_pages);
	if (!rc) {
		for (uint32_t i = 0; i < c.n_blocks; i++)
			c.blocks[i] = take_block(p);
		quota_take(&p->block_quota, user, c.n_blocks);
		c.rules = ids;
		rc = copy_rows(p, t, ids, &c);
		if (rc)
			unwind_pool_remove(p, &c);
		else
			*ret = c;
	} else {
		free(c.blocks);
		free(ids);
	}
	return rc;
}

void unwind_code_fini(struct unwind_code *c)
{
	free(c->blocks);
	free(c->rules);
}

void unwind_pool_remove(struct unwind_pool *p, struct unwind_code *c)
{
	for (uint32_t i = 0; i < c->n_blocks; i++)
		give_block(p, c->blocks[i]);
	quota_give(&p->block_quota, c->user, c->n_blocks);
	if (c->n_pages)
		extents_give(&p->pages, c->page, c->n_pages);
	if (c->rules)
		drop_rules(p, c->rules, c->n_rules);
	unwind_code_fini(c);
	*c = (struct unwind_code){ 0 };
}

const struct unwind_rule *unwind_pool_find(const struct unwind_pool *p, const struct unwind_code *c,
					   uint64_t vaddr)
{
	uint64_t page = (vaddr >> UNWIND_PAGE_BITS) - c->first_page;
	uint32_t key = (uint32_t)(vaddr & ((1u << UNWIND_PAGE_BITS) - 1)) << UNWIND_RULE_BITS |
		       UNWIND_RULE_MASK;
	if (page >= c->n_pages)
		return NULL;
	struct unwind_page at = p->cfg.pages[c->page + page];
	const uint32_t *rows = row_at(p, at.first);
	size_t behind = rows ? bisect(i, 0, at.n, rows[i] <= key) : 0;
	uint32_t found = behind ? rows[behind - 1] : 0;
	return found & UNWIND_RULE_MASK ? &p->cfg.rules[found & UNWIND_RULE_MASK] : NULL;
}

void unwind_pool_stats(const struct unwind_pool *p, struct unwind_pool_stats *ret)
{
	*ret = (struct unwind_pool_stats){
		.rows_bytes = (size_t)(p->n_shards * SHARD_BLOCKS - p->n_free) * BLOCK_ROWS *
			      sizeof(uint32_t),
		.made_bytes = unwind_pool_made(p),
		.pages = p->pages.used,
	};
	for (uint32_t i = 1; i < p->n_rules; i++)
		ret->rules += p->rule_users[i] != 0;
}
