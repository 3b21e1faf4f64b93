/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The track of a window: when each of its samples was taken, on which CPU, and which row of the
 * window it counts in. Layout: docs/format.md, "Tracks".
 */
#ifndef ASCRIBE_STORE_BLOCK_TRACK_H
#define ASCRIBE_STORE_BLOCK_TRACK_H

#include "store/instants.h"
#include "util/buf.h"

/* Of the window with these times and rows. */
struct track {
	int64_t t0_ns, t1_ns;
	uint32_t n_rows;
	struct store_instant *v; /* by time */
	size_t n, cap;
};

/* Append the bytes of a track, whose instants are in order of time. -ENOMEM. */
int track_encode(struct buf *out, const struct track *t);
/*
 * All zero but what follows from the bytes. -EBADMSG: they are none, or name a row or a CPU that
 * cannot be; -ENOMEM. To be released either way.
 */
int track_decode(struct track *ret, const uint8_t *data, size_t len);
void track_fini(struct track *t);

#endif
