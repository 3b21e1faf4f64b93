/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find the inlined calls and lines of user frames, from DWARF. Answers are cached by address
 * (stacks/places.h). Addresses without an answer are collected, and workers look up many at once.
 *
 *   inlined_frames -> cached: frames
 *                  -> wanted (-EINPROGRESS) -> inlined_ask: a batch of up to 256 of one file
 *                     -> answered -> cached
 *
 * A drain spends at most a quarter of its interval, and 1 s, on batches. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_INLINED_H
#define ASCRIBE_STACKS_INLINED_H

#include "stacks/frame.h"
#include "stacks/places.h"

struct inlined;

/* Borrow f until inlined_free. 0 or -ENOMEM. */
int inlined_new(struct inlined **ret, struct frames *f);
void inlined_free(struct inlined *x);

/* Drop all answers: the ids of the store are void, or other debug files have come. */
void inlined_clear(struct inlined *x);

/* Stop or resume looking up addresses. Cached answers stay. */
void inlined_pause(struct inlined *x, bool pause);

/* Begin a drain; drains are drain_ms apart. */
void inlined_begin(struct inlined *x, unsigned drain_ms);

/*
 * Return the frames at an address, innermost first. -EINPROGRESS: it is being looked up. -ENOENT:
 * its file has no DWARF. -ECANCELED: lookups are stopped (inlined_pause). Another error: no time is
 * left, or the DWARF is unreadable. After an error other than -EINPROGRESS, use the name of the
 * symbol alone.
 */
int inlined_frames(struct inlined *x, const struct user_frame *u, uint32_t out[PLACE_FRAMES_MAX],
		   size_t *ret_n);

/* Send the addresses that are wanted to workers, and take the answers that have come. */
void inlined_ask(struct inlined *x);

#endif
