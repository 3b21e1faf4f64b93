/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inlined calls and lines of user frames, from DWARF. What is known of an address is kept (stacks/places.h). Others are
 * collected, and asked for many at once.
 *
 *   inlined_frames -> known: frames
 *                  -> wanted (-EINPROGRESS) -> inlined_ask: a batch of up to 256 of one file -> answered -> known
 *
 * A drain spends at most a quarter of its interval, and 1 s, on batches. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_INLINED_H
#define ASCRIBE_STACKS_INLINED_H

#include "stacks/frame.h"
#include "stacks/places.h"

struct inlined;

/* f is borrowed. */
int inlined_new(struct inlined **ret, struct frames *f);
void inlined_free(struct inlined *x);

/* Forget all that is known: ids of the store are void, or files say otherwise now. */
void inlined_clear(struct inlined *x);

/* Look no further places up, or again: what is known stays. */
void inlined_pause(struct inlined *x, bool pause);

/* A new drain; drains are drain_ms apart. */
void inlined_begin(struct inlined *x, unsigned drain_ms);

/*
 * Return the frames at a place, innermost first. -EINPROGRESS: the place is being looked up. -ENOENT: its file has no DWARF.
 * -ECANCELED: no places are looked up (inlined_pause). Other errors: there is no time for it, or it is unreadable. Then use the
 * symbol's name alone.
 */
int inlined_frames(struct inlined *x, const struct user_frame *u, uint32_t out[PLACE_FRAMES_MAX], size_t *ret_n);

/* Ask for places that are wanted, and take the answers that have come. */
void inlined_ask(struct inlined *x);

#endif
