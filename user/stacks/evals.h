/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which native frames of a stack are an interpreter running bytecode ("evals"): script frames
 * stand in their place.
 */
#ifndef ASCRIBE_STACKS_EVALS_H
#define ASCRIBE_STACKS_EVALS_H

#include "stacks/frame.h"

/*
 * Mark the evals of a language among n user frames, leaf first: is[n]. Returns how many there are.
 * *ret_described: the process has a trampoline for each Python function (-X perf of 3.12), so the
 * native frames say it all.
 */
uint32_t evals_find(struct frames *f, unsigned language, const struct user_frame *user, uint32_t n,
		    bool *is, bool *ret_described);

#endif
