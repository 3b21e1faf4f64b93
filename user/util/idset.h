/* SPDX-License-Identifier: Apache-2.0 */
/* A set of ids below a limit: one bit for each. All zero is a set that has no room. */
#ifndef ASCRIBE_UTIL_IDSET_H
#define ASCRIBE_UTIL_IDSET_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct idset {
	uint64_t *words;
	size_t n_words;
};

#define IDSET_NONE UINT32_MAX

/* Make an empty set of ids below n. -ENOMEM. */
static inline int idset_init(struct idset *s, size_t n)
{
	*s = (struct idset){ calloc(n / 64 + 1, sizeof(*s->words)), n / 64 + 1 };
	return s->words ? 0 : -ENOMEM;
}

static inline void idset_fini(struct idset *s)
{
	free(s->words);
	*s = (struct idset){ 0 };
}

/* Make room for ids below n. -ENOMEM. */
static inline int idset_reserve(struct idset *s, size_t n)
{
	size_t words = n / 64 + 1;
	if (words <= s->n_words)
		return 0;
	uint64_t *v = realloc(s->words, words * sizeof(*v));
	if (!v)
		return -ENOMEM;
	memset(v + s->n_words, 0, (words - s->n_words) * sizeof(*v));
	*s = (struct idset){ v, words };
	return 0;
}

static inline bool idset_has(const struct idset *s, uint32_t id)
{
	return s->words[id / 64] >> id % 64 & 1;
}

static inline void idset_add(struct idset *s, uint32_t id)
{
	s->words[id / 64] |= (uint64_t)1 << id % 64;
}

/* Return the first member from `id` on, IDSET_NONE: there is none. */
static inline uint32_t idset_next(const struct idset *s, uint32_t id)
{
	size_t i = id / 64;
	uint64_t left = i < s->n_words ? s->words[i] >> id % 64 << id % 64 : 0;
	while (!left && ++i < s->n_words)
		left = s->words[i];
	return left ? (uint32_t)(64 * i) + (uint32_t)__builtin_ctzll(left) : IDSET_NONE;
}

/* Return the last member below `id`, IDSET_NONE: there is none. */
static inline uint32_t idset_before(const struct idset *s, uint32_t id)
{
	size_t i = id / 64;
	uint64_t left =
		i < s->n_words && id % 64 ? s->words[i] << (64 - id % 64) >> (64 - id % 64) : 0;
	while (!left && i-- > 0)
		left = s->words[i];
	return left ? (uint32_t)(64 * i) + 63 - (uint32_t)__builtin_clzll(left) : IDSET_NONE;
}

#endif
