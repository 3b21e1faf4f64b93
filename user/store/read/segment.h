/* SPDX-License-Identifier: Apache-2.0 */
/* Segments of an open store: their files, and the index of their blocks. */
#ifndef ASCRIBE_STORE_READ_SEGMENT_H
#define ASCRIBE_STORE_READ_SEGMENT_H

#include "store/block/block.h"
#include "store/file/file.h"
#include "store/file/manifest.h"

struct dicts;
struct store;
struct symbols;

/*
 * A block that the index knows. b first: a struct store_block * that was handed out is one of
 * these.
 */
struct block_ref {
	struct store_block b;
	uint64_t offset; /* of its frame */
	uint64_t mark;	 /* bytes of the dictionaries that it needs */
	uint32_t stored_len;
	uint32_t segment; /* index in store.segments */
	uint16_t part;	  /* of the union that the store belongs to */
	/* The window that this is a part of, [b.t0_ns, b.t1_ns) of it (tracks.h); NULL: no part */
	const struct block_ref *whole;
	/* Of a writer's pending block: its slot could not be merged, do not try again */
	bool aside;
};

struct segment {
	struct manifest_segment m;
	struct file file; /* opened when needed */
	/* Symbols of an open one, held by readers until the end: sealing unlinks the file. */
	struct file names;
	bool loaded;
	struct block_ref *refs; /* in order of the file: of seq */
	size_t n_refs, refs_cap;
	struct symbols *symbols;  /* NULL: not read */
	const struct dicts *live; /* what a writer is appending to; else NULL */
	/* A writer's, for retention (age.c): when its newest block was written. */
	bool dated;
	uint32_t last_anchor;
	int64_t last_boot_ns;
};

/* m is the store's from then on. -ENOMEM: not. */
int store_add_segment(struct store *s, const struct manifest_segment *m, struct segment **ret);
/* All of them, which are the store's from then on, and the list is freed; also when it fails. */
int store_take_segments(struct store *s, struct manifest_segment *v, size_t n);
void store_drop_segment(struct store *s, size_t i);
int segment_open(struct store *s, struct segment *g, struct err *err);
/*
 * Read the index of a segment, if that was not done. -ESTALE: as store_missing says. -ENOENT: a
 * sealed one is missing, and that is damage: what its parents hold can be told all the same.
 */
int segment_load(struct store *s, struct segment *g, struct err *err);
/* Forget the index; not of one that is open, nor while its refs are borrowed. */
void segment_unload(struct store *s, struct segment *g);
/* Fill in what the manifest says of a segment that gets no more blocks, from its refs. */
void segment_describe(struct segment *g);
/* The payload of the index frame of a sealed segment. */
int segment_encode_index(struct buf *out, const struct segment *g);
int segment_add_ref(struct store *s, struct segment *g, const struct block_head *h, uint64_t offset,
		    uint32_t stored_len);
const struct block_ref *store_ref(const struct store_block *b);

#endif
