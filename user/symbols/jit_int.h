/* SPDX-License-Identifier: Apache-2.0 */
/* Between the readers of the two formats and what they have in common. */
#ifndef ASCRIBE_SYMBOLS_JIT_INT_H
#define ASCRIBE_SYMBOLS_JIT_INT_H

#include "symbols/jit.h"

/* What a file says, in its order. */
struct jit_said {
	struct jit_entry *v;
	size_t n, cap;
	struct buf names;
	uint32_t failures;
};

/*
 * -E2BIG when there is no room. A size of 0 or an end past the address space counts as a failure.
 */
int jit_say(struct jit_said *s, uint64_t addr, uint64_t size, const char *name, size_t len);

/* The same function at another place. */
int jit_say_again(struct jit_said *s, uint64_t addr, uint64_t size, uint32_t name);

/* The table from what a worker answered; -EBADMSG, -ENOMEM. To be freed by jit_fini. */
int jit_decode(struct jit_table *ret, const struct buf *answer);

int jit_read_perf_map(struct jit_said *s, int fd);
int jit_read_dump(struct jit_said *s, int fd);

#endif
