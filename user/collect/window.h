/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accounting of the open window: samples that fired and were stored, each loss and each flag,
 * by CPU. Not thread-safe.
 */
#ifndef ASCRIBE_COLLECT_WINDOW_H
#define ASCRIBE_COLLECT_WINDOW_H

#include "sampler/sampler.h"
#include "sandbox/sandbox.h"
#include "store/store.h"

/* Counters of one CPU, by enum counter. Code that adds rows counts here. */
struct window_cpu {
	uint64_t counter[N_COUNTERS];
	uint64_t ran, stored, outside;
	uint64_t thinned; /* of ran: no samples at the rate of their cgroup (struct half) */
	uint64_t not_run, idle_not_run; /* counted since the start */
	uint64_t idle_base_ns;		/* the CPU's idle time when recording began */
	/*
	 * Copies without memory, by the id of the half that they began in: when a half is drained,
	 * the next one has copies already
	 */
	struct {
		struct {
			uint32_t half, n;
		} of[2];
	} unkept;
	bool used, left_out; /* left_out: some samples are outside by user space's choice */
};

struct window;

/*
 * Account for the samples of s, and for our own CPU time with that of sb's children; borrow both.
 * Each sample counts as cfg->weight samples in the totals. 0 or -ENOMEM.
 */
int window_new(struct window **ret, struct sampler *s, const struct sandbox *sb,
	       const struct sampler_config *cfg);
void window_free(struct window *w);

/*
 * Recording begins: count idle time from here. Own CPU time counts from the start of this process,
 * or from here if it recorded before (resumed).
 */
void window_start(struct window *w, bool resumed);

struct window_cpu *window_cpu(struct window *w, unsigned cpu);

/*
 * The window has ended: count the samples that our programs did not see. stopped: the events are
 * stopped, too.
 */
void window_end(struct window *w, bool stopped);

/*
 * Make the totals of a window after its last row; return the number of CPUs with any. Arrays are
 * valid until the next call.
 */
size_t window_totals(struct window *w, struct store_totals *ret);

/*
 * A copy that began in this half found no memory. It is lost when the half is taken: then the runs
 * of the half count, too.
 */
void window_add_unkept(struct window_cpu *c, uint32_t half);
void window_take_unkept(struct window_cpu *c, uint32_t half);

/* The index of flag `idle` in the totals' flagged[]. */
extern const size_t window_idle_flag;

/* The window was written: empty it. */
void window_clear(struct window *w);

/*
 * The window could not be written: count its samples as lost (store_failed) in the next one's
 * totals.
 */
void window_lost(struct window *w);

#endif
