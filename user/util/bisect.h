/* SPDX-License-Identifier: Apache-2.0 */
/* Bisection of a sorted range. */
#ifndef ASCRIBE_UTIL_BISECT_H
#define ASCRIBE_UTIL_BISECT_H

#include <stddef.h>

/*
 * The first index of [from, to) for which `before` does not hold; `to`: it holds for all. `before`
 * is an expression of the index, which i names. It is true up to some index, and false from there
 * on. It is evaluated about log2(to - from) times.
 */
#define bisect(i, from, to, before) \
	({ \
		size_t low_ = (from), high_ = (to); \
		while (low_ < high_) { \
			size_t i = low_ + (high_ - low_) / 2; \
			if (before) \
				low_ = i + 1; \
			else \
				high_ = i; \
		} \
		low_; \
	})

#endif
