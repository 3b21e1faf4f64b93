/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One histogram that many threads write at full speed: each of the first HIST_SLOTS threads has one
 * of its own, made when the thread first records; all others share one. A snapshot is the sum.
 *
 * A thread takes its slot at its first record and gives it back when it ends; its counts stay, and
 * the next thread of that slot goes on with them. Not for signal handlers.
 */
#ifndef ASCRIBE_HIST_MULTI_H
#define ASCRIBE_HIST_MULTI_H

#include "hist/hist.h"
#include "hist/snapshot.h"

#define HIST_SLOTS 64
#define HIST_SLOT_UNKNOWN HIST_SLOTS
#define HIST_SLOT_NONE (HIST_SLOTS + 1)

struct hist_multi {
	/* By slot; hist_none: not yet, and always for the two that are no slots */
	struct hist *own[HIST_SLOTS + 2];
	struct hist *shared;
};

/* A histogram without rows, never written. */
extern const struct hist hist_none;

extern _Thread_local uint32_t hist_slot;

/* bits <= HIST_BITS_MAX. */
int hist_multi_new(unsigned bits, struct hist_multi **ret);

/* No thread may be recording. */
void hist_multi_free(struct hist_multi *m);

/* As the calls of snapshot.h that fail. */
int hist_multi_snapshot(const struct hist_multi *m, struct hist_snapshot *s, struct err *err);
size_t hist_multi_bytes(const struct hist_multi *m);

void hist_multi_slow(struct hist_multi *m, uint64_t value);

HIST_INLINE void hist_multi_record(struct hist_multi *m, uint64_t value)
{
	struct hist *own = __atomic_load_n(&m->own[hist_slot], __ATOMIC_RELAXED);
	uint32_t place = hist_place(own, value);
	if (__builtin_expect(place < 64, 0)) /* no slot, no histogram yet, or no row yet */
		hist_multi_slow(m, value);
	else if (__builtin_expect(hist_increment(hist_counter_at(own, place, value)), 0))
		hist_carry(own, value);
}

#endif
