/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows about waiting, into the store: each event of waits (off-cpu, runq) has two events more,
 *
 *   off-cpu, runq                  nanoseconds by all labels and stack; "[no stack]" for those that were measured without it
 *   off-cpu.lengths, runq.lengths  how many waits were how long, by the labels of the work alone: the one frame of the stack is
 *                                  the bucket, module WAITS_LENGTHS, its offset the shortest wait in ns; so they merge
 *                                  as all rows do
 *   blame                          waits for a CPU by the labels of the work, and of whose it was (by.comm, by.tenant, ...)
 *
 * and, where it is asked for,
 *
 *   waker                          the nanoseconds of off-cpu by the labels of the work, and of who ended the wait (by.comm, ...), with
 *                                  the stack of that one; WAITS_INTERRUPT where nobody did
 *
 * They stand for nanoseconds, not for samples.
 */
#ifndef ASCRIBE_COLLECT_WAITS_H
#define ASCRIBE_COLLECT_WAITS_H

#include "attribute/sets.h"
#include "collect/pairs.h"
#include "hist_bucket.h"
#include "sampler/sampler.h"
#include "stacks/resolve.h"
#include "store/store.h"

#define WAITS_LENGTHS "[waits]"
#define WAITS_NO_STACK "[no stack]"
#define WAITS_INTERRUPT "[interrupt]"

struct waits {
	const struct sets *sets;
	struct store_writer *store;
	unsigned weight; /* samples that each one stands for in the store; times and lengths are what they are */
	bool on, wakers;
	uint32_t off, runq;                 /* indices of the events in rows */
	uint32_t lengths[2], blame, waker;  /* ids of the store: of off, of runq */
	uint32_t no_stack, interrupt, bucket_module;
	/* Of this window, as sets: where there is no room the other is "(other)". Who had the CPU; who ended waits. */
	struct pairs had, woke;
	struct label victim[2 * SETS_LABELS_MAX]; /* while who had the CPU is being added */
	uint32_t bucket[HIST_BUCKETS(WAIT_HIST_BITS)]; /* stacks of the store, plus one; 0: none yet */
};

/* The events in the store, after those of cfg: all ids are made anew. 0 or -errno. */
int waits_renew(struct waits *w, const struct sampler_config *cfg);

/* A window begins. */
void waits_window(struct waits *w);

/*
 * A row of kind ROW_WAIT or ROW_BLAME; im is its process's, event_id[] those of cfg. 0 or -errno;
 * *ret_cut: who had the CPU is one too many of this window. */
int waits_add(struct waits *w, const struct sampler_half *h, const struct row *row, const struct proc_image *im,
	      const uint32_t *event_id, bool *ret_cut);

/* What found no row of h; what counts as samples is in *ret_stored. 0 or -errno. */
int waits_add_others(struct waits *w, const struct wait_others *o, const uint32_t *event_id, uint64_t *ret_stored);

/* Who woke it, of a row of kind ROW_WAKER: NULL for nobody; *ret_name is then what that is called. */
const struct occupant *waits_waker(const struct sampler_half *h, const struct row *row, const char **ret_name);

/*
 * Such a row. im is of who was blocked, by of the waker; stack is that of the waker in the store, NULL: none was taken. 0 or
 * -errno; *ret_cut: the waker is one too many of this window.
 */
int waits_add_waker(struct waits *w, const struct sampler_half *h, const struct row *row, const struct proc_image *im,
		    const struct proc_image *by, const uint32_t *stack, bool *ret_cut);

/* A part of a wait that is not over: nobody knows yet who had the CPU, or will end it. */
int waits_add_part(struct waits *w, const struct row *row, const struct proc_image *im);

#endif
