/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids of the store that are kept beside what they stand for. A new symbol generation makes all of
 * them void at once: each carries the life it was given in.
 */
#ifndef ASCRIBE_STACKS_IDS_H
#define ASCRIBE_STACKS_IDS_H

#include <stdbool.h>
#include <stdint.h>

/* 0: none was given. Lives count from 1. */
typedef uint64_t kept_id;

static inline bool kept_get(kept_id k, uint32_t life, uint32_t *ret)
{
	*ret = (uint32_t)k;
	return k >> 32 == life;
}

static inline kept_id kept_put(uint32_t id, uint32_t life)
{
	return (uint64_t)life << 32 | id;
}

#endif
