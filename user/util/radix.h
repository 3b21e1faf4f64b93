/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting many small keys: by digits of a byte, those that all keys have in common passed over. */
#ifndef ASCRIBE_UTIL_RADIX_H
#define ASCRIBE_UTIL_RADIX_H

#include <stddef.h>
#include <stdint.h>

/*
 * Bring order[], n indices into keys[], into ascending order of their keys. Equal keys keep their
 * order, so that sorting by the lesser key first and by the greater key then sorts by both. n is
 * below 2^32. -ENOMEM: order is as it was.
 */
int radix_sort(uint32_t *order, size_t n, const uint32_t *keys);

#endif
