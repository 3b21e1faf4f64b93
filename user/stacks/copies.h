/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that came with a copy of their stack, because their process or mapping was too new for the program to have
 * rules (bpf/copy.bpf.h): kept until the rules are compiled, unwound by the program's own walk, stored with the rows of
 * the window that they began in. So none is lost, and none counts twice or in another window than `fired` does.
 *
 *   copies_add -> waits -> unwound (copies_tick, when the news up to its time is known)
 *                  |          |
 *                  +----------+-> taken with its half (copies_take) -> handed out, when it is unwound
 *
 * What waits is bounded: beyond COPIES_BYTES_MAX, and when its window ends, a sample is unwound with what there is.
 * Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_COPIES_H
#define ASCRIBE_STACKS_COPIES_H

#include "stacks/unwinding.h"

#define COPIES_BYTES_MAX (4u << 20)

struct copies;

int copies_new(struct copies **ret, struct unwinding *u);
void copies_free(struct copies *c);

/* -ENOMEM: the sample could not be kept; its CPU's half counts it as begun. */
int copies_add(struct copies *c, const struct wire_copy *w, const uint8_t *stack);
bool copies_have_room(const struct copies *c);

/*
 * Unwind those whose time is before news_ns (up to which the side-band was read), some milliseconds of it. 0: there is
 * more; -1: nothing can be done now.
 */
int copies_tick(struct copies *c, uint64_t news_ns);

/* Compilers have answered: copies_tick may find rules that were missing. */
void copies_go_on(struct copies *c);

/* The time of the latest sample of half `key` that is not unwound, 0 when there is none. */
uint64_t copies_newest(const struct copies *c, uint32_t key);

/* Its half is taken: its samples are handed out from now on. */
void copies_take(struct copies *c, uint32_t key);

/*
 * Hand out what was taken and is unwound, each with its frames (row->stack is 0) and the counter that says why its user stack ends;
 * half is the key. With `now` the others are unwound with the rules that there are. True: some are left.
 */
bool copies_hand_out(struct copies *c, bool now,
		     void (*row)(void *ctx, uint32_t half, const struct row *row, const uint64_t *frames, enum counter end), void *ctx);

#endif
