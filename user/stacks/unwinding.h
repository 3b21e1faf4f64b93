/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind rules for the processes that are sampled: when the program meets a process for the first time it asks, the
 * files that the process maps are compiled (each content once), and its mappings published. What nobody has sampled
 * costs nothing.
 *
 * Nothing waits for a compiler. Mappings are published when all of their files are compiled, or after UNWINDING_GRACE_NS without
 * the files that are not; those follow when their rules come.
 *
 * Rows have a budget. When it is spent the files go that no published process maps, those first that went out of use
 * first; when all are in use the new file gets no rules until one of them goes, which is counted; one that is
 * larger than the budget never gets any.
 *
 * What is kept of a process hangs on its image (PROC_UNWIND). Work that is due waits in lists: its cost does not grow with the
 * processes that wait for nothing. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_UNWINDING_H
#define ASCRIBE_STACKS_UNWINDING_H

#include "sampler/sampler.h"
#include "stacks/resolve.h"
#include "unwind/walk.h"

#define UNWINDING_GRACE_NS 500000000ull

struct unwinding;

/* Files are compiled by op (unwind_op) of the sandbox. budget: bytes of rows; 0: frame pointers alone. */
struct unwinding_config {
	unsigned op;
	size_t budget;
};
int unwinding_new(struct unwinding **ret, struct sampler *s, struct procs *procs, struct resolver *r,
		  const struct unwinding_config *cfg);
void unwinding_free(struct unwinding *u);

/* The program does not know this image, which has that identity. */
void unwinding_new_process(struct unwinding *u, struct proc_image *im, const struct proc_id *id);

/* The BPF program knows this process now: what was compiled for it before can be told. */
void unwinding_known(struct unwinding *u, const struct proc_image *im);

/* This process has mapped something. */
void unwinding_mapped(struct unwinding *u, const struct proc_image *im);

/* Records of mappings were lost: any process that is published may have mapped something. */
void unwinding_lost(struct unwinding *u);

/* It had a sample with a user stack at ns: others make room for ranges before it does. */
void unwinding_sampled(struct unwinding *u, const struct proc_image *im, uint64_t ns);

/* A process is new and goes on mapping its libraries: the side-band should be read more often than it otherwise is. */
bool unwinding_expects_news(const struct unwinding *u);

/*
 * Have compiled what is due, and publish what has come, some milliseconds of it. In how many ms it should be called again; -1: nothing
 * waits.
 */
int unwinding_tick(struct unwinding *u);

/* Compilers have answered: processes that wait for rules are due. */
void unwinding_go_on(struct unwinding *u);

/*
 * The frames of a sample of this process at ns, from a copy of its registers and memory, as unwind_walk. -EINPROGRESS: what its
 * image mapped then is being compiled; with `now`, what is not compiled has no rules.
 */
int unwinding_walk(struct unwinding *u, const struct proc_id *id, uint64_t ns, const struct user_registers *regs,
		   const struct unwind_memory *memory, bool now, uint64_t *out, unsigned *ret_n, enum counter *ret_end);

/* After each window, behind procs_forget. */
void unwinding_forget(struct unwinding *u);

struct unwinding_stats {
	uint64_t files, rows;        /* with rules, now */
	uint64_t compiled;           /* since the start */
	uint64_t evicted;            /* for lack of room, while nobody used them */
	uint64_t over_budget;        /* files that found no room */
	uint64_t refused;            /* files whose unwind information could not be used */
	uint64_t refused_entries;    /* of the others: entries that could not be understood */
	uint64_t ranges_full;        /* processes that found no room for their mappings */
	uint64_t ranges_evicted;     /* processes whose mappings made room for others', because they had no samples */
	uint64_t ranges, range_lists; /* published when they were most; images with the same mappings share a list */
	uint64_t compile_ns;         /* of CPU */
	size_t bytes;                /* of rows */
	size_t unmapped;             /* kernel memory for rows that is not part of our resident memory now */
};
void unwinding_stats(const struct unwinding *u, struct unwinding_stats *ret);

#endif
