/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/pairs.h"

#include <string.h>

void pairs_clear(struct pairs *p)
{
	if (p->n)
		memset(p, 0, sizeof(*p));
}

static uint16_t *count_of(struct pairs *p, uint64_t process)
{
	return &p->of[(process * 0x9e3779b97f4a7c15ull >> 32) % PAIRS_PROCESSES];
}

bool pairs_fit(struct pairs *p, uint32_t max, uint64_t key, uint64_t a, uint64_t b)
{
	uint16_t *of_a = count_of(p, a), *of_b = count_of(p, b);
	uint32_t free_places = max > p->n ? max - p->n : 0;
	size_t at = (key |= 1) >> 32;
	while (p->pair[at % PAIRS_PLACES] && p->pair[at % PAIRS_PLACES] != key)
		at++;
	if (p->pair[at % PAIRS_PLACES])
		return true;
	if (*of_a >= free_places || *of_b >= free_places)
		return false;
	p->pair[at % PAIRS_PLACES] = key;
	p->n++;
	++*of_a;
	*of_b += of_b != of_a;
	return true;
}
