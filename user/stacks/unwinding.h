/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind rules for the processes that are sampled. The BPF program asks when it samples a process
 * for the first time. Then the files that the process maps are compiled, each content once, and its
 * mappings are published. Processes without samples cost nothing.
 *
 * No call waits for a compiler. Mappings are published when all of their files are compiled. After
 * UNWINDING_GRACE_NS they are published without the others, which follow when their rules come.
 *
 * Rows have a budget. When it is spent, files that no published process maps are freed, those idle
 * for longest first. When all files are in use, a new file gets no rules until one is freed, which
 * is counted. A file larger than the budget never gets rules.
 *
 * The state of a process belongs to its image (PROC_UNWIND). Processes with work to do are in
 * lists, so that others cost nothing. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_UNWINDING_H
#define ASCRIBE_STACKS_UNWINDING_H

#include "sampler/sampler.h"
#include "stacks/resolve.h"
#include "unwind/walk.h"

#define UNWINDING_GRACE_NS 500000000ull

struct unwinding;

/*
 * Files are compiled by op (unwind_op) of the sandbox. budget: bytes of rows; 0: frame pointers
 * alone.
 */
struct unwinding_config {
	unsigned op;
	size_t budget;
};
int unwinding_new(struct unwinding **ret, struct sampler *s, struct procs *procs,
		  struct resolver *r, const struct unwinding_config *cfg);
void unwinding_free(struct unwinding *u);

/* The BPF program asks for the rules of this image, which has that identity. */
void unwinding_new_process(struct unwinding *u, struct proc_image *im, const struct proc_id *id);

/*
 * The BPF program has an entry for this process now: publish the rules that were compiled before.
 */
void unwinding_known(struct unwinding *u, const struct proc_image *im);

/*
 * The BPF program has met code of this process, before pc, without rules: compile them if it is of
 * a file.
 */
void unwinding_missed(struct unwinding *u, const struct proc_id *id, uint64_t pc);

/* This process has a new mapping. */
void unwinding_mapped(struct unwinding *u, const struct proc_image *im);

/* Records of mappings were lost: each published process may have new mappings. */
void unwinding_lost(struct unwinding *u);

/* Note a sample with a user stack at ns: processes without samples lose their ranges first. */
void unwinding_sampled(struct unwinding *u, const struct proc_image *im, uint64_t ns);

/*
 * Submit files that are due to compilers, and publish the rules that have come, for some
 * milliseconds. Return in how many ms to call it again; -1: nothing is waiting.
 */
int unwinding_tick(struct unwinding *u);

/* Compilers have answered: look again at processes that wait for rules. */
void unwinding_go_on(struct unwinding *u);

/*
 * Unwind a sample of this process at ns from a copy of its registers and memory, as unwind_walk.
 * -EINPROGRESS: a file that its image mapped then is being compiled. With `now`, such a file counts
 * as one without rules.
 */
int unwinding_walk(struct unwinding *u, const struct proc_id *id, uint64_t ns,
		   const struct user_registers *regs, const struct unwind_memory *memory, bool now,
		   uint64_t *out, unsigned *ret_n, enum counter *ret_end);

/* Free what belongs to forgotten processes. Call it after each window, behind procs_forget. */
void unwinding_forget(struct unwinding *u);

struct unwinding_stats {
	uint64_t files, rows;	  /* with rules, now */
	uint64_t compiled;	  /* since the start */
	uint64_t evicted;	  /* idle ones, for lack of room */
	uint64_t over_budget;	  /* files that found no room */
	uint64_t refused;	  /* files whose unwind information could not be used */
	uint64_t refused_entries; /* of the others: entries that could not be understood */
	uint64_t ranges_full;	  /* processes that found no room for their mappings */
	/* Processes whose mappings made room for others', because they had no samples */
	uint64_t ranges_evicted;
	/* Published when they were most; images with the same mappings share a list */
	uint64_t ranges, range_lists;
	uint64_t compile_ns; /* of CPU */
	size_t bytes;	     /* of rows */
	/* Kernel memory for rows that is not part of our resident memory now */
	size_t unmapped;
};
void unwinding_stats(const struct unwinding *u, struct unwinding_stats *ret);

#endif
