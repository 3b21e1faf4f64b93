/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Put script frames into a native stack: each call of the interpreter's loop (an "eval") on the
 * native stack is replaced by the script frames that it runs. Both are leaf first.
 */
#ifndef ASCRIBE_STACKS_INTERLEAVE_H
#define ASCRIBE_STACKS_INTERLEAVE_H

#include <stdbool.h>
#include <stdint.h>

struct interleave {
	const bool *entry; /* [n_script]: called from C, so the last frame of its eval */
	uint32_t n_script;
	uint32_t n_evals;
	bool cut; /* script frames towards the root are missing */
};

/*
 * Return the number of script frames of eval number k, from *ret_first on. With too many evals,
 * those next to the leaf have none: they have just begun. With too few, the native stack is cut:
 * the last eval has all remaining frames.
 */
uint32_t interleave_part(const struct interleave *s, uint32_t k, uint32_t *ret_first);

#endif
