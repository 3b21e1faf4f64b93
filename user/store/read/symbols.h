/* SPDX-License-Identifier: Apache-2.0 */
/* The dictionaries of segments. */
#ifndef ASCRIBE_STORE_READ_SYMBOLS_H
#define ASCRIBE_STORE_READ_SYMBOLS_H

#include "store/dict/dict.h"
#include "store/dict/shape.h"
#include "store/dict/translate.h"
#include "store/read/segment.h"

/* Where a node of a segment's shape is among the stacks of a reader. */
struct placed {
	uint32_t stack; /* the reader's, of the last stack of the node that it has */
	/*
	 * PLACED: the reader has all stacks of the node. Else the number of stacks that it had
	 * when it was searched; 0: it was never searched.
	 */
	uint32_t of;
#define PLACED UINT32_MAX
};

/* The stacks of a segment in a reader's ids. */
struct shaped {
	struct translation to; /* into store.sym */
	struct shape shape;    /* of the segment's, where it was asked for */
	struct placed *placed; /* [shape.n] */
};

/* The keys of the label sets of a segment: the same sets come in every window. */
struct set_keys {
	uint64_t seed;
	struct store_set_key *v; /* [n], of narrow sets; n 0: not known yet */
	size_t n;
};

/* The dictionaries of a segment, read when a block needs them. */
struct symbols {
	struct dicts d;
	bool begun;		      /* d is there, with the events */
	unsigned have;		      /* SYMBOLS_* that were read */
	uint64_t good;		      /* bytes of their frames that were intact */
	struct shaped all, functions; /* the second without source lines */
	struct set_keys set_keys;
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
/* The same of names, with the shape; functions: stacks that differ in lines alone are one. */
int store_shaped(struct store *s, const struct block_ref *r, bool functions, struct shaped **ret,
		 struct err *err);
/*
 * g->names, of an open segment. -ENODATA: it is shorter than its header. names.size is right unless
 * it returns -ENOENT.
 */
int symbols_open(struct store *s, struct segment *g, struct err *err);
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
