/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks that threads were blocked in: their names, and of which kind they are. A lock is a futex of
 * one process, by its address. Those of before are kept over the end of a window, so that a lock is
 * looked for once.
 *
 * Sampled waits say of which kind the lock is. Other waits for the same lock take it from them,
 * unless two of them disagree: then the address is that of the thread, and not of the lock.
 *
 * At most LOCKS_MAX are known, of one process no more than are still free. Of a window LOCKS_NAMED
 * keep their names, those with the most time; the others are "(other)".
 */
#ifndef ASCRIBE_COLLECT_LOCKS_H
#define ASCRIBE_COLLECT_LOCKS_H

#include "collect/lock_names.h"
#include "labels/labels.h"
#include "query/lock_frames.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOCKS_MAX 4096
#define LOCKS_NAMED 256
#define LOCK_LABELS 3

/* Ids of locks; those of locks follow. */
enum { LOCK_ID_NONE, LOCK_ID_OTHER, LOCK_ID_FIRST };

/* What is known of one wait: the bits of a number, so that rows go by it. */
enum {
	LOCK_END_INTERRUPT = 1, /* of struct lock_end */
	LOCK_END_UNKNOWN = 2,
	LOCK_END_RELEASED = 4,
	LOCK_END_STACK = 8,
	LOCK_END_RELEASE = 16,
	LOCK_END_KIND_SHIFT = 8, /* enum lock_kind, by the wait's own stack */
};

struct locks;

/* Borrow both until locks_free. 0 or -ENOMEM. */
int locks_new(struct locks **ret, struct procs *procs, struct resolver *resolver);
void locks_free(struct locks *l);

/* A window begins. */
void locks_window(struct locks *l);

/*
 * Return the id of a futex of a process, LOCK_ID_OTHER for lack of room. False in *ret_known while
 * its name is being looked for. ns: BOOTTIME of the wait.
 */
uint32_t locks_id(struct locks *l, const struct proc_id *id, uint64_t futex, uint64_t ns,
		  bool *ret_known);

/* A sampled wait says so of it; LOCK_NONE says nothing. */
void locks_note_kind(struct locks *l, uint32_t lock, enum lock_kind kind);

/* The window is over: add the time of each row, then rank, then ask for groups and labels. */
void locks_add_time(struct locks *l, uint32_t lock, uint64_t ns);
void locks_rank(struct locks *l);
/* Of which kind it is; LOCK_NONE: no wait for it said so, or two disagree. */
enum lock_kind locks_kind(const struct locks *l, uint32_t lock);
/* One number for all futexes of one lock: threads wait for a condition in one of two. */
uint32_t locks_group(struct locks *l, uint32_t lock);
/* Is it "(other)" though it has an id? After locks_rank. */
bool locks_is_cut(const struct locks *l, uint32_t lock);

/*
 * Return the labels of a wait for this lock, in `out`; their texts are valid until the next call.
 * end: LOCK_END_*. 0: it is no lock.
 */
size_t locks_labels(struct locks *l, uint32_t lock, uint32_t end, struct label out[LOCK_LABELS]);

#endif
