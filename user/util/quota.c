/* SPDX-License-Identifier: Apache-2.0 */
#include "util/quota.h"

static size_t place_of(uint32_t user)
{
	return user * 0x9e3779b1u >> 24;
}

_Static_assert(QUOTA_PLACES == 1u << 8, "place_of has 8 bits");

bool quota_is_greedy(const struct quota *q, uint32_t user, size_t n)
{
	size_t share = q->max / 4 * 3, taken = q->by_user[place_of(user)];
	return n > share - (taken < share ? taken : share);
}

bool quota_has(const struct quota *q, uint32_t user, size_t n)
{
	size_t left = q->taken < q->max ? q->max - q->taken : 0;
	return n <= left && !quota_is_greedy(q, user, n);
}

void quota_add(struct quota *q, uint32_t user, size_t n)
{
	q->taken += n;
	q->by_user[place_of(user)] += n;
}

bool quota_take(struct quota *q, uint32_t user, size_t n)
{
	if (!quota_has(q, user, n))
		return false;
	quota_add(q, user, n);
	return true;
}

void quota_give(struct quota *q, uint32_t user, size_t n)
{
	q->taken -= n;
	q->by_user[place_of(user)] -= n;
}
