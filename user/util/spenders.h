/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time that users have spent lately: a leaky bucket for each of SPENDERS users. Where there are
 * more, the one who spent least is forgotten. Not thread-safe.
 */
#ifndef ASCRIBE_UTIL_SPENDERS_H
#define ASCRIBE_UTIL_SPENDERS_H

#include <stdint.h>

#define SPENDERS 64

struct spender {
	uint32_t user;
	uint64_t spent_ns, at_ns; /* spent_ns 0: a free place */
};

/* All zero: nobody has spent anything. */
struct spenders {
	struct spender v[SPENDERS];
};

/*
 * Return the place of a user. What each one spent decreases by 1 ns every `earn` ns. now_ns: of one
 * clock, always the same. Valid until the next call.
 */
struct spender *spenders_find(struct spenders *s, uint32_t user, unsigned earn, uint64_t now_ns);

#endif
