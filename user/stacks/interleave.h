/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the Python frames of a stack belong: each call of the interpreter's loop (an "eval") that the native stack has stands for
 * the Python frames that it runs. Both are leaf first.
 */
#ifndef ASCRIBE_STACKS_INTERLEAVE_H
#define ASCRIBE_STACKS_INTERLEAVE_H

#include <stdbool.h>
#include <stdint.h>

struct interleave {
	const bool *entry; /* [n_python]: called from C: the last one of its eval */
	uint32_t n_python;
	uint32_t n_evals;
	bool cut; /* there are more Python frames towards the root */
};

/*
 * The Python frames of the eval number k: how many, from *ret_first on. Where there are more evals than the Python frames tell of, those
 * next to the leaf have none: they have just begun. Where there are fewer, the native stack is cut: the last one has all that is left.
 */
uint32_t interleave_part(const struct interleave *s, uint32_t k, uint32_t *ret_first);

#endif
