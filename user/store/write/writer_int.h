/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's state, shared by the files that make it up:
 * - writer.c opens and takes rows
 * - output.c writes files
 * - commit.c makes windows
 * - wide.c decides which keys are wide
 * - compact.c says when parents are made, merge.c and project.c make them
 * - retain.c cuts what age.c finds to be old
 * - tracks.c keeps when samples were taken
 */
#ifndef ASCRIBE_STORE_WRITE_WRITER_INT_H
#define ASCRIBE_STORE_WRITE_WRITER_INT_H

#include "store/instants.h"
#include "store/block/rows.h"
#include "store/block/settable.h"
#include "store/read/store_int.h"
#include "store/writer.h"

/* How many values a key has had in this hour; exact up to the limit of a set of hashes. */
struct key_stat {
	char *key;
	size_t key_len;
	bool wide;	 /* in this file of windows */
	uint32_t n;	 /* values in this hour */
	uint32_t most;	 /* in any hour of this file */
	uint64_t *slots; /* hashes, open addressing; 0: free */
	size_t cap;
};

struct pending {
	struct block_ref *v;
	size_t n, cap;
};

/* The hashes of a window's wide labels, each once. */
struct posted {
	uint32_t seq;
	uint32_t *hashes;
	size_t n;
};

/* Where blocks of a level go: the dictionaries of its open segment. */
struct output {
	struct dicts d; /* with an index */
	bool loaded;	/* d is there */
	bool fresh;	/* d is not that of the open segment: the next block begins another */
	/* d, which was too large when it was unloaded: the next block begins another */
	bool full;
	bool broken;	  /* the segment was given up after an error: the next one gets all of d */
	struct file file; /* KIND_SYMBOLS of the open segment */
	struct dict_mark saved[N_DICTS + 1]; /* ids below are in the file and durable */
};

/* A file of tracks: it is cut when the newest of them is too old. */
struct tracks_file {
	uint32_t serial; /* the seq of its first window */
	int64_t last_boot_ns;
	uint64_t bytes;
};

struct tracks_out {
	const struct store_instants *given; /* of the open window; NULL: none */
	struct file file;		    /* that is written to; fd -1: none */
	int64_t began_boot_ns;		    /* it */
	struct tracks_file *v;		    /* all that are there, the oldest first */
	size_t n, cap;
};

struct store_writer {
	struct store s;
	struct store_options opt;
	int lock_fd;
	bool failed;		  /* it never opened: there is nothing to end cleanly */
	bool manifest_due;	  /* it lacks an event or a wide key of a block to come */
	size_t n_lost, n_flagged; /* of the caller's counters; the store may have more */
	struct output out[N_SEGMENT_LEVELS]; /* the first has the ids that the caller was given */
	/* has_before: those of the file before store_renew, until store_renew_end */
	struct dicts before;
	bool has_before;
	/* of the open window file, when a key became wide for there were too many */
	uint32_t sets_counted;
	int64_t hour;
	uint8_t boot_id[16];
	int64_t anchor_drift_ns; /* of realtime beside BOOTTIME since the last anchor */
	bool dated;		 /* age_date has run */
	/* [n_up] by anchor: the largest BOOTTIME that a block of it names */
	int64_t *up_ns;
	size_t n_up, up_cap;
	/* The open window. */
	struct setpool sets;
	struct rows rows;
	struct idhash row_hash;
	struct key_stat *keys;
	size_t n_keys, keys_cap;
	struct pending pending[N_LEVELS]; /* blocks without a parent */
	struct merge *merges[N_LEVELS];	  /* parents in the making, by their level, */
	int64_t merge_slot[N_LEVELS];	  /* and their slots */
	bool any_aside;			  /* of the pending blocks */
	struct pending unposted;	  /* windows with a table that are in no postings yet */
	struct posted *posted; /* what those had, by seq; what is missing is read again */
	size_t n_posted, posted_cap;
	int64_t compact_after_ns, retain_after_ns;
	struct tracks_out tracks;
	uint64_t cap; /* bytes of all files */
	/* Files that were cut: unlinked when a manifest without them is durable */
	struct place *gone;
	size_t n_gone, gone_cap;
	struct store_writer_state state;
};

/* -EBUSY: another process writes. */
int writer_take_lock(struct store_writer *w, struct err *err);

/* Row i of the open window can be found by its content from now on. There is room. */
void writer_put_row_hash(struct store_writer *w, uint32_t i);

/* ---- output.c ---- */

int writer_save_manifest(struct store_writer *w, struct err *err);
/* Stand at the end of the open segments that an earlier writer left. */
int writer_open_outputs(struct store_writer *w, bool *ret_clean, struct err *err);
/* The open segment of a level, NULL: there is none. */
struct segment *writer_segment(struct store_writer *w, uint8_t level);
/* Whether a block that begins at t_ns would go to another file than the one before. */
bool writer_ends_file(struct store_writer *w, uint8_t level, int64_t t_ns);
/* Load the dictionaries that a parent of this level adds to, until writer_put_block writes it. */
int writer_begin_parent(struct store_writer *w, uint8_t level, int64_t t_ns, struct err *err);
/* Give a parent in the making these dictionaries instead of those it had; they are its own then. */
void writer_replace_parent(struct store_writer *w, uint8_t level, const struct dicts *d);
/* Forget what a parent in the making has added: it is given up. */
void writer_drop_parent(struct store_writer *w, uint8_t level);
/* Find or make the segment for a block that begins at t_ns. */
int writer_need_segment(struct store_writer *w, uint8_t level, int64_t t_ns, struct segment **ret,
			struct err *err);
/* Free the dictionaries that were read for compaction. */
void writer_drop_read(struct store_writer *w);
/*
 * Dictionaries, then the block, each synced. b->info needs t0, t1, boot, level, flags, children,
 * windows; the rest and the mark are filled in. -errno: nothing has changed.
 */
int writer_put_block(struct store_writer *w, struct block *b, struct block_ref *ret,
		     struct err *err);
/* Room for one more. -ENOMEM. */
int pending_reserve(struct pending *p);
int pending_add(struct pending *p, const struct block_ref *r);

/* ---- wide.c ---- */

/* Count the values of the open window's sets; keys with too many of them become wide. -ENOMEM. */
int wide_count(struct store_writer *w, int64_t t_ns);
/* At the beginning of a file: keys that have few values are narrow again. */
void wide_settle(struct store_writer *w);
/* NULL: the key is narrow. */
const struct key_stat *wide_find(const struct store_writer *w, const char *key, size_t len);
int wide_load(struct store_writer *w);
/* Name them in the segment. -ENOMEM. */
int wide_list(struct store_writer *w, struct segment *g);
void wide_fini(struct store_writer *w);

/* ---- commit.c, compact.c, postings.c, retain.c ---- */

void commit_init(struct store_writer *w);
/*
 * As store_commit_window, with the times and the anchor of a block of another store, whose anchors
 * are in the manifest already; no compaction and no retention.
 */
int writer_commit_copy(struct store_writer *w, const struct store_block *of,
		       const struct store_totals *totals, struct err *err);

/* Work on parents that are due, in proportion to the rows of the window that was committed. */
int compact_due(struct store_writer *w, int64_t now_ns, size_t rows, struct err *err);
/* Give up what is in the making. */
void compact_abandon(struct store_writer *w);
int compact_load(struct store_writer *w, struct err *err);
int postings_due(struct store_writer *w, int64_t now_ns, struct err *err);
/* The window seq has been written, and this is its table. */
void postings_note(struct store_writer *w, const struct settable *t, uint32_t seq);
void postings_fini(struct store_writer *w);
/* boot_ns: BOOTTIME at now_ns, of this boot. */
int retain_due(struct store_writer *w, int64_t now_ns, int64_t boot_ns, struct err *err);
uint64_t retain_cap(const struct store_writer *w);
/* Room in w->gone for so many more files. -ENOMEM. */
int retain_reserve(struct store_writer *w, size_t more);
/* Unlink what was cut; what fails is tried again. Only behind a manifest that was saved since. */
void retain_unlink(struct store_writer *w);

/* ---- tracks.c ---- */

/* Take up the files that an earlier writer left; without tracks_ns they go. */
void tracks_open(struct store_writer *w);
/*
 * Write the track of the window `ref`, which was written with these rows; set_of: by set of the
 * window, that of the block. What fails is counted, and the window has no track.
 */
void tracks_write(struct store_writer *w, const struct rows *rows, const uint32_t *set_of,
		  const struct block_ref *ref);
void tracks_fini(struct store_writer *w);

/* ---- age.c ---- */

/* g gets this block. -ENOMEM. */
int age_note(struct store_writer *w, struct segment *g, const struct store_block *b);
/*
 * Read the indexes of the segments that earlier writers left. The first call does all of it.
 * -ENOMEM.
 */
int age_date(struct store_writer *w);
/*
 * The store's clock (age.c) at this BOOTTIME of this boot, and when the newest block of a segment
 * was written.
 */
int64_t age_now(const struct store_writer *w, int64_t boot_ns);
int64_t age_of_segment(const struct store_writer *w, size_t i, int64_t now_ns);

/* Whether the file system has room for a window; old data goes first. */
bool retain_make_room(struct store_writer *w, int64_t now_ns);

#endif
