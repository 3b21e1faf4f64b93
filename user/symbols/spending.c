/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/spending.h"

#include <string.h>

void spending_begin(struct spending *s, unsigned drain_ms, uint64_t now_ns)
{
	uint64_t share = drain_ms * 1000000ull / 100 * SPENDING_PERCENT;
	memset(s, 0, sizeof(*s));
	s->most_ns = s->left_ns = share > SPENDING_LEAST_NS ? share : SPENDING_LEAST_NS;
	s->at_ns = now_ns;
}

static void spending_earn(struct spending *s, uint64_t now_ns)
{
	s->left_ns += (now_ns - s->at_ns) / 100 * SPENDING_PERCENT;
	s->at_ns = now_ns;
	if (s->left_ns > s->most_ns)
		s->left_ns = s->most_ns;
}

static struct spender *spender_find(struct spending *s, uint32_t user, uint64_t now_ns)
{
	/* Half of what all earn */
	return spenders_find(&s->users, user, 200 / SPENDING_PERCENT, now_ns);
}

bool spending_may(struct spending *s, uint32_t user, uint64_t now_ns)
{
	if (!s->most_ns)
		return true;
	spending_earn(s, now_ns);
	return s->left_ns && spender_find(s, user, now_ns)->spent_ns < s->most_ns / 2;
}

void spending_add(struct spending *s, uint32_t user, uint64_t ns, uint64_t now_ns)
{
	if (!s->most_ns)
		return;
	spending_earn(s, now_ns);
	s->left_ns -= ns < s->left_ns ? ns : s->left_ns;
	spender_find(s, user, now_ns)->spent_ns += ns;
}
