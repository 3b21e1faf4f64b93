/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MANIFEST: which segments a store has, and what it once had. Replaced as a whole whenever a file
 * comes or goes; not at every commit.
 */
#ifndef ASCRIBE_STORE_FILE_MANIFEST_H
#define ASCRIBE_STORE_FILE_MANIFEST_H

#include "store/file/format.h"
#include "store/file/levels.h"
#include "store/file/message.h"
#include "store/store.h"
#include "util/buf.h"

#define MANIFEST_NAME "MANIFEST"

enum segment_state {
	SEGMENT_OPEN =
		0, /* the writer appends; everything before `end` was there at a clean close */
	SEGMENT_SEALED =
		1, /* complete: its dictionaries are at symbols_at, its index at index_at */
	SEGMENT_CLOSED = 2, /* complete, but its dictionaries are a file of their own: given up
			       after an error of the disk */
};

/* A key whose values stand in the windows themselves, since it has too many of them. */
struct manifest_key {
	char *key;
	uint32_t values; /* in an hour, as far as they were counted */
	struct message_unknown unknown;
};

struct manifest_segment {
	uint32_t serial;
	uint8_t level;
	uint8_t state;
	uint64_t end, symbols_at, index_at;
	/* Of sealed and closed ones. */
	int64_t t0_ns, t1_ns;
	uint32_t n_blocks, seq_lo, seq_hi; /* seq of its blocks are in [lo, hi) */
	struct manifest_key *wide;
	size_t n_wide;
	struct message_unknown unknown;
};

struct manifest {
	uint32_t next_segment;
	uint32_t seq[N_SEGMENT_LEVELS];	    /* of the next block, at least */
	uint32_t covered[N_SEGMENT_LEVELS]; /* every block with a smaller seq is in a parent */
	struct store_cut cuts[N_SEGMENT_LEVELS];
	struct store_anchor *anchors;
	size_t n_anchors, anchors_cap;
	struct store_event *events; /* of all segments */
	size_t n_events, events_cap;
	struct message_unknown unknown;
	/* Of those that were read: anchors and events are only added behind them. */
	struct message_unknowns levels_unknown, anchors_unknown, events_unknown;
};

/*
 * The segments are owned by the caller, to be freed one by one and then the list. -ENOENT,
 * -EBADMSG, -EPROTONOSUPPORT.
 */
int manifest_read(struct manifest *ret, struct manifest_segment **ret_segments, size_t *ret_n,
		  int dir_fd, const char *dir, uint64_t store_id, struct err *err);
int manifest_write(const struct manifest *m, const struct manifest_segment *const *segments,
		   size_t n, int dir_fd, const char *dir, uint64_t store_id, struct err *err);
void manifest_fini(struct manifest *m);
void manifest_segment_fini(struct manifest_segment *s);

int manifest_add_anchor(struct manifest *m, const struct store_anchor *a);
/* Unless it is there; *ret_new: it was not. -ENOMEM, -E2BIG. */
int manifest_add_event(struct manifest *m, const struct store_event *e, bool *ret_new);
/* The key as it is now; -ENOMEM. */
int manifest_set_wide(struct manifest_segment *s, const char *key, size_t len, uint32_t values);

#endif
