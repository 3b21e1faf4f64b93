/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder: samples from the kernel, processes from the side-band, names from files, windows into the store.
 *
 *   sampler --half--> rows --(procs, resolver, labelling)--> store rows --each window--> store_commit_window
 *
 * One thread, one event loop. Every window begins and ends at a multiple of window_s of real time, but for the first and
 * the last. What is sampled is either in a window or in its totals under the name of its loss.
 */
#ifndef ASCRIBE_COLLECT_COLLECTOR_H
#define ASCRIBE_COLLECT_COLLECTOR_H

#include "labels/filter.h"
#include "proc/reader.h"
#include "sampler/sampler.h"
#include "sandbox/downloads.h"
#include "stacks/jit.h"
#include "stacks/resolve.h"
#include "stacks/unwinding.h"
#include "store/store.h"

struct collector;

/* Where losses and flags stand: counters.def in the order of the store's lists. */
extern const char *const collector_lost_names[];
extern const char *const collector_flagged_names[];
extern const size_t collector_n_lost, collector_n_flagged;

/* The store of this host for a collector to write; what says what is recorded. As store_writer_open_with. */
int collector_open_store(struct store_writer **ret, const char *dir, const char *what, const struct store_options *o,
			 struct err *err);

/*
 * Everything opened and attached, nothing running. The writer stays the caller's, what cfg points to must stay as long. *ret_warning is set when something is missing
 * that recording can do without (kernel symbols).
 */
int collector_open(struct collector **ret, const struct sampler_config *cfg, struct store_writer *w,
		   struct err *ret_warning, struct err *err);
/* Before the start: which labels of programs may be kept (labelling_set_filter). Copied. 0 or -errno. */
int collector_set_filter(struct collector *c, const struct label_filter *f, const struct redactor *r);
/* Before the start: names may come from there, too. Borrowed; at the end at most 2 s are spent to wait for them. */
void collector_set_downloads(struct collector *c, struct downloads *d);
int collector_start(struct collector *c, struct err *err);

/*
 * Record until a descriptor in fds is readable (its index is returned), or BOOTTIME until_ns has come (-ETIME), or an
 * error that ends recording. A window that cannot be written is not such an error: see collector_progress.
 */
int collector_run(struct collector *c, uint64_t until_ns, const int *fds, size_t n_fds, struct err *err);

/* Select one more process: a child that is about to start. */
int collector_select(struct collector *c, uint32_t tgid);

/* Stop the events, take what there is, write the last window. */
int collector_stop(struct collector *c, struct err *err);
void collector_close(struct collector *c);

/* How much is recorded and looked up; all zero is everything. May change while it runs. */
struct collector_detail {
	struct resolver_detail names;
	bool no_wait_stacks;
	bool fresh_workers; /* replace those that parse files now: what they read stays in them otherwise */
	size_t worker_memory; /* that a parsing child may allocate; 0: SYMBOLS_MEMORY */
	unsigned workers; /* such children at a time; 0: as many as the sandbox may have */
	size_t symbols_bytes; /* of symbol tables that are kept; 0: that of the configuration */
	size_t rows_max;      /* distinct rows of a window; 0: no limit but that of the store */
	size_t dictionaries_max; /* bytes: with more, rows of the window get the stack "(other)"; 0: no limit */
};
void collector_set_detail(struct collector *c, const struct collector_detail *d);

/* CPU time of the BPF programs: sampler_bpf_ns. */
uint64_t collector_bpf_ns(struct collector *c, uint64_t now_ns);

struct collector_progress {
	uint64_t fired, stored, lost, idle, outside; /* in the windows so far */
	uint64_t asleep; /* of the lost: idle_not_run, of which nobody would have known more */
	uint64_t sampled; /* since the start, this window too: for progress, not exact */
	uint64_t windows;        /* written */
	uint64_t failed;         /* windows that could not be written */
	struct err failure;      /* the last of those */
	uint64_t drains, drain_ns; /* CPU time of the drains */
	uint64_t processes, alive; /* images that ran a sample, made a child or were made; alive: of these, now */
	uint64_t sideband_lost;	   /* records that the kernel dropped, as far as it has told */
	uint64_t images_trimmed;   /* processes that ended and were forgotten early: procs_trim */
	uint64_t sideband_gaps; /* how often some may have been missing, and /proc was read instead
				 */
	uint64_t early_drains; /* since a CPU's table was nearly full */
	uint32_t table_rows;   /* of a CPU's table */
	bool tables_may_grow;
	struct sampler_memory kernel;
	struct store_memory store;
	uint64_t folded; /* samples with the stack "(other)": struct collector_detail */
	unsigned n_cpus, unknown_cpus; /* unknown: sampler_unknown_cpus */
	double drain_s;     /* the longest time between two drains */
	struct unwinding_stats unwinding;
	struct symbolizer_stats symbols;
	struct sandbox_stats parsing;
	struct reader_stats reading;
	struct reader_silence silence; /* in the windows so far */
	struct jits_stats jit;
};

void collector_progress(struct collector *c, struct collector_progress *ret);

/* What was wrong with a recipe for a program that ran; "" when nothing was. */
const char *collector_warning(const struct collector *c);

#endif
