/* SPDX-License-Identifier: Apache-2.0 */
#include "util/counters.h"

const char *const counters_lost_names[] = {
#define LOST(id, help) #id,
#define FLAG(id, help)
#include "counters.def"
#undef LOST
#undef FLAG
};
const char *const counters_flagged_names[] = {
#define LOST(id, help)
#define FLAG(id, help) #id,
#include "counters.def"
#undef LOST
#undef FLAG
};
const size_t counters_n_lost = sizeof(counters_lost_names) / sizeof(counters_lost_names[0]);
const size_t counters_n_flagged =
	sizeof(counters_flagged_names) / sizeof(counters_flagged_names[0]);
