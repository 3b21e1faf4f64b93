/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buckets in which a histogram is shown: ascending bounds, each the greatest value of its
 * bucket. What is above the last one is in one bucket more.
 */
#ifndef ASCRIBE_HIST_BOUNDS_H
#define ASCRIBE_HIST_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/err.h"

#define HIST_BOUNDS_MAX 60

/*
 * 1, 2.5 and 5 times the powers of ten from `from` to `to`, both included where they are such;
 * whole numbers alone. At most HIST_BOUNDS_MAX.
 */
size_t hist_bounds(uint64_t from, uint64_t to, uint64_t ret[HIST_BOUNDS_MAX]);

/* For help texts: what hist_bounds_parse takes. */
#define HIST_BOUNDS_SYNTAX "1ms,10ms,1s; linear:FROM:STEP:COUNT; log:FROM:TO[:PER_TEN]"

/*
 * Bounds as a user writes them:
 *
 *   1ms,10ms,1s            these
 *   linear:0:5ms:20        20 of them, the first 0, each 5 ms more
 *   log:1us:10s:3          from 1 us on, 3 for each power of ten (the default), until 10 s are in
 *
 * Of times (nanoseconds): as in times_duration, or 0. Of others whole numbers, K, M and G behind
 * them mean 2^10, 2^20 and 2^30. -EINVAL names what is wrong.
 */
int hist_bounds_parse(const char *spec, bool is_time, uint64_t ret[HIST_BOUNDS_MAX], size_t *ret_n,
		      struct err *err);

#endif
