/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limit the pairs of a window: a thread that waited for a CPU, and one that had it. There are PAIRS_MAX
 * at most, and each process is part of no more pairs than are still free. So a process with ever new
 * label sets takes half, the next such process half of the rest, and the few pairs of others fit.
 */
#ifndef ASCRIBE_COLLECT_PAIRS_H
#define ASCRIBE_COLLECT_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#define PAIRS_MAX 4096
#define PAIRS_PLACES (2 * PAIRS_MAX)
#define PAIRS_PROCESSES 1024 /* counts, by a hash of the process: some share one */

struct pairs {
	uint64_t pair[PAIRS_PLACES]; /* keys by open addressing; 0: free */
	uint32_t n;
	uint16_t of[PAIRS_PROCESSES];
};

/* A window begins. */
void pairs_clear(struct pairs *p);

/* Keep the pair of this key (a hash); false: there is no room. a and b are hashes of its two processes. */
bool pairs_fit(struct pairs *p, uint64_t key, uint64_t a, uint64_t b);

#endif
