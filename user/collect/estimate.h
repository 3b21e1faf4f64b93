/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimate the stacks of waits that were not sampled.
 *
 * Every wait is measured, but the stack of a wait is taken only with a known probability p
 * (bpf/offcpu_stack.bpf.h). A sampled wait of y ns is stored with its own stack, and stands for
 * another y * (1/p - 1) ns. The time of all other waits is known exactly per label set. At the end
 * of a window it is divided among the stacks in proportion to what their samples stand for:
 *
 *   1. samples of the same event and label set, where there are ESTIMATE_ENOUGH;
 *   2. else of the same event, process image and kind of thread, where there are as many;
 *   3. else of the same event, program (executable, or the name of a kernel thread) and kind of
 *      thread;
 *   4. else the time stays under "[no stack]".
 *
 * Threads are of one kind when their names are equal, but for a number at the end: a program's
 * compiler or garbage collector says nothing of its workers.
 *
 * A wider group must fit: waits that are on average more than ESTIMATE_ALIKE times as long as those
 * that its samples stand for are others. A second in a lock says nothing of who sleeps for a
 * moment.
 *
 * Sums per label set are exact: time only moves from "[no stack]" to stacks. Time per stack is an
 * unbiased estimate, but for the bias of a ratio, which falls with the number of samples. The
 * shares of a few samples favour stacks that are sampled often. So a group needs ESTIMATE_ENOUGH.
 */
#ifndef ASCRIBE_COLLECT_ESTIMATE_H
#define ASCRIBE_COLLECT_ESTIMATE_H

#include "store/store.h"
#include "store/writer.h"

/* Distinct samples, and distinct remainders, of one window; 96 bytes each */
#define ESTIMATE_MAX (1u << 15)
#define ESTIMATE_ENOUGH 8 /* samples */
#define ESTIMATE_ALIKE 16
#define ESTIMATE_POINTS 4 /* most stacks that a label set takes from a wider group */

/* The groups of a wait: set and event are ids of the store, the others hashes with the kind. */
struct estimate_key {
	uint32_t event, set;
	uint64_t image, program;
};

struct estimate_item {
	struct estimate_key key;
	uint32_t stack; /* of samples */
	uint32_t n_samples;
	uint64_t n, ns; /* waits without a stack, or waits that the samples stand for */
};

struct estimate_list {
	struct estimate_item *v;
	size_t n, cap;
};

struct estimate {
	struct estimate_list samples, rest;
};

void estimate_fini(struct estimate *e);

/* Begin a window, and free the memory of a busy one. */
void estimate_clear(struct estimate *e);

/*
 * Add n_samples waits that were stored with this stack. They stand for n waits, ns in all, that
 * were not sampled; 0: such waits are always sampled. Ignored without room or memory.
 */
void estimate_add_sample(struct estimate *e, const struct estimate_key *key, uint32_t stack,
			 uint32_t n_samples, uint64_t n, uint64_t ns);

/*
 * Add n waits, ns in all, that were stored without a stack. Without room or memory they stay
 * without one.
 */
void estimate_add_rest(struct estimate *e, const struct estimate_key *key, uint64_t n, uint64_t ns);

/*
 * Divide the waits without a stack: move rows of the open window from stack `no_stack` to the
 * samples' stacks. Each wait counts `weight` samples in the store. Return the number of waits that
 * moved.
 */
uint64_t estimate_divide(struct estimate *e, struct store_writer *store, uint32_t no_stack,
			 unsigned weight);

#endif
