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

/*
 * The totals of the window; how many CPUs have any. Their arrays are borrowed until the next call. stopped: the events
 * are, so that nothing is under way.
 */
size_t window_totals(struct window *w, bool stopped, struct store_totals *ret);

/* The index of flag `idle` in the totals' flagged[]. */
extern const size_t window_idle_flag;

/* The window was written: the next one begins empty. */
void window_clear(struct window *w);

/* It could not be: its samples are lost under that name, in the next one's totals. */
void window_lost(struct window *w);

#endif
