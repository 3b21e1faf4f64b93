/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids of one set of dictionaries in those of another, by content: of a segment in those that a
 * reader gives, of a child's segment in those of its parent's. What is met is added to the other,
 * which must have an index; both may grow meanwhile. Not thread-safe.
 */
#ifndef ASCRIBE_STORE_DICT_TRANSLATE_H
#define ASCRIBE_STORE_DICT_TRANSLATE_H

#include "store/dict/dict.h"

/* By id: 0 not met yet, else the other's id + 1. */
struct id_map {
	uint32_t *v;
	size_t cap;
};

#define TRANSLATE_FROZEN 1 /* bytes: no dictionary takes less */

/* All zero but for the first two. */
struct translation {
	const struct dicts *from;
	struct dicts *to;
	bool no_new_events; /* the other has all there are: another one is damage */
	bool no_lines;	    /* frames lose their source lines */
	/* When the other takes so many bytes, what it lacks of a stack becomes a frame (other) */
	size_t most_bytes; /* 0: no limit; TRANSLATE_FROZEN: it has the stacks that matter */
	bool *cut;	   /* set when a stack was cut so; may be NULL */
	uint32_t other_frame;
	struct id_map strings, frames, stacks, events;
	struct id_map leaves; /* a leaf of the other */
	struct id_map
		leaf_stacks; /* a stack of the other, by leaf: in order where blocks have them */
};

/* Forget what was met: it may be used again for the same two. */
void translation_fini(struct translation *t);
size_t translation_bytes(const struct translation *t);

/* Ids must be those of `from`. 0 or as dicts_add_*. */
int translate_frame(struct translation *t, uint32_t id, uint32_t *ret);
/* The same, but what the other lacks is not added: 0. */
int translate_find_frame(struct translation *t, uint32_t id, uint32_t *ret);
int translate_stack(struct translation *t, uint32_t id, uint32_t *ret);
/* Whether a stack was met before. */
static inline bool translate_knows_stack(const struct translation *t, uint32_t id)
{
	return id < t->stacks.cap && t->stacks.v[id];
}
/* The stack of a leaf; a leaf as a leaf of the other. */
int translate_leaf_stack(struct translation *t, uint32_t leaf, uint32_t *ret);
int translate_leaf(struct translation *t, uint32_t leaf, uint32_t *ret);
int translate_event(struct translation *t, uint32_t id, uint32_t *ret);

#endif
