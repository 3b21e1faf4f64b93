/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a store of format 2 (docs/format.md, "Format 2"): all its blocks, then one at a time with
 * the dictionaries that it names.
 */
#ifndef ASCRIBE_STORE_OLD_READ_H
#define ASCRIBE_STORE_OLD_READ_H

#include "store/block/block.h"
#include "store/block/rows.h"
#include "store/block/settable.h"
#include "store/block/totals.h"
#include "store/read/store_int.h"

/* Flags of a block. */
#define OLD_FOLDED_ONLY 1u /* the rows were not written, for want of space */
#define OLD_NARROW_ONLY 2u /* the labels of wide keys were not written, for want of space */
#define OLD_NO_ROWS 4u	   /* the children have the rows */

#define OLD_COLUMN_WIDE 17 /* keys that the rows of this block lack */

/* The new store while it is made, a directory in the old one */
#define STORE_REWRITING "rewriting"
/* The manifest, where MANIFEST is already that of the new store */
#define OLD_MANIFEST_NAME "MANIFEST.2"

struct old_segment {
	uint32_t serial;
	uint8_t level;
	uint8_t state; /* enum segment_state */
	uint64_t end, index_at;
	uint32_t n_blocks;
};

struct old_block {
	struct store_block b;
	uint64_t offset; /* of its frame */
	uint32_t stored_len;
	uint32_t segment; /* index */
	uint32_t generation, epoch;
	uint64_t bytes[N_DICTS + 1]; /* marks: length of each dictionary's file */
};

/* A generation of symbols, or an epoch of label sets. */
struct old_dicts {
	struct dicts d;
	uint32_t serial;
	bool loaded;
	uint64_t good[N_DICTS + 1]; /* length of each file, as far as it is intact */
};

struct old_store {
	char *dir;
	int dir_fd;
	struct header header;
	struct old_segment *segments;
	size_t n_segments;
	uint32_t last_segment; /* the highest number that one ever had */
	struct store_anchor *anchors;
	size_t n_anchors;
	struct old_block *blocks; /* of all levels but the postings, by file */
	size_t n_blocks, blocks_cap;
	struct file file; /* of the segment that was read last */
	uint32_t file_of;
	struct old_dicts symbols, labels; /* those that were used last */
	char torn[700];			  /* empty: no torn end was left out */
};

/* A block, decoded. */
struct old_contents {
	struct block_head head;
	struct buf column[N_COLUMNS];
	struct rows_limits limits;
	struct settable table;
	struct totals totals;
	bool has_sets; /* there are rows by label set, not sums of stacks alone */
};

/* -EBADMSG names file and offset; a torn end is left out and noted in `torn`. */
int old_open(struct old_store *ret, const char *dir, struct err *err);
void old_close(struct old_store *o);
/* Read a block, and the dictionaries that it names into o->symbols and o->labels. */
int old_read(struct old_store *o, const struct old_block *r, struct old_contents *ret,
	     struct err *err);
void old_contents_fini(struct old_contents *c);
int old_damaged(const struct old_store *o, const struct old_block *r, struct err *err);

/* ---- meta.c ---- */

/* HEADER and MANIFEST. */
int old_read_header(struct old_store *o, struct err *err);
int old_read_manifest(struct old_store *o, struct err *err);

#endif
