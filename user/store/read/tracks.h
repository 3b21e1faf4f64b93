/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the tracks of windows, and blocks that are parts of windows: what a window has between
 * two instants, by its track.
 */
#ifndef ASCRIBE_STORE_READ_TRACKS_H
#define ASCRIBE_STORE_READ_TRACKS_H

#include "store/block/track.h"
#include "store/read/block_data.h"
#include "store/read/store_int.h"

/*
 * The track of a window; to be freed with track_fini. -ENOENT: it has none, or none any more.
 * -EBADMSG: it is damaged.
 */
int tracks_read(struct store *s, const struct block_ref *window, struct track *ret,
		struct err *err);
/* The track of a frame with these bytes: as track_decode. */
int tracks_decode(const struct frame *h, const uint8_t *stored, struct track *ret);
/* Whether there is one, by what the file says. -ENOMEM. */
int tracks_has(struct store *s, const struct block_ref *window, bool *ret, struct err *err);
void tracks_forget(struct tracks *t);

/*
 * Move the ends of a range to borders of windows, but for those in windows with a track where the
 * range is shorter than STORE_CUT_NS: the answers of a longer one are the same for a while. Else as
 * store_round.
 */
int tracks_round(struct store *s, int64_t *from_ns, int64_t *to_ns, struct err *err);
/*
 * Put parts in the place of windows that are not wholly in the range and have a track. They are the
 * cover's.
 */
int tracks_cut(struct store *s, int64_t from_ns, int64_t to_ns, struct store_cover *c,
	       struct err *err);
/* Make the counters of the window those of a part: their share of its time, since they have no
 * track. */
void part_scale(const struct block_ref *part, struct totals *t);
/* The rows of a part, as block_read. */
int part_read(struct store *s, const struct block_ref *part, uint32_t wanted,
	      struct block_data *ret, struct err *err);

#endif
