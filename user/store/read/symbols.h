/* SPDX-License-Identifier: Apache-2.0 */
/* The dictionaries of segments. */
#ifndef ASCRIBE_STORE_READ_SYMBOLS_H
#define ASCRIBE_STORE_READ_SYMBOLS_H

#include "store/dict/dict.h"
#include "store/dict/translate.h"
#include "store/read/segment.h"

/* The dictionaries of a segment, read when a block needs them. */
struct symbols {
	struct dicts d;
	bool begun;		      /* d is there, with the events */
	unsigned have;		      /* SYMBOLS_* that were read */
	uint64_t good;		      /* bytes of their frames that were intact */
	struct translation to;	      /* into store.sym */
	struct translation functions; /* the same without source lines */
	uint32_t *same; /* [d.n_stacks]: as in struct prune_sums; NULL: not looked for, or each
			   stands for itself */
	bool same_known;
	uint64_t used; /* store.n_uses at the last use */
};

/* Which dictionaries are wanted; events always are. */
#define SYMBOLS_SETS 1u	 /* label sets and their text */
#define SYMBOLS_NAMES 2u /* leaves, stacks, frames, strings */
#define SYMBOLS_ALL (SYMBOLS_SETS | SYMBOLS_NAMES)

/*
 * The dictionaries of a block's segment, borrowed until other ones are asked for: a reader that is
 * short of memory gives those up which were used longest ago. -EBADMSG: they are shorter than the
 * block needs.
 */
int store_dicts(struct store *s, const struct block_ref *r, unsigned what, const struct dicts **ret,
		struct err *err);
/*
 * A reader's: into the ids that it gives, of events and of what else is wanted (SYMBOLS_NAMES, or
 * 0).
 */
int store_translation(struct store *s, const struct block_ref *r, unsigned what,
		      struct translation **ret, struct err *err);
/* The symbols themselves, with which stacks differ in source lines alone. */
int store_functions(struct store *s, const struct block_ref *r, struct symbols **ret,
		    struct err *err);
/*
 * Read more of them for a segment, all zero at first; y->good says how far. With an index for a
 * writer that goes on with them. After an error they are of no use.
 */
int symbols_load(struct store *s, struct segment *g, unsigned what, bool index, struct symbols *y,
		 struct err *err);
void symbols_free(struct segment *g);
/* What a reader's dictionaries may take in memory. */
size_t symbols_limit(const struct store *s);

#endif
