/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accounting of the window that is open: what fired, what was stored, each loss and flag, for each CPU. Not
 * thread-safe.
 */
#ifndef ASCRIBE_COLLECT_WINDOW_H
#define ASCRIBE_COLLECT_WINDOW_H

#include "sampler/sampler.h"
#include "sandbox/sandbox.h"
#include "store/store.h"

/* One CPU's counters, by enum counter. Whoever adds rows counts here. */
struct window_cpu {
	uint64_t counter[N_COUNTERS];
	uint64_t ran, stored, outside;
	uint64_t not_run, idle_not_run; /* reported since the start */
	uint64_t idle_base_ns;          /* the CPU's idle time when recording began */
	uint64_t unkept; /* copies that found no memory since the last drain: they are of the half that it takes next */
	bool used;
};

struct window;

/* Of what s samples; own CPU time includes that of sb's children. Both are borrowed. In the totals each sample
   stands for `weight` samples. */
int window_new(struct window **ret, struct sampler *s, const struct sandbox *sb, unsigned weight);
void window_free(struct window *w);

/* Recording begins: idle time counts from here, own CPU time from the start of the process, or from here when this process recorded before. */
void window_start(struct window *w, bool resumed);

struct window_cpu *window_cpu(struct window *w, unsigned cpu);

/* The window is over: count what its programs never saw. stopped: the events are, so that nothing is under way. */
void window_end(struct window *w, bool stopped);

/* The totals of the window, all rows of which were added; how many CPUs have any. Their arrays are borrowed until the next call. */
size_t window_totals(struct window *w, struct store_totals *ret);

/* The index of flag `idle` in the totals' flagged[]. */
extern const size_t window_idle_flag;

/* The window was written: the next one begins empty. */
void window_clear(struct window *w);

/* It could not be: its samples are lost under that name, in the next one's totals. */
void window_lost(struct window *w);

#endif
