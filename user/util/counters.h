/* SPDX-License-Identifier: Apache-2.0 */
/* Names of losses and flags (include/counters.def), in the order of a store's lists. */
#ifndef ASCRIBE_UTIL_COUNTERS_H
#define ASCRIBE_UTIL_COUNTERS_H

#include <stddef.h>

extern const char *const counters_lost_names[];
extern const char *const counters_flagged_names[];
extern const size_t counters_n_lost, counters_n_flagged;

#endif
