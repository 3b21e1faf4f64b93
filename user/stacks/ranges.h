/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of unwind ranges (include/unwind_wire.h) in shared memory. Images that map the same files
 * at the same addresses share one list, for example forked children before their exec.
 *
 * An unused list stays until range_lists_collect, when no CPU can be reading it. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_RANGES_H
#define ASCRIBE_STACKS_RANGES_H

#include "sampler/sampler.h"
#include "util/extent.h"
#include "util/list.h"
#include "util/quota.h"

#define RANGE_LIST_BUCKETS 4096

struct range_list {
	struct range_list *next; /* in its bucket */
	uint64_t hash;
	uint32_t refs; /* images with this list */
	uint32_t first, n;
	uint32_t number; /* of UNWIND_LIST */
	uint32_t n_codes;
	uint32_t user; /* who is charged */
	struct list_node unused;
	void *codes[]; /* the files of its rows; belong to the owner */
};

struct range_lists {
	struct unwind_range *ranges; /* [UNWIND_RANGES], shared memory */
	struct extents free;
	struct quota quota; /* of ranges */
	struct range_list *bucket[RANGE_LIST_BUCKETS];
	struct list unused;
	size_t n;	 /* lists */
	uint32_t number; /* of the last one that was made */
	void (*on_free)(void *ctx, struct range_list *l);
	void *ctx;
};

/* on_free is called for each list before it is freed. 0 or -ENOMEM. */
int range_lists_init(struct range_lists *all, struct unwind_range *ranges,
		     void (*on_free)(void *ctx, struct range_list *l), void *ctx);
/* Free all lists, without on_free. */
void range_lists_fini(struct range_lists *all);

/*
 * Find or create the list of these n > 0 ranges and n_codes files, and add a reference. *ret_new:
 * it was created, and is charged to this user. 0, -ENOMEM, -ENOSPC: no room among the ranges, or
 * -EDQUOT: no room for this user.
 */
int range_lists_get(struct range_lists *all, const struct unwind_range *r, uint32_t n,
		    void *const *codes, uint32_t n_codes, uint32_t user, struct range_list **ret,
		    bool *ret_new);
/* Drop a reference. NULL is allowed. */
void range_lists_put(struct range_lists *all, struct range_list *l);
/* Free the lists without references, after no CPU can be reading them. */
void range_lists_collect(struct range_lists *all, struct sampler *s);

/* Store a list in struct proc_entry, and 1 + the index of V8's layout or 0. */
static inline uint64_t range_list_word(const struct range_list *l, uint32_t v8)
{
	return l ? UNWIND_LIST(l->first, l->n, v8, l->number) : 0;
}

#endif
