/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limit the CPU time that workers use to read files for names: a share of all time, and half of
 * that for one user's processes. Unused time is kept, up to the share of one drain. Time for which
 * a worker waited or was stopped is charged to no user.
 */
#ifndef ASCRIBE_SYMBOLS_SPENDING_H
#define ASCRIBE_SYMBOLS_SPENDING_H

#include "util/spenders.h"

#include <stdbool.h>
#include <stdint.h>

#define SPENDING_PERCENT 40u
#define SPENDING_LEAST_NS 1000000000ull /* kept at least, however short drains are */

struct spending {
	uint64_t most_ns; /* that is kept; 0: there is no limit */
	uint64_t left_ns, at_ns;
	struct spenders users;
};

/* From now on, with nothing spent: drains are drain_ms apart. Times are of one clock. */
void spending_begin(struct spending *s, unsigned drain_ms, uint64_t now_ns);
bool spending_may(struct spending *s, uint32_t user, uint64_t now_ns);
void spending_add(struct spending *s, uint32_t user, uint64_t ns, uint64_t now_ns);

#endif
