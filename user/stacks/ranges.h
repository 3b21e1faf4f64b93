/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of unwind ranges (include/unwind_wire.h) in shared memory. Images that map the same files at the same
 * addresses, as those that were forked and have not called exec, share one list.
 *
 * A list that no image uses any more stays until range_lists_collect, when no CPU can be reading it. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_RANGES_H
#define ASCRIBE_STACKS_RANGES_H

#include "sampler/sampler.h"
#include "util/extent.h"
#include "util/list.h"

#define RANGE_LIST_BUCKETS 4096

struct range_list {
	struct range_list *next; /* of its bucket */
	uint64_t hash;
	uint32_t refs; /* images that it is published for */
	uint32_t first, n;
	uint32_t n_codes;
	struct list_node unused;
	void *codes[]; /* the files whose rows it leads to: the owner's */
};

struct range_lists {
	struct unwind_range *ranges; /* [UNWIND_RANGES], shared memory */
	struct extents free;
	struct range_list *bucket[RANGE_LIST_BUCKETS];
	struct list unused;
	size_t n; /* lists */
	void (*on_free)(void *ctx, struct range_list *l);
	void *ctx;
};

/* on_free is called for each list before it goes. 0 or -ENOMEM. */
int range_lists_init(struct range_lists *all, struct unwind_range *ranges, void (*on_free)(void *ctx, struct range_list *l), void *ctx);
/* Frees all lists, without on_free. */
void range_lists_fini(struct range_lists *all);

/*
 * The list of these n > 0 ranges and n_codes files, made unless there is one; it counts one more user. *ret_new: it was made.
 * 0, -ENOMEM, or -ENOSPC: there is no room for it among the ranges.
 */
int range_lists_get(struct range_lists *all, const struct unwind_range *r, uint32_t n, void *const *codes, uint32_t n_codes,
		    struct range_list **ret, bool *ret_new);
/* One user less. NULL is fine. */
void range_lists_put(struct range_lists *all, struct range_list *l);
/* Free the lists that nobody uses; waits until no CPU is reading them. */
void range_lists_collect(struct range_lists *all, struct sampler *s);

/* What struct proc_entry has of a list. */
static inline uint64_t range_list_word(const struct range_list *l)
{
	return l ? (uint64_t)l->n << 32 | l->first : 0;
}

#endif
