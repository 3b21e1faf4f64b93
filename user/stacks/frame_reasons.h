/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each frame of the open store says about a wait (query/wait_frames.h), by the frame's id. It
 * is noted while the frame's names are at hand: a store that is being written cannot be asked for
 * them. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_FRAME_REASONS_H
#define ASCRIBE_STACKS_FRAME_REASONS_H

#include "query/wait_frames.h"
#include "store/writer.h"

/* All zero is empty. Without memory a frame says nothing. */
struct frame_reasons {
	struct wait_frame *v; /* [cap], by id */
	size_t cap;
};

void frame_reasons_fini(struct frame_reasons *r);
/* The store's ids are void. */
void frame_reasons_clear(struct frame_reasons *r);

void frame_reasons_put(struct frame_reasons *r, uint32_t frame, const struct wait_frame *f);
/* Return what a frame says; all zero when nothing was noted. */
const struct wait_frame *frame_reasons_get(const struct frame_reasons *r, uint32_t frame);

/* The names of a frame that is added to the store; NULL: none. */
struct frame_names {
	const char *function, *module, *file;
};

/* As store_add_frame, and note the frame in r, unless that is NULL. */
int frame_reasons_add(struct frame_reasons *r, struct store_writer *w, const struct store_frame *f,
		      const struct frame_names *names, uint32_t *ret_id);

#endif
