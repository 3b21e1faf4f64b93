/* SPDX-License-Identifier: Apache-2.0 */
/* The store's frames of kernel addresses. Not thread-safe. */
#ifndef ASCRIBE_STACKS_KERNEL_FRAMES_H
#define ASCRIBE_STACKS_KERNEL_FRAMES_H

#include "sandbox/keeper.h"
#include "stacks/frame.h"

struct kernel_frames;

keeper_op kernel_frames_op; /* opens the kernel's symbols; for the keeper's table */

/*
 * f is borrowed. Reads the kernel's symbols. When that fails, *ret_warning has the reason (errno
 * and text), and frames have no names.
 */
int kernel_frames_new(struct kernel_frames **ret, struct frames *f, struct err *ret_warning);
void kernel_frames_free(struct kernel_frames *k);

/* Drop all ids of the store. Call it once at the start, and whenever the store renews its ids. */
int kernel_frames_renewed(struct kernel_frames *k);

/* Return the frame of an address. leaf: not a return address. 0 or -errno of the store. */
int kernel_frames_at(struct kernel_frames *k, uint64_t addr, bool leaf, uint32_t *ret);

/*
 * Return how many of the n frames (leaf first) to remove. These are the ones up to the frame of
 * `function` near the leaf, and the frame of `caller` if it is the next one. 0: `function` is
 * missing, or would be the last frame.
 */
uint32_t kernel_frames_above(struct kernel_frames *k, const uint64_t *frames, uint32_t n,
			     const char *function, const char *caller);

/* Return the stack of idle CPUs. */
int kernel_frames_idle(struct kernel_frames *k, uint32_t *ret_stack);

#endif
