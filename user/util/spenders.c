/* SPDX-License-Identifier: Apache-2.0 */
#include "util/spenders.h"

struct spender *spenders_find(struct spenders *s, uint32_t user, unsigned earn, uint64_t now_ns)
{
	struct spender *least = &s->v[0];
	for (unsigned i = 0; i < SPENDERS; i++) {
		struct spender *u = &s->v[i];
		uint64_t earned = (now_ns - u->at_ns) / earn;
		u->spent_ns = u->spent_ns > earned ? u->spent_ns - earned : 0;
		u->at_ns = now_ns;
		if (u->spent_ns && u->user == user)
			return u;
		if (u->spent_ns < least->spent_ns)
			least = u;
	}
	*least = (struct spender){ .user = user, .at_ns = now_ns };
	return least;
}
