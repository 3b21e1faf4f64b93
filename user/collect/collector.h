/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder: takes samples from the kernel, processes from the side-band and names from files,
 * and writes windows to the store.
 *
 *   sampler --half--> rows --(procs, resolver, labelling)--> store rows
 *           --each window--> store_commit_window
 *
 * One thread runs one event loop. Windows begin and end at multiples of window_s of real time,
 * except for the begin of the first and the end of the last. Each sample is in a window, or in its
 * totals under the name of its loss.
 */
#ifndef ASCRIBE_COLLECT_COLLECTOR_H
#define ASCRIBE_COLLECT_COLLECTOR_H

#include "labels/filter.h"
#include "proc/reader.h"
#include "sampler/sampler.h"
#include "pods/pods.h"
#include "sandbox/downloads.h"
#include "sandbox/keeper.h"
#include "stacks/hotspot.h"
#include "stacks/scripts.h"
#include "stacks/v8.h"
#include "stacks/jit.h"
#include "stacks/resolve.h"
#include "stacks/unwinding.h"
#include "store/store.h"
#include "store/writer.h"

struct collector;

keeper_op collector_nursery_op; /* starts the nursery of a recorder; for the keeper's table */

/*
 * Open the store of this host for a collector; `what` describes the recording. As
 * store_writer_open_with.
 */
int collector_open_store(struct store_writer **ret, const char *dir, const char *what,
			 const struct store_options *o, struct err *err);

/*
 * Open and attach everything, and start nothing. Borrow w and what cfg points to until
 * collector_close. *ret_warning says what is missing that recording can do without (kernel
 * symbols).
 */
int collector_open(struct collector **ret, const struct sampler_config *cfg, struct store_writer *w,
		   struct err *ret_warning, struct err *err);
/*
 * Set which labels of programs are kept (labelling_set_filter), before the start. Copied. 0 or
 * -errno.
 */
int collector_set_filter(struct collector *c, const struct label_filter *f,
			 const struct redactor *r);
/*
 * Download debug files from d, borrowed; call it before the start. The end of recording waits for
 * them for at most 2 s.
 */
/* Name pods and containers by p, which is borrowed. */
void collector_set_pods(struct collector *c, struct pods *p);
void collector_set_downloads(struct collector *c, struct downloads *d);
int collector_start(struct collector *c, struct err *err);

/*
 * Record until a descriptor in fds is readable (returns its index), until BOOTTIME until_ns
 * (-ETIME), or until an error that ends recording. A window that cannot be written is no such
 * error: see collector_progress.
 */
int collector_run(struct collector *c, uint64_t until_ns, const int *fds, size_t n_fds,
		  struct err *err);

/* Select one more process: a child that is about to start. */
int collector_select(struct collector *c, uint32_t tgid);

/* End the open window now and write it, with the names that there are. Recording goes on. */
int collector_cut(struct collector *c, struct err *err);

/*
 * Wait up to 2 s for names that are missing, while samples are still taken: collector_stop, which
 * must follow, is done within a moment then. For a recorder that another one waits to follow.
 */
void collector_settle(struct collector *c);

/* Stop the events, drain the tables, wait up to 2 s for names, write the last window. */
int collector_stop(struct collector *c, struct err *err);
void collector_close(struct collector *c);

/* How much is recorded and looked up; all zero: everything. It may change while recording. */
struct collector_detail {
	struct resolver_detail names;
	bool no_wait_stacks;
	/* Replace the workers, which keep the memory of files that they parsed */
	bool fresh_workers;
	size_t worker_memory; /* that a worker may allocate; 0: SYMBOLS_MEMORY */
	unsigned workers;     /* at a time; 0: as many as the sandbox may have */
	size_t symbols_bytes; /* of symbol tables that are kept; 0: that of the configuration */
	size_t rows_max;      /* distinct rows of a window; 0: no limit but that of the store */
	/* Bytes: with more, rows of the window get the stack "(other)"; 0: no limit */
	size_t dictionaries_max;
};
void collector_set_detail(struct collector *c, const struct collector_detail *d);

/* CPU time of the BPF programs: sampler_bpf_ns. */
struct sampler_bpf_ns collector_bpf_ns(struct collector *c, uint64_t now_ns);

struct collector_progress {
	uint64_t fired, stored, lost, idle, outside; /* in the windows so far */
	/*
	 * Samples of the highest rate that were not taken because their cgroup has a lower one;
	 * they are not part of fired
	 */
	uint64_t thinned;
	uint64_t asleep;    /* of the lost: idle_not_run */
	uint64_t sampled;   /* since the start, with the open window; for progress, not exact */
	uint64_t windows;   /* written */
	uint64_t failed;    /* windows that could not be written */
	struct err failure; /* the last of those */
	char stale[EVENT_NAME_MAX]; /* the last event whose probes ended: its file was written to */
	uint32_t unhit;		    /* events whose probes nobody has hit: 1 << event */
	uint64_t drains, drain_ns;  /* CPU time of the drains */
	/* Images with a sample, a child or a parent; alive: those that live */
	uint64_t processes, alive;
	uint64_t sideband_lost;	 /* records that the kernel has reported as dropped */
	uint64_t images_trimmed; /* ended processes that were forgotten early: procs_trim */
	/* Times that records may have been missing, and /proc was read instead */
	uint64_t sideband_gaps;
	uint64_t early_drains; /* because a CPU's table was nearly full */
	uint32_t table_rows;   /* of a CPU's table */
	bool tables_may_grow;
	struct sampler_memory kernel;
	struct store_memory store;
	uint64_t folded; /* samples with the stack "(other)": struct collector_detail */
	unsigned n_cpus, unknown_cpus; /* unknown: sampler_unknown_cpus */
	double drain_s;		       /* the longest time between two drains */
	struct unwinding_stats unwinding;
	struct symbolizer_stats symbols;
	struct sandbox_stats parsing;
	struct reader_stats reading;
	struct reader_silence silence; /* in the windows so far */
	struct jits_stats jit;
	struct hotspots_stats java;
	struct v8s_stats v8;
	struct script_unknown script[SCRIPT_LANGUAGES], go;
};

void collector_progress(struct collector *c, struct collector_progress *ret);

/* Return what was wrong with a recipe for a program that ran; "": nothing. */
const char *collector_warning(const struct collector *c);
/* True in a PID namespace that does not have all processes: PROC_NAMESPACE_WARNING. */
bool collector_hides_processes(const struct collector *c);

#endif
