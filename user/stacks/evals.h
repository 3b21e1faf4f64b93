/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which native frames of a stack are an interpreter running bytecode ("evals"): script frames
 * stand in their place.
 */
#ifndef ASCRIBE_STACKS_EVALS_H
#define ASCRIBE_STACKS_EVALS_H

#include "stacks/frame.h"

enum eval_kind {
	EVAL_NOT,
	EVAL_IS,
	EVAL_PART, /* of the next eval towards the root: it has no script frames of its own */
};

/*
 * Mark the evals of a language among n user frames, leaf first: is[n]. Returns how many there are.
 * *ret_described: the process has a trampoline for each Python function (-X perf of 3.12), so the
 * native frames say it all.
 */
uint32_t evals_find(struct frames *f, unsigned language, const struct user_frame *user, uint32_t n,
		    uint8_t *is, bool *ret_described);

#endif
