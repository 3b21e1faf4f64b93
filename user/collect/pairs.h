/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pairs of who waited for a CPU and who had it are kept in a window. There are PAIRS_MAX at most, and a process, as one of the
 * two, has no more of them than are still free: one that has label sets without end takes half, the next such one half of what
 * is left, and there is room for everybody else's few.
 */
#ifndef ASCRIBE_COLLECT_PAIRS_H
#define ASCRIBE_COLLECT_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#define PAIRS_MAX 4096
#define PAIRS_PLACES (2 * PAIRS_MAX)
#define PAIRS_PROCESSES 1024 /* counts; processes that fall on the same one share it */

struct pairs {
	uint64_t pair[PAIRS_PLACES]; /* keys, open addressing; 0: free */
	uint32_t n;
	uint16_t of[PAIRS_PROCESSES];
};

/* A window begins. */
void pairs_clear(struct pairs *p);

/* Is the pair of this key (a hash) kept, or is there room for it? a and b: hashes of the processes of its two sides. */
bool pairs_fit(struct pairs *p, uint64_t key, uint64_t a, uint64_t b);

#endif
