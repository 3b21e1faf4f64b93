/* SPDX-License-Identifier: Apache-2.0 */
/* What each table and cache of a recorder may take of its memory. Any thread. */
#ifndef ASCRIBE_DAEMON_SHARES_H
#define ASCRIBE_DAEMON_SHARES_H

#include "collect/collector.h"

/*
 * Shares of memory-max under a step of the memory's governor. With the default of 256 MiB or more
 * most are what a part needs at most.
 */
struct shares {
	size_t symbols, dictionaries, unwind, question, label_sets, rows;
	size_t tables;	    /* of all CPUs to begin with: they grow where they fill */
	size_t worker;	    /* of a parsing child */
	unsigned workers;   /* at a time; 0: no limit but the sandbox's */
	uint32_t processes; /* that the BPF programs know */
};
void shares_of(uint64_t memory_max, unsigned memory_step, struct shares *ret);
/* Set what a recorder may keep. */
void shares_configure(const struct shares *share, struct sampler_config *cfg);

/* Return the memory-max of a daemon that is not told: 256 MiB, or what its cgroups allow. */
uint64_t shares_default(void);
/*
 * Give a recorder without a governor its shares of what its cgroups allow. Nothing is set where
 * they have no limit.
 */
void shares_fit(struct sampler_config *cfg, struct collector_detail *ret);

#endif
