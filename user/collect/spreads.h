/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How values are distributed, into the store: lengths of waits, and the values of hits of probes.
 * Each such event has another one, NAME.lengths, by the labels of the work alone (no tgid, tid,
 * thread). Its rows have one frame, the bucket: module SPREADS_MODULE, its offset the smallest
 * value. So distributions merge as all rows do.
 */
#ifndef ASCRIBE_COLLECT_SPREADS_H
#define ASCRIBE_COLLECT_SPREADS_H

#include "sampler/sampler.h"
#include "store/store.h"
#include "store/writer.h"

#define SPREADS_MODULE "[waits]"

struct spreads {
	struct store_writer *store;
	uint32_t event[MAX_EVENTS]; /* id of the store, plus one; 0: it has none */
	uint32_t module;
	uint32_t bucket[WAIT_BUCKETS]; /* stacks of the store, plus one; 0: none yet */
};

/* Add the events to the store; ids of before are void. 0 or -errno. */
int spreads_renew(struct spreads *s, const struct sampler_config *cfg);

/*
 * n values of event number `event` in cfg were of this bucket (hist_bucket.h, WAIT_HIST_BITS).
 * -EINVAL: there is no such bucket or event; else 0 or -errno.
 */
int spreads_add(struct spreads *s, uint32_t set, unsigned event, uint32_t bucket, uint64_t n);

#endif
