/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that came with a copy of their stack, because their process or mapping was too new for the program to have
 * rules (bpf/copy.bpf.h): kept until the rules are compiled, unwound by the program's own walk, stored with the rows of
 * the half that they began in. So none is lost, and none counts twice or in another window than `fired` does.
 *
 *   copies_add -> waits -> unwound (copies_tick, when the news up to its time is known) -> copies_take
 *
 * What waits is bounded: beyond COPIES_BYTES_MAX, and when its half is taken, a sample is unwound with what there is. copies_add waits
 * for nothing, so that the ring can be emptied while a parser is waited for.
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

/* The time of the latest sample of half `key` that is not unwound, 0 when there is none. */
uint64_t copies_newest(const struct copies *c, uint32_t key);

/*
 * Hand out the samples of half `key`, each with its frames (row->stack is 0) and the counter that says why its user stack ends.
 * Those not unwound yet are now, with at most some 200 ms of compiling. Those that row takes are forgotten; those for which it returns
 * false are handed out again by the next call.
 */
void copies_take(struct copies *c, uint32_t key,
		 bool (*row)(void *ctx, const struct row *row, const uint64_t *frames, enum counter end), void *ctx);

#endif
