/* SPDX-License-Identifier: Apache-2.0 */
/* What this kernel offers to measure waits, and where it keeps it: by its types and its symbols. */
#ifndef ASCRIBE_SAMPLER_WAIT_SUPPORT_H
#define ASCRIBE_SAMPLER_WAIT_SUPPORT_H

#include "util/err.h"

#include <linux/types.h>
#include <stdbool.h>
#include "wire.h"

struct wait_support {
	struct config wake; /* preempt_count, bottom_half, backlog */
	bool queue_times;   /* of struct config */
};

/* -ENOTSUP: it has no waits, or cannot tell who wakes. err says what is missing. */
int wait_support_find(struct wait_support *ret, bool wakers, struct err *err);

#endif
