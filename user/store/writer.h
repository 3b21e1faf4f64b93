/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a store: windows, and what they are made of.
 */
#ifndef ASCRIBE_STORE_WRITER_H
#define ASCRIBE_STORE_WRITER_H

#include "store/store.h"

struct store_writer;

/*
 * Create a store in dir (made with mode 0700 when missing), or append to the one that is there.
 * Refuses a directory that holds other things (-EEXIST), a store that is being written (-EBUSY), a
 * newer format (-EPROTONOSUPPORT). What an interrupted writer left half-written is cut off first;
 * damage that no crash explains is -EBADMSG and nothing is touched. Appending keeps the meta of the
 * store, but for names that meta adds at the end of lost_names or flagged_names; other names there
 * are -EINVAL.
 */
int store_writer_open(struct store_writer **ret, const char *dir, const struct store_meta *meta,
		      struct err *err);

/* What may be tuned; store_options_default() fills it. */
struct store_options {
#define STORE_WIDE_VALUES 256
	/* a key with more values in an hour is wide: STORE_WIDE_VALUES */
	uint32_t wide_values;
	uint32_t wide_sets; /* more narrow label sets in a file make the key with the most values
			       wide: 4096 */
	int64_t grace_ns;   /* a parent is written so long after its slot ended: 20 s */
	uint64_t symbols_bytes;	 /* a file ends when its dictionaries have this size: 16 MiB */
	uint64_t symbols_memory; /* or take so much of the writer's memory: 24 MiB, some 500,000
				       nodes of stacks */
	uint64_t max_bytes;	 /* of the store; 0: 10% of the file system, at most 10 GiB */
	/*
	 * Kept free on the file system. Below this the oldest data goes first, and where there is
	 * none left nothing is written. 0: 1% of the file system, at most 64 MiB
	 */
	uint64_t reserve_bytes;
	/* a recording, kept as it was made: no parents (store_compact makes them), no retention */
	bool windows_only;
	/* With windows_only: only this much is kept, or up to twice as much; 0: all */
	int64_t recent_ns;
	/*
	 * By level: blocks older than this are cut; 0: never; not less than the level below. Age is
	 * the time that the host has been up since: clocks that are set cut nothing
	 */
	int64_t keep_ns[9];
	/*
	 * How long the instants of samples are kept, within tracks_bytes; 0: not at all. INT64_MAX:
	 * as long as the store
	 */
	int64_t tracks_ns;
	uint64_t tracks_bytes; /* 0: any */
};

void store_options_default(struct store_options *o);
int store_writer_open_with(struct store_writer **ret, const char *dir,
			   const struct store_meta *meta, const struct store_options *o,
			   struct err *err);

/*
 * Intern; equal content gives the same id. Cost: one hash look-up when known. Fail with -ENOMEM or
 * -E2BIG (strings over 65535 bytes, sets over STORE_SET_MAX labels, full tables), -EINVAL for ids
 * that were not given. Events count from 0.
 */
int store_add_string(struct store_writer *w, const char *s, size_t len, uint32_t *ret_id);
int store_add_frame(struct store_writer *w, const struct store_frame *f, uint32_t *ret_id);
/*
 * Return the function's name of a frame that was added since the last store_renew, and the frame
 * itself. NULL: there is no such frame. Valid until the next string is added.
 */
const char *store_frame_function(const struct store_writer *w, uint32_t frame,
				 struct store_frame *ret);
int store_add_stack(struct store_writer *w, uint32_t parent, uint32_t frame, uint32_t *ret_id);
/*
 * labels in any order; of those with the same key the first one counts. The id is good for the open
 * window only.
 */
int store_add_set(struct store_writer *w, const struct label *labels, size_t n, uint32_t *ret_id);
/* The labels of a set of the open window; borrowed until the window ends. */
size_t store_added_set(const struct store_writer *w, uint32_t id, const struct label **ret);
int store_add_event(struct store_writer *w, const struct store_event *e, uint32_t *ret_id);

/*
 * Rows of the open window, summed by (set, stack, event). samples is at least 1: -EINVAL. -ENOMEM
 * and -E2BIG (over 4 Mi rows) lose nothing that was added before.
 */
int store_add_row(struct store_writer *w, uint32_t set, uint32_t stack, uint32_t event,
		  uint64_t samples, uint64_t value);

/*
 * Move samples and value of a row of the open window to the same row with another stack. -EINVAL:
 * the row has less, or would keep a value without samples, or the other row is new and gets no
 * samples. -ENOENT: there is no such row. Else as store_add_row. After a failure nothing has
 * changed.
 */
int store_move_row(struct store_writer *w, uint32_t set, uint32_t event, uint32_t from, uint32_t to,
		   uint64_t samples, uint64_t value);

/*
 * Write the window durably: dictionaries, then the block, each with fdatasync. t0_ns < t1_ns,
 * realtime; boot_ns is BOOTTIME at t1. After a failure the rows of this window are gone, the store
 * stays valid and the next window may be tried: the caller counts its samples as lost
 * (store_failed).
 */
int store_commit_window(struct store_writer *w, int64_t t0_ns, int64_t t1_ns, int64_t boot_ns,
			const struct store_totals *totals, struct err *err);

/*
 * Write rows of another time durably into a window of their own: fill adds them. Rows and ids of
 * the open window stay as they are. boot_ns is BOOTTIME now, from which the age of the window
 * counts. Without rows nothing is written. 0, -errno of fill, or as store_commit_window.
 */
int store_commit_apart(struct store_writer *w, int64_t t0_ns, int64_t t1_ns, int64_t boot_ns,
		       int (*fill)(struct store_writer *w, void *ctx), void *ctx, struct err *err);

/*
 * Begin a new file of windows if one is due by size or time. Only between windows. True: every id
 * of a string, frame, stack and event that was given before is void.
 */
bool store_renew(struct store_writer *w);
/*
 * Until store_renew_end, the frame of an id that was given before the last store_renew: the same in
 * the new file. As store_add_frame.
 */
int store_carry_frame(struct store_writer *w, uint32_t old, uint32_t *ret_id);
/* Likewise the stack of an id. As store_add_stack. */
int store_carry_stack(struct store_writer *w, uint32_t old, uint32_t *ret_id);
void store_renew_end(struct store_writer *w);

/*
 * Keep at most `max` rows in the open window. Of more, those with the smallest values go into a row
 * of their label set and event with the stack `other`, until half of `max` are left. Only rows of
 * these events, and not with the stack `pinned`. *ret_samples: of these rows. -ENOMEM: no change.
 */
struct store_folding_rule {
	size_t max;
	uint32_t other, pinned;
	const uint32_t *events;
	size_t n_events;
};
int store_fold_small_rows(struct store_writer *w, const struct store_folding_rule *f,
			  uint64_t *ret_samples);
size_t store_n_rows(const struct store_writer *w);

/* Bytes that the writer keeps. */
struct store_memory {
	size_t dictionaries; /* of the files that are written to */
	size_t window;	     /* rows and label sets of the open window */
};
void store_writer_memory(const struct store_writer *w, struct store_memory *ret);
/* Between two windows: free what a large window needed. */
void store_give_back(struct store_writer *w);

/* What did not go as it should, since the writer was opened. */
struct store_writer_state {
	uint64_t parents_failed; /* attempts to write a block above level 0; they are repeated */
	uint64_t shed;		 /* files that went since the disk was full */
	uint64_t bytes_written;	 /* payload and all */
	uint64_t tracks_failed;	 /* windows whose track could not be written */
	uint64_t tracks_bytes;	 /* of all tracks that are there */
	uint64_t windows;
	char last_error[500];
};
const struct store_writer_state *store_writer_state(const struct store_writer *w);

/* Let this process's group read the store, whatever modes files have; files we own change to it. */
void store_open_to_group(struct store_writer *w);

/* False: directory or header were deleted or moved; what is written finds no reader any more. */
bool store_writer_is_there(const struct store_writer *w);

/* Write every parent whose slot has ended, without the grace. */
int store_compact(struct store_writer *w, struct err *err);

/* Release; does not commit an open window. NULL is fine. */
void store_writer_close(struct store_writer *w);

#endif
