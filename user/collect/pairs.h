/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limit the pairs of a window: a thread that waited, and the thread that caused it. At most so many
 * as there is room for, and no process may be part of more pairs than are free. So a process with
 * ever new label sets takes half, the next such process half of the rest, and the few pairs of
 * others fit.
 */
#ifndef ASCRIBE_COLLECT_PAIRS_H
#define ASCRIBE_COLLECT_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#define PAIRS_MAX 4096
#define PAIRS_PLACES (2 * PAIRS_MAX)
#define PAIRS_PROCESSES 1024 /* counters, by a hash of the process: some share one */

struct pairs {
	uint64_t pair[PAIRS_PLACES]; /* keys by open addressing; 0: free */
	uint32_t n;
	uint16_t of[PAIRS_PROCESSES];
};

/* Begin a window. */
void pairs_clear(struct pairs *p);

/*
 * Add the pair of this key (a hash). max: pairs that have room, at most PAIRS_MAX. a and b are
 * hashes of its two processes. False: no room.
 */
bool pairs_fit(struct pairs *p, uint32_t max, uint64_t key, uint64_t a, uint64_t b);

#endif
