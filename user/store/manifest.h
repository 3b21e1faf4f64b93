/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MANIFEST: which segments, generations and epochs a store has, and what it once had. Replaced as a
 * whole whenever a file comes or goes; not at every commit.
 */
#ifndef ASCRIBE_STORE_MANIFEST_H
#define ASCRIBE_STORE_MANIFEST_H

#include "store/format.h"
#include "store/levels.h"
#include "store/store.h"
#include "util/buf.h"

#define MANIFEST_NAME "MANIFEST"

enum segment_state {
	SEGMENT_OPEN = 0,   /* the writer appends; everything before `end` was there at a clean close */
	SEGMENT_SEALED = 1, /* complete, with its index at index_at */
	SEGMENT_CLOSED = 2, /* complete, without an index: given up after an error of the disk */
};

struct manifest_segment {
	uint32_t serial;
	uint8_t level;
	uint8_t state;
	uint64_t end, index_at;
	/* Of sealed and closed ones. */
	int64_t t0_ns, t1_ns;
	uint32_t n_blocks, seq_lo, seq_hi; /* seq of its blocks are in [lo, hi) */
	uint32_t generation, epoch, generation_hi, epoch_hi; /* the oldest and the newest that it names */
};

struct manifest_key {
	char *key;
	uint32_t values; /* that were counted in an hour when it was found to be wide */
};

struct manifest_epoch {
	uint32_t serial;
	int64_t t0_ns;
	struct manifest_key *wide;
	size_t n_wide;
};

struct manifest_generation {
	uint32_t serial;
	int64_t t0_ns;
};

struct manifest {
	uint32_t next_segment;
	uint32_t seq[N_SEGMENT_LEVELS];	   /* of the next block, at least */
	uint32_t covered[N_SEGMENT_LEVELS]; /* every block with a smaller seq is in a parent */
	struct manifest_segment *segments;
	size_t n_segments;
	struct manifest_generation *generations;
	size_t n_generations, generations_cap;
	struct manifest_epoch *epochs;
	size_t n_epochs, epochs_cap;
	struct store_anchor *anchors;
	size_t n_anchors, anchors_cap;
	struct store_cut cuts[N_SEGMENT_LEVELS];
};

/* -ENOENT, -EBADMSG, -EPROTONOSUPPORT. */
int manifest_read(struct manifest *ret, int dir_fd, const char *dir, uint64_t store_id, struct err *err);
int manifest_write(const struct manifest *m, int dir_fd, const char *dir, uint64_t store_id, struct err *err);
void manifest_fini(struct manifest *m);

int manifest_add_epoch(struct manifest *m, const struct manifest_epoch *e); /* takes its contents over */
int manifest_add_generation(struct manifest *m, uint32_t serial, int64_t t0_ns);
int manifest_add_anchor(struct manifest *m, const struct store_anchor *a);
void manifest_epoch_fini(struct manifest_epoch *e);
void manifest_drop_epoch(struct manifest *m, size_t i);
void manifest_drop_generation(struct manifest *m, size_t i);

#endif
