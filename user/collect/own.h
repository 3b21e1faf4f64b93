/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ascribe measured of itself (hist/metrics.def), as rows of a window: of each histogram what
 * came since the window before. That is an event "NAME.lengths" whose rows have no labels and a
 * stack of one frame: the bucket, as those of waits (collect/spreads.h). So `ascribe stat` knows
 * the recorder's latencies over any range. Beside them, counts:
 *
 *   OWN_SILENT        requests that a process did not answer; the frame's function is "comm[tgid]",
 *                     none for all others
 *   OWN_JOBS_REFUSED  jobs for which the sandbox had no room
 *   OWN_NATIVE        processes with a runtime of an unknown version, whose stacks stay native; the
 *                     frame's function is "RUNTIME without MEMBER" or "RUNTIME VERSION"
 *
 * Not thread-safe; one per process.
 */
#ifndef ASCRIBE_COLLECT_OWN_H
#define ASCRIBE_COLLECT_OWN_H

#include "hist/metrics.h"
#include "proc/reader.h"
#include "store/store.h"
#include "store/writer.h"

#define OWN_METRICS "[ascribe]" /* the module of the buckets */

enum own_runtime {
	OWN_HOTSPOT,
	OWN_V8,
	OWN_PYTHON,
	OWN_PHP,
	OWN_RUBY,
	OWN_PERL,
	OWN_LUAJIT,
	OWN_GO,
	OWN_RUNTIMES
};

struct own_counts {
	const struct reader_silence *silence; /* of this window */
	/* Since the start: */
	uint64_t jobs_refused;
	uint64_t native[OWN_RUNTIMES];	   /* processes */
	const char *missing[OWN_RUNTIMES]; /* of the last of them; of scripts the version */
};

struct own_metrics {
	struct hist_snapshot told[N_METRICS]; /* what is in the windows committed */
	struct hist_snapshot next[N_METRICS]; /* with those of the window being written */
	uint64_t told_jobs, next_jobs;	      /* the same of jobs that were refused */
	uint64_t told_native[OWN_RUNTIMES], next_native[OWN_RUNTIMES];
};

void own_init(struct own_metrics *o);
void own_fini(struct own_metrics *o);

/* Rows of the window that is about to be committed: 0 or -errno, and then some may be missing. */
int own_add(struct own_metrics *o, struct store_writer *w, const struct own_counts *n);
/* It was committed: what was added is not added again. */
void own_committed(struct own_metrics *o);

#endif
