/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reader and writer share: the state of an open store.
 */
#ifndef ASCRIBE_STORE_READ_STORE_INT_H
#define ASCRIBE_STORE_READ_STORE_INT_H

#include "store/block/block.h"
#include "store/dict/dict.h"
#include "store/file/file.h"
#include "store/file/header.h"
#include "store/block/keys.h"
#include "store/file/manifest.h"
#include "store/block/rows.h"
#include "store/dict/setpool.h"
#include "store/block/set_sums.h"
#include "store/block/settable.h"
#include "store/block/top.h"
#include "store/block/totals.h"
#include "store/dict/translate.h"

#include <time.h>

/* A block that the index knows. b first: a struct store_block * that was handed out is one of these. */
struct block_ref {
	struct store_block b;
	uint64_t offset; /* of its frame */
	uint64_t mark;	 /* bytes of the dictionaries that it needs */
	uint32_t stored_len;
	uint32_t segment; /* index in store.segments */
	bool aside; /* of a writer's pending block: its slot could not be merged, do not try again */
};

/* The dictionaries of a segment, read when a block needs them. */
struct symbols {
	struct dicts d;
	bool begun;    /* d is there, with the events */
	unsigned have; /* SYMBOLS_* that were read */
	uint64_t good; /* bytes of their frames that were intact */
	struct translation to; /* into store.sym */
	uint64_t used; /* store.n_uses at the last use */
};

/* Which dictionaries are wanted; events always are. */
#define SYMBOLS_SETS 1u	 /* label sets and their text */
#define SYMBOLS_NAMES 2u /* leaves, stacks, frames, strings */
#define SYMBOLS_ALL (SYMBOLS_SETS | SYMBOLS_NAMES)

struct segment {
	struct manifest_segment m;
	struct file file; /* opened when needed */
	bool loaded;
	struct block_ref *refs; /* in order of the file: of seq */
	size_t n_refs, refs_cap;
	struct symbols *symbols; /* NULL: not read */
	const struct dicts *live; /* what a writer is appending to; else NULL */
	/* A writer's, for retention (age.c): when its newest block was written. */
	bool dated;
	uint32_t last_anchor;
	int64_t last_boot_ns;
};

struct store {
	char *dir;
	int dir_fd;
	bool write;
	struct header header;
	struct manifest manifest;
	struct segment *segments;
	size_t n_segments, segments_cap;
	uint32_t n_open; /* descriptors of segments */
	struct dicts sym; /* a reader's: what was translated so far, and all events */
	uint64_t n_uses;
	struct setpool sets; /* a reader's label sets */
	struct store_limits limits;
	const struct block_ref **windows; /* a reader's list of level 0 by t0, made when asked for */
	size_t n_windows;
	struct totals *window_totals; /* [n_windows], read when asked for */
	struct store_window window;
	struct manifest_stamp { /* of the file that was read: another one by now says that a writer has gone on */
		uint64_t inode;
		struct timespec changed;
	} stamp;
	bool lost_windows; /* committed windows are left out because of a dictionary: more than a crash does */
	char damage[700];  /* empty: none */
};

/* Forget the names and label sets that were read so far: their ids are void. Not of a writer. -ENOMEM. */
int store_forget(struct store *s, struct err *err);

void store_init(struct store *s);
void store_fini(struct store *s);

/* Open the directory; -ENOENT, -ENOTDIR and others with their text. */
int store_open_dir(struct store *s, const char *dir, struct err *err);

/* Header, manifest, and indexes of the segments that may grow. */
int store_load(struct store *s, bool write, struct err *err);
/* Whether a writer has replaced the manifest since a reader read it. */
bool store_is_stale(const struct store *s);
/*
 * What to say of a file that is not there though the manifest named it. -ESTALE: a reader's, whose
 * manifest has been replaced since; retention has cut the file, open the store anew. -EBADMSG:
 * damage.
 */
int store_missing(const struct store *s, const char *path, struct err *err);

/* ---- segments (segment.c) ---- */

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
int segment_add_ref(struct store *s, struct segment *g, const struct block_head *h, uint64_t offset, uint32_t stored_len);

/* Head and the wanted columns, unpacked. wanted: bits; those that the block lacks stay empty. */
struct block_data {
	struct block_head head;
	struct buf column[N_COLUMNS];
};

int block_read(struct store *s, const struct block_ref *r, uint32_t wanted, struct block_data *ret, struct err *err);
void block_data_fini(struct block_data *d);
int block_damaged(const struct store *s, const struct block_ref *r, struct err *err);
/* Bytes of a column as stored, not checked. */
int block_read_raw(struct store *s, const struct block_ref *r, const struct block_head *h, enum column c, uint64_t at,
		   void *out, size_t len, struct err *err);

/* Append a part of such a column that has a checksum of its own, unpacked. */
int block_read_piece(struct store *s, const struct block_ref *r, const struct block_head *h,
		     enum column c, const struct block_column *at, struct buf *ret,
		     struct err *err);
/* Can a question by these keys be answered from a parent that has these? stacks: it is about stacks. */
bool block_answers(const struct block_keys *k, const char *const *keys, size_t n, bool stacks);

/* ---- dictionaries (symbols.c) ---- */

/*
 * The dictionaries of a block's segment, borrowed until other ones are asked for: a reader that is
 * short of memory gives those up which were used longest ago. -EBADMSG: they are shorter than the
 * block needs.
 */
int store_dicts(struct store *s, const struct block_ref *r, unsigned what, const struct dicts **ret,
		struct err *err);
/* A reader's: into the ids that it gives. Names and events. */
int store_translation(struct store *s, const struct block_ref *r, struct translation **ret, struct err *err);
/*
 * Read more of them for a segment, all zero at first; y->good says how far. With an index for a
 * writer that goes on with them. After an error they are of no use.
 */
int symbols_load(struct store *s, struct segment *g, unsigned what, bool index, struct symbols *y,
		 struct err *err);
void symbols_free(struct segment *g);
/* What a reader's dictionaries may take in memory. */
size_t symbols_limit(const struct store *s);

/* ---- contents (contents.c): ids as in the block's segment ---- */

#define WANT_ROWS (0xffu << COLUMN_LEAF)
#define WANT_TABLE (0xffu << COLUMN_TABLE_NARROW)
#define WANT_NARROW (1u << COLUMN_TABLE_NARROW)
#define WANT_FOLDED (0xfu << COLUMN_LEAF)
#define WANT_TOTALS (1u << COLUMN_TOTALS)
#define WANT_KEYS (1u << COLUMN_KEYS)
#define WANT_SUMS (1u << COLUMN_SUMS)
#define WANT_TOP (1u << COLUMN_TOP)

/*
 * What ids the rows of a block may have: those of its marks. Nothing is allocated by the numbers of
 * a mark before this has held them against the dictionaries, which may be damaged, or made by
 * somebody. -EBADMSG.
 */
int contents_limits(struct store *s, const struct block_ref *r, const struct block_head *h,
		    bool sets, struct rows_limits *ret, struct err *err);
/* Begin to read the rows (sets) or only the groups, which were read into d. */
int contents_rows(struct store *s, const struct block_ref *r, const struct block_data *d, bool sets,
		  struct rows_reader *ret, struct err *err);
/*
 * n = 0 where the block has none: rows name narrow sets then. labels: also those of the sets that
 * are in the table alone, of these keys (NULL: all).
 */
int contents_table(struct store *s, const struct block_ref *r, const struct block_data *d, bool labels, const struct settable_keys *keys,
		   struct settable *ret, struct err *err);
int contents_totals(struct store *s, const struct block_ref *r, const struct block_data *d, struct totals *ret,
		    struct err *err);
int contents_keys(struct store *s, const struct block_ref *r, const struct block_data *d,
		  struct block_keys *ret, struct err *err);
int contents_sums(struct store *s, const struct block_ref *r, const struct block_data *d,
		  struct set_sums_reader *ret, struct err *err);
int contents_top(struct store *s, const struct block_ref *r, const struct block_data *d, struct top *ret,
		 struct err *err);
bool contents_wants(const struct store_keys *keys, const char *key);
/*
 * Those of keys (NULL: all) of a narrow set and of an entry of the table (NULL: none), together;
 * returns how many, at most STORE_SET_MAX.
 */
size_t contents_labels(const struct dicts *d, uint32_t narrow, const struct settable *t, const struct settable_set *ts,
		       const struct settable_keys *keys, struct label *out);

/*
 * Blocks of a level that overlap [from, to) and have no parent in parent_level (N_LEVELS: none
 * has); stops at the first non-zero result of cb.
 */
int store_roots(struct store *s, uint8_t level, uint8_t parent_level, int64_t from, int64_t to,
		int (*cb)(void *ctx, const struct block_ref *r), void *ctx, struct err *err);
/*
 * The children of a parent that are there, to be freed (the list alone): fewer than n_children when
 * retention has cut some, or a disk has damaged their segment. -ENOMEM.
 */
int store_children(struct store *s, const struct block_ref *p, const struct block_ref ***ret, size_t *ret_n);
const struct block_ref *store_ref(const struct store_block *b);

#endif
