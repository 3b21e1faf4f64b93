/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows about waiting, into the store. Each event of waits (off-cpu, runq) has further events:
 *
 *   off-cpu, runq   nanoseconds by all labels and stack; estimated (collect/estimate.h) for waits
 *                   whose stack was not sampled, "[no stack]" where no sample stands for them
 *   off-cpu.lengths, runq.lengths
 *                   how many waits had which length: collect/spreads.h
 *   blame           runq by the labels of the work and of the thread that was running (by.comm,
 *                   by.tenant, ...)
 *   waker, waker.idle
 *                   with --waker: off-cpu by the labels of the work and of the waker (by.comm,
 *                   ...), with the waker's stack; WAITS_INTERRUPT where no thread woke it. Waits
 *                   for work are in waker.idle: see collect/causes.h. Where the thread waited for a
 *                   lock, lock.name, lock.kind and lock.by say for which: collect/locks.h
 *
 *   latency, latency.off
 *                   with --latency: the weights of samples and of time in run queues, and of
 *                   blocked time, as rows of cpu-clock, runq and off-cpu
 *
 * Values are nanoseconds.
 */
#ifndef ASCRIBE_COLLECT_WAITS_H
#define ASCRIBE_COLLECT_WAITS_H

#include "attribute/sets.h"
#include "collect/causes.h"
#include "collect/estimate.h"
#include "collect/spreads.h"
#include "sampler/sampler.h"
#include "stacks/resolve.h"
#include "store/store.h"
#include "store/writer.h"

#define WAITS_NO_STACK "[no stack]"
#define WAITS_INTERRUPT "[interrupt]"

struct waits {
	const struct sets *sets;
	struct store_writer *store;
	/* Samples of the store per wait: sampler_config.weight. Times and lengths are not scaled */
	unsigned weight;
	bool on, wakers, latency;
	struct spreads spreads;		   /* lengths of waits; of probes, too */
	uint32_t off, runq;		   /* indices of the events in rows */
	uint32_t blame, waker, waker_idle; /* ids of the store */
	uint32_t weighed[2];		   /* likewise: latency.off, latency */
	uint32_t no_stack, interrupt;
	uint32_t earlier;     /* stack: the root of waits that began before the recording */
	struct causes causes; /* of the window: rows of blame, waker and waker.idle */
	struct locks *locks;  /* with wakers; not owned */
	struct label
		/* A copy of the waiting thread's labels, in add_cause */
		waited[2 * SETS_LABELS_MAX];
	/* Of the window: stacks of waits that were not sampled */
	struct estimate estimate;
};

/* Is the row, of whatever kind, about a kernel thread? */
bool waits_is_kthread(const struct row *row);

/* Add the events to the store, after those of cfg; ids of before are void. 0 or -errno. */
int waits_renew(struct waits *w, const struct sampler_config *cfg);

/* A window begins. */
void waits_window(struct waits *w);
void waits_fini(struct waits *w);

/*
 * A row of a wait was stored with this label set and stack (no_stack: none). im may be NULL. At the
 * end of the window waits_estimate gives stacks to those without.
 */
void waits_note_stack(struct waits *w, const struct row *row, const struct proc_image *im,
		      uint32_t set, uint32_t stack, uint32_t event_id);

/*
 * Before the window is committed: store what is only known at its end. Return how many waits got an
 * estimated stack.
 */
uint64_t waits_end(struct waits *w, struct causes_result *ret);

/* How a row is added, and what came of it. */
struct waits_try {
	/*
	 * Return -EINPROGRESS while some labels have no answer yet (proc/reader.h), and add nothing
	 */
	bool put_off;
	bool cut;     /* the cause found no room: it is "(other)" */
	bool late;    /* the row was added without such labels */
	uint32_t set; /* of waits that count as samples: in the store */
};

/*
 * Add a row of kind ROW_WAIT or ROW_BLAME. im is of its process, or NULL; event_id[] are those of
 * cfg. 0 or -errno.
 */
int waits_add(struct waits *w, const struct sampler_half *h, const struct row *row,
	      const struct proc_image *im, const uint32_t *event_id, struct waits_try *io_try);

/*
 * Add the waits of a half that found no row. *ret_stored: those that count as samples. 0 or -errno.
 */
int waits_add_others(struct waits *w, const struct wait_others *o, const uint32_t *event_id,
		     uint64_t *ret_stored);

/*
 * Return the occupant of a ROW_BLAME or ROW_WAKER; NULL: no thread, *ret_name says what. Borrowed
 * from the half.
 */
const struct occupant *waits_occupant(const struct sampler_half *h, const struct row *row,
				      const char **ret_name);

/* Return the event of the store for the weight in a row: ROW_LATENCY, or ROW_WAIT with its flag. */
uint32_t waits_weighed(const struct waits *w, const struct row *row);

/* What is known of a ROW_WAKER beyond the row. */
struct waits_waker {
	const struct proc_image *image,
		*by;	       /* of the blocked thread's process, of the waker's; NULL: unknown */
	const uint32_t *stack; /* the waker's in the store; NULL: none was taken */
	enum cause_part part;  /* by the blocked thread's own stack */
	uint32_t lock, lock_end; /* of collect/locks.h */
};

/* Add a ROW_WAKER. 0 or -errno. */
int waits_add_waker(struct waits *w, const struct sampler_half *h, const struct row *row,
		    const struct waits_waker *k, struct waits_try *io_try);

#endif
