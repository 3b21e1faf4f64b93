/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of frames by code address: (content of a file, address) -> the store's frames there,
 * innermost first. A cache that is full is emptied. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_PLACES_H
#define ASCRIBE_STACKS_PLACES_H

#include <stddef.h>
#include <stdint.h>

#define PLACES_MAX 65536u
#define PLACE_FRAMES_MAX 24u

struct places;

int places_new(struct places **ret);
void places_free(struct places *p);

/*
 * Return the number of frames, 0 when there is no entry. The frames are valid until the next
 * places_add.
 */
size_t places_find(const struct places *p, uint64_t content, uint64_t addr,
		   const uint32_t **ret_frames);

/* Remove all entries. */
void places_clear(struct places *p);

/* Add n frames, 1 to PLACE_FRAMES_MAX. 0 or -ENOMEM. */
int places_add(struct places *p, uint64_t content, uint64_t addr, const uint32_t *frames, size_t n);

#endif
