/* SPDX-License-Identifier: Apache-2.0 */
/* Stores made of others: the copy of a live one, several in one, one without some of its rows. */
#ifndef ASCRIBE_STORE_OPS_COPY_H
#define ASCRIBE_STORE_OPS_COPY_H

#include "store/store.h"

struct snapshot_result {
	size_t linked, copied; /* files */
	uint64_t bytes_copied;
	size_t windows;
};

/*
 * Make `to` a copy of the store `from`, which may be written meanwhile: it has every window that
 * was committed when the call began. Sealed segments become hard links where the file system and
 * the owner of the files allow it. stop (may be NULL): ends it early with -EINTR when it becomes
 * true. -EEXIST: `to` is there. -ESTALE: retention cuts files faster than they can be copied. After
 * a failure nothing is left.
 */
int store_snapshot(const char *from, const char *to, const volatile bool *stop,
		   struct snapshot_result *ret, struct err *err);

/*
 * The same with the windows from since_ns on alone, and those that share their files; parents are
 * left out. Both keep the tracks of their windows.
 */
int store_freeze(const char *from, const char *to, int64_t since_ns, struct snapshot_result *ret,
		 struct err *err);

struct copy_result {
	size_t windows; /* of the new store */
	size_t coarse;	/* of them, parents whose windows were cut */
	uint64_t removed_samples;
	size_t touched; /* windows that lost rows */
	size_t blind;	/* parents that cannot tell whether they have such rows: those stay, without
			   the label */
};

/*
 * Make `to` the windows of several stores, in order of time. Rows get the label `host` with the
 * host name of their store where they have none. Counters are joined by their names. Where windows
 * were cut, the finest parents that are left become windows, with the labels that they can tell
 * (copy_rows.c). Memory is bounded but for the list of blocks. stop: as above. -EEXIST: `to` is
 * there. After a failure nothing is left.
 */
int store_merge(const char *const *from, size_t n, const char *to, const volatile bool *stop,
		struct copy_result *ret, struct err *err);

/* Which rows go. */
struct store_deletion {
	int64_t from_ns, to_ns; /* windows that overlap; rounded as those of questions are */
	store_filter *matches;	/* label sets */
	int (*event)(void *ctx, const char *event, bool *ret);
	bool (*counts)(const struct store_event *e); /* whether samples of this event are in the
							totals; NULL: all are */
	const char *const *keys;		     /* that `matches` looks at; NULL: any */
	size_t n_keys;
	/* NULL, or called when the store `to` is about to take the place of `from` */
	int (*ready)(void *ctx, const char *from, const char *to, struct err *err);
	void *ctx;
};

#define DELETED_LOSS "deleted" /* removed samples are counted under this name */

/*
 * Remove rows for good: write the store anew without them beside it, and put that in its place.
 * Needs as much space as the store has. -EBUSY: somebody writes the store. When nothing matches, or
 * after a failure, the store is as it was. stop: as above.
 */
int store_delete(const char *dir, const struct store_deletion *d, const volatile bool *stop,
		 struct copy_result *ret, struct err *err);

#endif
