/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How large the tables of the BPF programs are. All CPUs together have one budget: where there are
 * many of them each gets less, and is drained more often.
 */
#ifndef ASCRIBE_SAMPLER_SIZES_H
#define ASCRIBE_SAMPLER_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bytes of kernel memory for up to 512 CPUs; with more 128 KiB each */
#define SIZES_BUDGET (64ull << 20)

/* What is to be recorded, where. */
struct sizes_question {
	unsigned n_cpus;
	unsigned hz;	   /* of all events that are sampled */
	unsigned window_s; /* the longest time between two drains */
	bool waits, wakers;
	bool instants;		 /* when each sample was taken is kept */
	uint32_t rows;		 /* of a half to begin with; 0: as many as are made in a window */
	size_t fixed_bytes;	 /* tables that do not depend on the answer */
	size_t cpu_fixed_bytes;	 /* and those of each CPU */
	size_t half_extra_bytes; /* and what comes with each half */
	/* Of one run, recorded thread, rule, buffer */
	size_t run_bytes, reuse_bytes, recalled_bytes, copy_bytes;
};

/* All counts but n_halves are powers of two. */
struct sizes {
	uint32_t n_halves; /* one for each CPU, and those that take their places in a drain */
	/* Of a half: rows and references to stacks; of its arena, without the room behind it */
	uint32_t rows, words;
	uint32_t half_bytes;		/* rounded up to 8 */
	uint32_t runs, reuse, recalled; /* of a CPU */
	uint32_t copies;		/* of the host */
	size_t ring_bytes;		/* of a CPU's side-band */
	unsigned drain_ms;
	bool may_grow; /* there is use for twice the rows, and room in the budget */
	size_t bytes;  /* all of it */
};

void sizes_choose(const struct sizes_question *q, struct sizes *ret);

/* The part that depends on the number of CPUs alone. */
void sizes_of_cpus(unsigned n_cpus, struct sizes *ret);

/*
 * Return how many rows a half begins with where all halves have `bytes` together: 2,048 at least.
 */
uint32_t sizes_first_rows(unsigned n_cpus, size_t bytes);

#endif
