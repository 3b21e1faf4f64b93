/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples with a copy of their stack: their process or mapping was too new to have unwind rules in
 * BPF (bpf/copy.bpf.h). Keep each copy until its rules are compiled, unwind it with the walk of the
 * BPF program, and store it with the rows of the window in which it began. So each sample counts
 * once, and in the same window as `fired`.
 *
 *   copies_add -> queue -> unwind (copies_tick, after the side-band was read up to its time)
 *                   |        |
 *                   +--------+-> taken with its half (copies_take) -> handed out when unwound
 *
 * The queue is bounded: beyond COPIES_BYTES_MAX, which users share (quota.h), and when its window
 * ends, a sample is unwound with the rules that exist. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_COPIES_H
#define ASCRIBE_STACKS_COPIES_H

#include "stacks/unwinding.h"

#define COPIES_BYTES_MAX (4u << 20)

struct copies;

int copies_new(struct copies **ret, struct unwinding *u);
void copies_free(struct copies *c);

/*
 * user: proc_image_user of its image. -ENOMEM: the sample is lost; the half of its CPU has counted
 * it as begun.
 */
int copies_add(struct copies *c, const struct wire_copy *w, const uint8_t *stack, uint32_t user);

/*
 * Unwind copies from before news_ns (the side-band was read up to there), for some milliseconds. 0:
 * there are more; -1: none can be unwound now.
 */
int copies_tick(struct copies *c, uint64_t news_ns);

/* Compilers have answered: copies_tick may find rules that were missing. */
void copies_go_on(struct copies *c);

/* Return the time of the latest sample of half `key` that is not unwound, 0 for none. */
uint64_t copies_newest(const struct copies *c, uint32_t key);

/* Take the samples of half `key`: copies_hand_out passes them on from now on. */
void copies_take(struct copies *c, uint32_t key);

/*
 * Pass the samples that were taken and unwound to row, each with its frames (row->stack is 0), its
 * weight (struct wire_copy) and the counter for the end of its user stack. With `now`, unwind the
 * others first, with the rules that exist. Return true if some are left.
 */
bool copies_hand_out(struct copies *c, bool now,
		     void (*row)(void *ctx, unsigned cpu, const struct row *row,
				 const uint64_t *frames, uint64_t weight, enum counter end),
		     void *ctx);

#endif
