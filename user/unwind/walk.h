/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk of the BPF program (include/unwind_walk.h), compiled for user space: from registers and
 * whatever memory the caller has of a process, by the same tables, to the same frames. Nothing that
 * is read is trusted. Not thread-safe.
 */
#ifndef ASCRIBE_UNWIND_WALK_USER_H
#define ASCRIBE_UNWIND_WALK_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>
#include "wire.h"

struct unwind_tables {
	/* [n_ranges], sorted, not overlapping: those of one process */
	const struct unwind_range *ranges;
	uint32_t n_ranges;
	const struct unwind_page *pages; /* [UNWIND_PAGES] */
	const struct unwind_rule *rules; /* [UNWIND_RULES] */
	uint32_t *const *shards;	 /* [UNWIND_SHARDS], NULL where there is none */
	uint32_t *(*shard)(void *ctx, unsigned shard); /* the same by asking; NULL: by the array */
	void *ctx;
};

struct unwind_memory {
	bool (*read)(void *ctx, void *to, size_t n, uint64_t at);
	void *ctx;
};

/*
 * The bits that an address of a process can have, all set: of any process that has not asked for
 * more than it is given by default. The stack is near the highest address there is.
 */
uint64_t unwind_address_bits(void);

/*
 * The frames of a thread with these registers, leaf first, in out[USER_FRAMES_MAX]: how many, at
 * least 1. What a signal interrupted is written as its address + 1, as the program does. *ret_end
 * is the counter that says why they end.
 */
unsigned unwind_walk(const struct unwind_tables *t, const struct unwind_memory *m,
		     const struct user_registers *regs, uint64_t *out, enum counter *ret_end);

#endif
