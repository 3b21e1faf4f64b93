/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read the text that `perf script` prints, in its default fields:
 *
 *   comm  tgid/tid [cpu] seconds: period event:      tgid/, [cpu] and period may be missing
 *   	address symbol+offset (file)                  leaf first; an empty line ends the sample
 *
 * Lines of another form are counted and skipped. Not thread-safe.
 */
#ifndef ASCRIBE_IMPORT_PERF_SCRIPT_H
#define ASCRIBE_IMPORT_PERF_SCRIPT_H

#include "import/profile.h"

#include <stdio.h>

/* All zero before the first call. */
struct perf_script {
	char *line;
	size_t cap;
	bool pending;	  /* line holds the head of the next sample */
	int64_t first_ns; /* time of the first sample, on perf's clock */
	uint64_t samples;
	uint64_t skipped; /* lines of another form */
};

void perf_script_fini(struct perf_script *s);

/*
 * Add samples to p, with the labels l, comm, tgid and tid. Stop before a sample that is window_ns
 * later than the first one of this call, or after max samples. Set p->from_ns and to_ns on perf's
 * clock. 1: there may be more; 0: the end; -errno. The texts of l must outlive p.
 */
int perf_script_read(struct perf_script *s, FILE *f, int64_t window_ns, size_t max,
		     const struct profile_labels *l, struct profile *p, struct err *err);

#endif
