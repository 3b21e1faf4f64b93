/* SPDX-License-Identifier: Apache-2.0 */
/* A parent in the making: merge.c sums its children, project.c makes its projections. */
#ifndef ASCRIBE_STORE_WRITE_MERGE_H
#define ASCRIBE_STORE_WRITE_MERGE_H

#include "store/block/projection.h"
#include "store/block/set_sums.h"
#include "store/block/top.h"
#include "store/dict/translate.h"
#include "store/write/writer_int.h"
#include "store/writer.h"

/* A segment that children are in. Segments come and go between two steps: it is known by its
 * number. */
struct source {
	uint32_t serial;
	struct translation to; /* into the parent's dictionaries; `from` is good for one step */
	struct store_event *events; /* [n_events], a copy: what readers of its rows may keep */
	uint32_t n_events;
};

/* A label key of the parent's rows. */
struct merge_key {
	char *key;
	uint32_t len;
	uint32_t windows;     /* in whose tables it is */
	bool unprojected;     /* a child that has it cannot tell its values' groups */
	struct block_key out; /* its list of values, when it is projected */
};

struct merge_child {
	struct block_ref ref;
	uint32_t serial; /* of its segment */
};

struct merge {
	struct store_writer *w;
	uint8_t level;
	struct merge_child *children;
	size_t n_children, at; /* those before `at` have been summed */
	struct source **sources;
	size_t n_sources, sources_cap;
	struct totals totals;
	struct rows_sum *
		*leaves; /* [n_events] of the parent, each [leaves_cap[event]] by its leaf */
	size_t *leaves_cap, n_events;
	struct set_sums sums;
	struct top top;
	struct merge_key *keys;
	size_t n_keys, keys_cap;
	bool more_keys; /* than a block may list */
	bool no_labels; /* a child has none */
	bool limited;	/* the number of groups was looked at */
	struct project *project;
	bool projected;		  /* that is done */
	bool pruned, has_pruned;  /* its dictionaries, or those of a child, have only the largest
				     stacks */
	struct buf lists, groups; /* its columns */
	struct err *err;
};

/* Begin with these children, which are of the level below; the refs are copied. */
int merge_begin(struct merge **ret, struct store_writer *w, uint8_t level,
		const struct block_ref *v, size_t n, struct err *err);
/* Go on for about *budget rows, which are taken off it. *ret_done: nothing is left but to finish.
 */
int merge_step(struct merge *m, size_t *budget, bool *ret_done, struct err *err);
/* Write the block. After a failure there is nothing to be done with m but to free it. */
int merge_finish(struct merge *m, struct block_ref *ret, struct err *err);
bool merge_has(const struct merge *m, const struct block_ref *r);
void merge_free(struct merge *m);

/* ---- its parts ---- */

/* Add what a child has: merge_child.c. */
int merge_add_child(struct merge *m, struct merge_child *c);
/* Count a value of a key that the sums leave out, for the list of the most frequent ones. */
int merge_add_to_top(void *ctx, const struct label *l, uint32_t event, uint64_t samples);
int merge_leaf_sum(struct merge *m, uint32_t event, uint32_t leaf, struct rows_sum **ret);
/* Go on with the largest stacks in new dictionaries; what is below them becomes (other). */
int merge_prune(struct merge *m, size_t most);

/* The parent's dictionaries. */
struct dicts *merge_dicts(const struct merge *m);
/* Find the segment of a child, for this step, and set c->ref.segment. -ESTALE: it was cut. */
int merge_source(struct merge *m, struct merge_child *c, struct source **ret);
/* NULL: there are too many keys. -ENOMEM. */
int merge_need_key(struct merge *m, const char *key, size_t len, struct merge_key **ret);
int merge_failed(const struct merge *m, int rc);

/* The windows below level 2, or the children's projections above. NULL: there is nothing to be
 * made. */
int project_begin(struct project **ret, struct merge *m);
int project_step(struct project *p, size_t *budget, bool *ret_done);
void project_free(struct project *p);

#endif
