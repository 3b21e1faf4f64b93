/* SPDX-License-Identifier: Apache-2.0 */
/* The state of an open store, which reader and writer share. */
#ifndef ASCRIBE_STORE_READ_STORE_INT_H
#define ASCRIBE_STORE_READ_STORE_INT_H

#include "store/block/totals.h"
#include "store/dict/dict.h"
#include "store/dict/setpool.h"
#include "store/file/header.h"
#include "store/file/manifest.h"
#include "store/file/meta.h"
#include "store/read/segment.h"

#include <time.h>

/* Where the track of a window stands. */
struct track_ref {
	uint32_t seq, serial; /* of the window; of the file */
	uint64_t offset;
};

/* What a reader knows of the tracks of its store. */
struct tracks {
	bool listed;
	struct track_ref *v; /* by seq; the newest first where there are several */
	size_t n, cap;
};

struct store {
	char *dir;
	int dir_fd;
	bool write;
	struct header header;
	struct manifest manifest;
	struct segment *segments;
	size_t n_segments, segments_cap;
	uint32_t n_open;  /* descriptors of segments */
	struct dicts sym; /* a reader's: what was translated so far, and all events */
	bool asked, cut;  /* a question is being answered; stacks of it were cut */
	uint64_t n_uses;
	struct setpool sets; /* a reader's label sets */
	struct store_limits limits;
	const char *scope;    /* store_set_scope */
	struct tracks tracks; /* of a reader; listed when asked for */
	/* A reader's list of level 0 by t0, made when asked for */
	const struct block_ref **windows;
	size_t n_windows;
	struct totals *window_totals; /* [n_windows], read when asked for */
	struct store_window window;
	/* Of the file that was read: another one by now says that a writer has gone on */
	struct manifest_stamp {
		uint64_t inode;
		struct timespec changed;
	} stamp;
	/*
	 * Several stores that are read as one (union.c): of a union meta, names, label sets and
	 * limits are its own, all else is in its parts.
	 */
	struct store **parts; /* [n_parts]; NULL: no union */
	size_t n_parts;
	struct store *in; /* the union that this store is a part of: ids are those that it gives */
	uint16_t part;	  /* its number there */
	/* Of a part: what its rows get that have no such label; without text: nothing */
	struct label host;
	struct meta_map counters; /* of a part: where they are among those of the union */
	/* Committed windows are left out because of a dictionary: more than a crash does */
	bool lost_windows;
	char damage[700]; /* empty: none */
};

/* Refuse to read rows whose label sets nobody looks at. */
int store_check_scope(const struct store *s, struct err *err);

/* The store that a block is in, of a union. */
static inline struct store *store_of(struct store *s, const struct block_ref *r)
{
	return s->n_parts ? s->parts[r->part] : s;
}

/* The store that gives the ids of names and label sets. */
static inline struct store *store_names(struct store *s)
{
	return s->in ? s->in : s;
}

/*
 * Forget the names and label sets that were read so far: their ids are void. Not of a writer.
 * -ENOMEM.
 */
int store_forget(struct store *s, struct err *err);

void store_init(struct store *s);
void store_fini(struct store *s);

/* Open the directory; -ENOENT, -ENOTDIR and others with their text. */
int store_open_dir(struct store *s, const char *dir, struct err *err);

/* Header, manifest, and indexes of the segments that may grow. */
int store_load(struct store *s, bool write, struct err *err);
/* Note which manifest is there, before it is read. */
void store_stamp(struct store *s);
/* Whether a writer has replaced it since a reader read it. */
bool store_is_stale(const struct store *s);
/*
 * What to say of a file that is not there though the manifest named it. -ESTALE: a reader's, whose
 * manifest has been replaced since; retention has cut the file, open the store anew. -EBADMSG:
 * damage.
 */
int store_missing(const struct store *s, const char *path, struct err *err);

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
int store_children(struct store *s, const struct block_ref *p, const struct block_ref ***ret,
		   size_t *ret_n);

#endif
