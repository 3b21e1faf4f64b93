/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/table.h"

#include "util/array.h"
#include "util/bisect.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_SIZE (1u << UNWIND_PAGE_BITS)

static bool same_rule(const void *ctx, uint32_t id, const void *key)
{
	const struct unwind_table *t = ctx;
	return !memcmp(&t->rules[id], key, sizeof(t->rules[0]));
}

/*
 * The place of a rule in `recent`. Files repeat some hundred rules; only speed depends on
 * collisions.
 */
static uint32_t *recent_slot(struct table_builder *b, const struct unwind_rule *rule)
{
	uint64_t words[2];
	_Static_assert(sizeof(words) == sizeof(*rule), "two words");
	memcpy(words, rule, sizeof(words));
	return &b->recent[((words[0] ^ words[1] * 31) * 0x9e3779b97f4a7c15ull >> 32) %
			  TABLE_RECENT];
}

static int rule_id(struct table_builder *b, const struct unwind_rule *rule, uint32_t *ret)
{
	struct unwind_table *t = b->t;
	if (rule->cfa == UNWIND_CFA_NONE) {
		*ret = 0;
		return 0;
	}
	uint32_t *recent = recent_slot(b, rule);
	if (*recent && same_rule(t, *recent, rule)) {
		*ret = *recent;
		return 0;
	}
	uint32_t hash = idhash_hash(&b->rules, rule, sizeof(*rule));
	uint32_t id = idhash_find(&b->rules, hash, same_rule, t, rule);
	if (id == IDHASH_NONE) {
		if (t->n_rules >= UNWIND_FILE_RULES_MAX)
			return -E2BIG;
		int rc = ARRAY_RESERVE(t->rules, t->cap_rules, t->n_rules + 1);
		rc = rc ? rc : idhash_reserve(&b->rules);
		if (rc)
			return rc;
		id = (uint32_t)t->n_rules++;
		t->rules[id] = *rule;
		idhash_put(&b->rules, hash, id);
	}
	*recent = id;
	*ret = id;
	return 0;
}

int table_begin(struct table_builder *b, const struct elf_image *img, uint32_t padding)
{
	uint64_t first = UINT64_MAX, end = 0;
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct elf_segment *s = &img->loads[i];
		if (!(s->flags & PF_X) || !s->memsz)
			continue;
		first = s->vaddr < first ? s->vaddr : first;
		end = s->vaddr + s->memsz > end ? s->vaddr + s->memsz : end;
	}
	*b = (struct table_builder){ .first = first, .end = end, .at = first, .padding = padding };
	if (first >= end)
		return -ENOENT;
	uint64_t pages = ((end - 1) >> UNWIND_PAGE_BITS) - (first >> UNWIND_PAGE_BITS) + 1;
	if (pages > UNWIND_FILE_PAGES_MAX)
		return -E2BIG;
	b->t = calloc(1, sizeof(*b->t));
	if (!b->t)
		return -ENOMEM;
	b->t->first_page = first >> UNWIND_PAGE_BITS;
	b->t->n_pages = (uint32_t)pages;
	b->t->page_at = calloc(pages + 1, sizeof(*b->t->page_at));
	if (!b->t->page_at || ARRAY_RESERVE(b->t->rules, b->t->cap_rules, 1)) {
		table_abort(b);
		return -ENOMEM;
	}
	b->t->rules[0] = (struct unwind_rule){ 0 };
	b->t->n_rules = 1;
	return 0;
}

static int push(struct table_builder *b, uint32_t low, uint32_t rule)
{
	struct unwind_table *t = b->t;
	if (t->n_rows >= UNWIND_ROWS_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(t->rows, t->cap_rows, t->n_rows + 1);
	if (!rc)
		t->rows[t->n_rows++] = low << UNWIND_RULE_BITS | rule;
	return rc;
}

/* Go on to this page; those in between, and its beginning, have the rule that holds now. */
static int turn_to(struct table_builder *b, uint32_t page)
{
	int rc = 0;
	while (!rc && b->page < page) {
		b->t->page_at[++b->page] = (uint32_t)b->t->n_rows;
		if (b->rule)
			rc = push(b, 0, b->rule);
	}
	return rc;
}

/* From addr on this rule holds. */
static int set_rule(struct table_builder *b, uint64_t addr, uint32_t rule)
{
	struct unwind_table *t = b->t;
	uint32_t low = addr & (PAGE_SIZE - 1);
	int rc = turn_to(b, (uint32_t)((addr >> UNWIND_PAGE_BITS) - t->first_page));
	if (rc || rule == b->rule)
		return rc;
	b->rule = rule;
	uint32_t begin = t->page_at[b->page];
	if (t->n_rows > begin && t->rows[t->n_rows - 1] >> UNWIND_RULE_BITS == low) {
		/* Only the page's beginning */
		t->rows[t->n_rows - 1] = low << UNWIND_RULE_BITS | rule;
		return 0;
	}
	return push(b, low, rule);
}

int table_add(struct table_builder *b, uint64_t start, uint64_t end, const struct unwind_rule *rule)
{
	uint32_t id;
	if (start < b->at)
		start = b->at;
	if (end > b->end)
		end = b->end;
	if (start >= end)
		return 0;
	int rc = rule_id(b, rule, &id);
	if (!rc && b->rule && start - b->at > b->padding)
		rc = set_rule(b, b->at, 0);
	rc = rc ? rc : set_rule(b, start, id);
	b->at = end;
	return rc;
}

int table_end(struct table_builder *b, struct unwind_table **ret)
{
	struct unwind_table *t = b->t;
	int rc = b->at < b->end ? set_rule(b, b->at, 0) : 0;
	rc = rc ? rc : turn_to(b, t->n_pages - 1);
	if (rc) {
		table_abort(b);
		return rc;
	}
	t->page_at[t->n_pages] = (uint32_t)t->n_rows;
	idhash_fini(&b->rules);
	uint32_t *rows = realloc(t->rows, (t->n_rows ? t->n_rows : 1) * sizeof(*rows));
	if (rows) {
		t->rows = rows;
		t->cap_rows = t->n_rows;
	}
	*ret = t;
	b->t = NULL;
	return 0;
}

void table_abort(struct table_builder *b)
{
	idhash_fini(&b->rules);
	unwind_table_free(b->t);
	b->t = NULL;
}

/* ---- the finished table ---- */

void unwind_table_free(struct unwind_table *t)
{
	if (!t)
		return;
	free(t->page_at);
	free(t->rows);
	free(t->rules);
	free(t);
}

const struct unwind_rule *unwind_table_find(const struct unwind_table *t, uint64_t vaddr)
{
	uint64_t page = (vaddr >> UNWIND_PAGE_BITS) - t->first_page;
	if (page >= t->n_pages)
		return NULL;
	uint32_t first = t->page_at[page], end = t->page_at[page + 1];
	uint32_t key = (uint32_t)(vaddr & (PAGE_SIZE - 1)) << UNWIND_RULE_BITS | UNWIND_RULE_MASK;
	if (end - first > UNWIND_PAGE_ROWS_MAX)
		return NULL;
	size_t behind = bisect(i, first, end, t->rows[i] <= key);
	uint32_t rule = behind > first ? t->rows[behind - 1] & UNWIND_RULE_MASK : 0;
	return rule ? &t->rules[rule] : NULL;
}

size_t unwind_table_memory(const struct unwind_table *t)
{
	return sizeof(*t) + (t->n_pages + 1) * sizeof(*t->page_at) +
	       t->cap_rows * sizeof(*t->rows) + t->cap_rules * sizeof(*t->rules);
}
