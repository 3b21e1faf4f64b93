/* SPDX-License-Identifier: Apache-2.0 */
/* The store's frames of kernel addresses. Not thread-safe. */
#ifndef ASCRIBE_STACKS_KERNEL_FRAMES_H
#define ASCRIBE_STACKS_KERNEL_FRAMES_H

#include "stacks/frame.h"

struct kernel_frames;

/*
 * f is borrowed. The kernel's symbols are read now; when they are not to be had, *ret_warning (errno and text) says why, and frames
 * have no names.
 */
int kernel_frames_new(struct kernel_frames **ret, struct frames *f, struct err *ret_warning);
void kernel_frames_free(struct kernel_frames *k);

/* Every id of the store is void from now on; to be called once before anything is asked, too. */
int kernel_frames_renewed(struct kernel_frames *k);

/* The frame of an address. leaf: not a return address. 0 or -errno of the store. */
int kernel_frames_at(struct kernel_frames *k, uint64_t addr, bool leaf, uint32_t *ret);

/*
 * How many of the n frames, leaf first, to take off: up to the one of `function`, near the leaf, and that of `caller` where it is the
 * next. 0: `function` is not there, or would be the last one.
 */
uint32_t kernel_frames_above(struct kernel_frames *k, const uint64_t *frames, uint32_t n, const char *function, const char *caller);

/* The stack of idle CPUs. */
int kernel_frames_idle(struct kernel_frames *k, uint32_t *ret_stack);

#endif
