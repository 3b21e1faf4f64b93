/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reader and writer share: the state of an open store.
 */
#ifndef ASCRIBE_STORE_STORE_INT_H
#define ASCRIBE_STORE_STORE_INT_H

#include "store/block.h"
#include "store/dict.h"
#include "store/file.h"
#include "store/header.h"
#include "store/manifest.h"
#include "store/rows.h"
#include "store/setpool.h"
#include "store/settable.h"
#include "store/top.h"
#include "store/totals.h"

#include <time.h>

/* A block that the index knows. b first: a struct store_block * that was handed out is one of these. */
struct block_ref {
	struct store_block b;
	uint64_t offset; /* of its frame */
	uint32_t stored_len;
	uint32_t segment; /* index in store.segments */
	uint64_t mark_bytes[N_DICTS + 1];
	bool aside; /* of a writer's pending block: its slot could not be merged, do not try again */
};

struct segment {
	struct manifest_segment m;
	struct file file; /* opened when needed */
	bool loaded;
	struct block_ref *refs; /* in order of the file: of seq */
	size_t n_refs, refs_cap;
	/* A writer's, for retention (age.c): when its newest block was written. */
	bool dated;
	uint32_t last_anchor;
	int64_t last_boot_ns;
};

/*
 * One symbol generation or one label epoch, read when a block needs it. Ids are translated into
 * those of store.sym by content; `same` says that they are equal as they are.
 */
struct dict_gen {
	uint32_t serial;
	bool loaded, same;
	struct dicts d;
	uint64_t good[N_DICTS + 1]; /* bytes of each file that were intact */
	uint32_t *strings, *frames, *stacks, *events, *sets; /* 0: not translated yet, else id + 1 */
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
	struct dicts sym; /* strings, frames, stacks, events, leaves: of the newest generation, and what others add */
	uint32_t n_own_events; /* of sym.events, those in the file of the newest generation */
	struct dict_gen **gens, **epochs;
	size_t n_gens, gens_cap, n_epochs, epochs_cap;
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

void store_init(struct store *s);
void store_fini(struct store *s);

/* Open the directory; -ENOENT, -ENOTDIR and others with their text. */
int store_open_dir(struct store *s, const char *dir, struct err *err);

/*
 * Header, manifest, indexes of the segments that may grow, and the newest generation (indexed for a
 * writer).
 */
int store_load(struct store *s, bool write, struct err *err);
/*
 * What to say of a file that is not there though the manifest named it. -ESTALE: a reader's, whose
 * manifest has been replaced since; retention has cut the file, open the store anew. -EBADMSG:
 * damage.
 */
int store_missing(const struct store *s, const char *path, struct err *err);

/* ---- segments (segment.c) ---- */

int store_add_segment(struct store *s, const struct manifest_segment *m, struct segment **ret);
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

/* ---- dictionaries (symbols.c) ---- */

/* Read the files of a generation or of an epoch (sets). */
int dict_gen_load(struct store *s, struct dict_gen *g, bool epoch, bool index, struct err *err);
/* What the manifest says of an epoch, NULL: nothing. */
const struct manifest_epoch *store_epoch_info(const struct store *s, uint32_t serial);
int dict_gen_load_events(struct store *s, struct dict_gen *g, struct err *err);
int store_gen(struct store *s, const struct block_ref *r, struct dict_gen **ret, struct err *err);
int store_epoch(struct store *s, const struct block_ref *r, struct dict_gen **ret, struct err *err);
void dict_gen_free(struct dict_gen *g);
/* Into the ids of s->sym. */
int dict_gen_stack(struct store *s, struct dict_gen *g, uint32_t id, uint32_t *ret);
/* What its own ids mean: they are in store.sym when that is the same. */
const struct dicts *dict_gen_dicts(const struct store *s, const struct dict_gen *g);
/* A leaf: the stack that it is. */
int dict_gen_leaf(struct store *s, struct dict_gen *g, uint32_t leaf, uint32_t *ret);
int dict_gen_event(struct store *s, struct dict_gen *g, uint32_t id, uint32_t *ret);

/* ---- contents (contents.c): ids as in the block ---- */

#define WANT_ROWS (0xffu << COLUMN_LEAF)
#define WANT_TABLE (0xffu << COLUMN_TABLE_NARROW)
#define WANT_NARROW (1u << COLUMN_TABLE_NARROW)
#define WANT_FOLDED (0xfu << COLUMN_LEAF)
#define WANT_TOTALS (1u << COLUMN_TOTALS)
#define WANT_DROPPED (1u << COLUMN_DROPPED)
#define WANT_TOP (1u << COLUMN_TOP)

/*
 * What ids the rows of a block may have: those of its marks. Nothing is allocated by the numbers of
 * a mark before this has held them against the dictionaries, which may be damaged, or made by
 * somebody. -EBADMSG.
 */
int contents_limits(struct store *s, const struct block_ref *r, const struct block_head *h, struct rows_limits *ret, struct err *err);
/*
 * Begin to read the rows (sets) or only the groups, which were read into d. The ids are those of
 * the block's generation and of its table or epoch.
 */
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
/* A key that the rows of a block lack, and in how many of its windows it is in the table. */
struct dropped_key {
	uint32_t key; /* string of the epoch */
	uint32_t windows;
};

int contents_dropped(struct store *s, const struct block_ref *r, const struct block_data *d, struct dropped_key **ret,
		     size_t *ret_n, struct err *err);
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
