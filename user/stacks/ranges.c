/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int range_lists_init(struct range_lists *all, struct unwind_range *ranges,
		     void (*on_free)(void *ctx, struct range_list *l), void *ctx)
{
	*all = (struct range_lists){
		.ranges = ranges, .on_free = on_free, .ctx = ctx, .quota.max = UNWIND_RANGES
	};
	return extents_init(&all->free, UNWIND_RANGES);
}

void range_lists_fini(struct range_lists *all)
{
	for (size_t b = 0; b < RANGE_LIST_BUCKETS; b++) {
		for (struct range_list *l = all->bucket[b], *next; l; l = next) {
			next = l->next;
			free(l);
		}
	}
	extents_fini(&all->free);
	*all = (struct range_lists){ 0 };
}

static bool is_list(const struct range_lists *all, const struct range_list *l, uint64_t hash,
		    const struct unwind_range *r, uint32_t n, void *const *codes, uint32_t n_codes)
{
	return l->hash == hash && l->n == n && l->n_codes == n_codes &&
	       !memcmp(all->ranges + l->first, r, n * sizeof(*r)) &&
	       !memcmp(l->codes, codes, n_codes * sizeof(*codes));
}

int range_lists_get(struct range_lists *all, const struct unwind_range *r, uint32_t n,
		    void *const *codes, uint32_t n_codes, uint32_t user, struct range_list **ret,
		    bool *ret_new)
{
	uint64_t hash = XXH3_64bits(r, n * sizeof(*r));
	struct range_list **b = &all->bucket[hash % RANGE_LIST_BUCKETS], *l = *b;
	while (l && !is_list(all, l, hash, r, n, codes, n_codes))
		l = l->next;
	*ret_new = !l;
	if (!l) {
		uint32_t first;
		if (quota_is_greedy(&all->quota, user, n))
			return -EDQUOT;
		if (extents_take(&all->free, n, &first))
			return -ENOSPC;
		l = malloc(sizeof(*l) + n_codes * sizeof(*codes));
		if (!l) {
			extents_give(&all->free, first, n);
			return -ENOMEM;
		}
		*l = (struct range_list){ .next = *b,
					  .hash = hash,
					  .first = first,
					  .n = n,
					  .number = all->number++ % UNWIND_LIST_NUMBERS,
					  .n_codes = n_codes,
					  .user = user };
		quota_take(&all->quota, user, n);
		memcpy(l->codes, codes, n_codes * sizeof(*codes));
		memcpy(all->ranges + first, r, n * sizeof(*r));
		*b = l;
		all->n++;
	}
	list_remove(&all->unused, &l->unused);
	l->refs++;
	*ret = l;
	return 0;
}

void range_lists_put(struct range_lists *all, struct range_list *l)
{
	if (l && !--l->refs)
		list_append(&all->unused, &l->unused);
}

void range_lists_collect(struct range_lists *all, struct sampler *s)
{
	if (all->unused.n)
		sampler_pass(s);
	for (struct list_node *n; (n = all->unused.first);) {
		struct range_list *l = LIST_ENTRY(n, struct range_list, unused),
				  **at = &all->bucket[l->hash % RANGE_LIST_BUCKETS];
		while (*at != l)
			at = &(*at)->next;
		*at = l->next;
		list_remove(&all->unused, n);
		extents_give(&all->free, l->first, l->n);
		quota_give(&all->quota, l->user, l->n);
		all->on_free(all->ctx, l);
		free(l);
		all->n--;
	}
}
