/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: the track of a window. What is decoded is encoded again, and is the same then.
 *
 * Covers: store/block/track.c
 */
#include "fuzz/input.h"
#include "store/block/track.h"

static void compare(const struct track *a, const struct track *b)
{
	require(a->n == b->n && a->t0_ns == b->t0_ns && a->t1_ns == b->t1_ns &&
		a->n_rows == b->n_rows);
	for (size_t i = 0; i < a->n && i < b->n; i++)
		require(a->v[i].at_ns == b->v[i].at_ns && a->v[i].row == b->v[i].row &&
			a->v[i].cpu == b->v[i].cpu && a->v[i].length_us == b->v[i].length_us);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct track t, again;
	struct buf out = BUF_INIT;
	if (!track_decode(&t, data, size) && !track_encode(&out, &t)) {
		if (well(track_decode(&again, out.data, out.len)))
			compare(&t, &again);
		track_fini(&again);
	}
	track_fini(&t);
	buf_fini(&out);
	return 0;
}
