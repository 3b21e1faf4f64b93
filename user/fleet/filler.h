/* SPDX-License-Identifier: Apache-2.0 */
/* A store made of what a server answered. */
#ifndef ASCRIBE_FLEET_FILLER_H
#define ASCRIBE_FLEET_FILLER_H

#include "fleet/fleet_rows.h"

/* Counters of all hosts in the windows of a bucket. */
struct fleet_window {
	uint32_t bucket;
	int64_t t0_ns, t1_ns;
	uint64_t fired, stored, outside, own_cpu_ns, own_rss;
	size_t lost_at, flagged_at; /* maps in the text */
};

struct fleet_windows {
	struct buf text;
	struct fleet_window *v;
	size_t n, cap;
};

struct filler;

int filler_new(struct filler **ret, const char *dir, const char *host,
	       const struct fleet_windows *windows, const struct fleet_events *events,
	       struct err *err);
void filler_free(struct filler *f);

/*
 * Add the frames of stacks, as they came: hash UInt128, kinds, functions, modules, build_ids,
 * files, lines, offsets. -EPROTO, -ENOMEM, ...
 */
int filler_add_stacks(struct filler *f, const struct buf *answer, struct err *err);
/* Write the rows, which are sorted, as the windows say. */
int filler_write(struct filler *f, const struct fleet_rows *r, struct err *err);

#endif
