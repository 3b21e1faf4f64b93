/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Share a limited resource among users: one user has at most three quarters of it, so that others
 * find some when one takes all it can. Users with the same hash share a place. Not thread-safe.
 */
#ifndef ASCRIBE_UTIL_QUOTA_H
#define ASCRIBE_UTIL_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUOTA_PLACES 256

/* Zero but for max: nothing is taken. */
struct quota {
	size_t max, taken;
	size_t by_user[QUOTA_PLACES];
};

/* True if a user may have n more. */
bool quota_has(const struct quota *q, uint32_t user, size_t n);
/* Take n of the resource for a user. False: there is not so much left, or not for this user. */
bool quota_take(struct quota *q, uint32_t user, size_t n);
/* True if the user may not have n more, although others may. */
bool quota_is_greedy(const struct quota *q, uint32_t user, size_t n);
/* Take n that are in use in any case: a user may then have more than its share. */
void quota_add(struct quota *q, uint32_t user, size_t n);
/* Give back what was taken. */
void quota_give(struct quota *q, uint32_t user, size_t n);

#endif
