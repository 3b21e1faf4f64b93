/* SPDX-License-Identifier: Apache-2.0 */
/* The accounting of a range: the counters of its blocks, summed per CPU and in all. */
#ifndef ASCRIBE_QUERY_ACCOUNT_H
#define ASCRIBE_QUERY_ACCOUNT_H

#include "store/store.h"

struct account {
	struct store_cpu_totals *cpu; /* those that fired, by number */
	size_t n_cpus;
	struct store_cpu_totals all;
	uint64_t outside, own_cpu_ns, own_rss; /* own_rss: the most */
	uint64_t blocks;
	int64_t from_ns, to_ns; /* both 0 when there is no block */
};

/* Zeroed before; to be released either way. */
int account_sum(struct account *t, struct store *s, int64_t from_ns, int64_t to_ns,
		struct err *err);
void account_fini(struct account *t);
/* Leave the sums alone: what is known as one CPU is a fleet. */
void account_forget_cpus(struct account *t);

/*
 * Of how many stored samples a flag says something: of the waits, of those that are no waits, or of
 * all. 0 for one that counts parts of waits, which has no share.
 */
uint64_t account_base(const struct store_meta *m, const uint64_t *flagged, uint64_t stored,
		      const char *flag);

/* Return the part of the samples that are of windows whose waits the recorder gave up. */
double account_without_waits(const struct store_meta *m, const uint64_t *flagged, uint64_t stored);

#endif
