/* SPDX-License-Identifier: Apache-2.0 */
/* What the recorder measured of itself while it wrote a range of a store (collect/own.h). */
#ifndef ASCRIBE_QUERY_OWN_H
#define ASCRIBE_QUERY_OWN_H

#include "hist/metrics.h"
#include "store/store.h"

#define QUERY_OWN_NAMES 8

struct query_own {
	struct hist_snapshot metric[N_METRICS];
	struct query_silent {
		char name[64]; /* comm[tgid] */
		uint64_t requests;
	} silent[QUERY_OWN_NAMES]; /* processes that did not answer, most requests first */
	size_t n_silent;
	uint64_t other_requests; /* of the other processes that did not answer */
	uint64_t jobs_refused;
	struct query_native {
		char what[128]; /* RUNTIME without MEMBER */
		uint64_t processes;
	} native[QUERY_OWN_NAMES]; /* runtimes whose stacks stayed native */
	size_t n_native;
};

/*
 * Sum up the windows of [from, to), rounded to whole windows. 0 or -errno; to be freed either way.
 */
int query_own(struct store *s, int64_t from_ns, int64_t to_ns, struct query_own *ret,
	      struct err *err);
void query_own_fini(struct query_own *o);

#endif
