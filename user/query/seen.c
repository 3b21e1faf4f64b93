/* SPDX-License-Identifier: Apache-2.0 */
#include "query/seen.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

#define BITS_EACH 8

int seen_init(struct seen *s, size_t most, uint64_t seed)
{
	size_t n = 64;
	while (n < most * BITS_EACH)
		n *= 2;
	*s = (struct seen){ .bits = calloc(n / 64, sizeof(*s->bits)), .mask = n - 1, .seed = seed };
	return s->bits ? 0 : -ENOMEM;
}

void seen_fini(struct seen *s)
{
	free(s->bits);
}

bool seen_add(struct seen *s, const struct store_frame *f)
{
	const uint64_t key[3] = { f->function, f->module, f->function ? 0 : f->offset };
	size_t at = XXH3_64bits_withSeed(key, sizeof(key), s->seed) & s->mask;
	uint64_t bit = (uint64_t)1 << at % 64;
	bool is_new = !(s->bits[at / 64] & bit);
	s->bits[at / 64] |= bit;
	return is_new;
}
