/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte strings to dense numbers: equal bytes, equal number; numbers from 0 in order of first use.
 * Not thread-safe.
 */
#ifndef ASCRIBE_EXPORT_INTERN_H
#define ASCRIBE_EXPORT_INTERN_H

#include "util/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct intern {
	struct buf bytes; /* every key, one behind the other */
	size_t *end;	  /* [n]: where key i ends */
	uint64_t *hash;	  /* [n] */
	uint32_t *slots;  /* number + 1, 0: free; a power of two, at most half full */
	size_t n, cap, n_slots;
};

/* All zero is an empty table. */
void intern_fini(struct intern *t);

/* -ENOMEM or -E2BIG (more than 2^31 keys) leave the table as it was. ret_new may be NULL. */
int intern_add(struct intern *t, const void *key, size_t len, uint32_t *ret_id, bool *ret_new);

/* Valid until the next intern_add. id < t->n. */
const void *intern_get(const struct intern *t, uint32_t id, size_t *ret_len);

#endif
