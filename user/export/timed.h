/* SPDX-License-Identifier: Apache-2.0 */
/* Which events an export with times writes. */
#ifndef ASCRIBE_EXPORT_TIMED_H
#define ASCRIBE_EXPORT_TIMED_H

#include "export/export.h"

struct timed {
	const struct store_event *sampled; /* of the query; NULL: waits alone */
	bool *events; /* of the store: which are wanted; the caller frees them */
};

/*
 * Choose those of what was asked: the event alone, or those of the metric (cpu, off, runq, wall),
 * else the query's event and waits. 0; -ENOMEM; -EINVAL: the metric has no times.
 */
int timed_choose(const struct export_source *src, struct timed *ret);

/* Is it blocked time, or time in a run queue? */
bool timed_is_wait(const struct store_event *e);

#endif
