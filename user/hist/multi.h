/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One histogram that many threads write at full speed: each of the first HIST_SLOTS threads has one of its own, made when the thread
 * first records; all others share one. A snapshot is the sum.
 *
 * A thread takes its slot at its first record and gives it back when it ends; its counts stay, and the next thread of that slot goes on
 * with them. Not for signal handlers.
 */
#ifndef ASCRIBE_HIST_MULTI_H
#define ASCRIBE_HIST_MULTI_H

#include "hist/hist.h"
#include "hist/snapshot.h"

#define HIST_SLOTS 64
#define HIST_SLOT_UNKNOWN UINT32_MAX
#define HIST_SLOT_NONE (UINT32_MAX - 1)

struct hist_multi {
	struct hist *shared;
	struct hist *own[HIST_SLOTS]; /* by slot */
};

extern _Thread_local uint32_t hist_slot;

/* bits <= HIST_BITS_MAX. */
int hist_multi_new(unsigned bits, struct hist_multi **ret);

/* No thread may be recording. */
void hist_multi_free(struct hist_multi *m);

/* As the calls of snapshot.h that fail. */
int hist_multi_snapshot(const struct hist_multi *m, struct hist_snapshot *s, struct err *err);
size_t hist_multi_bytes(const struct hist_multi *m);

void hist_multi_first(struct hist_multi *m, uint64_t value);

HIST_INLINE void hist_multi_record(struct hist_multi *m, uint64_t value)
{
	struct hist *own = NULL;
	if (__builtin_expect(hist_slot < HIST_SLOTS, 1))
		own = __atomic_load_n(&m->own[hist_slot], __ATOMIC_RELAXED);
	if (__builtin_expect(own != NULL, 1))
		hist_record_own(own, value);
	else
		hist_multi_first(m, value);
}

#endif
