/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decide what the daemon gives up when it uses more than it may. Pure: readings go in, steps
 * come out.
 *
 *   CPU      inlined calls and lines -> names of cold files -> stacks of waits -> half the rate
 *            -> a quarter of the rate -> waits
 *   memory   caches -> stacks of waits -> distinct rows
 *
 * Use above the limit gives up the next thing, use above twice the limit the next two. Low use for
 * some periods takes the last one back.
 * When that was too early, the next try waits twice as long: nothing is given up and taken back
 * each minute. The rate is left as it is where waits are measured and sampling is a small part of
 * the use: it would save next to nothing.
 */
#ifndef ASCRIBE_DAEMON_GOVERNOR_H
#define ASCRIBE_DAEMON_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

/* How much is given up: each step includes those before it. */
enum cpu_step {
	CPU_FULL,
	CPU_NO_LINES,
	CPU_NO_COLD_NAMES,
	CPU_NO_WAIT_STACKS,
	CPU_HALF_RATE,
	CPU_QUARTER_RATE,
	CPU_NO_WAITS,
	CPU_STEPS,
};

enum memory_step {
	MEMORY_FULL,
	MEMORY_NO_CACHES,
	MEMORY_NO_WAIT_STACKS,
	MEMORY_FEWER_ROWS,
	MEMORY_STEPS,
};

enum governor_move {
	GOVERNOR_STAY,
	GOVERNOR_GIVE_UP,   /* one step more, or two */
	GOVERNOR_TAKE_BACK, /* one step less */
};

/* All zero in the beginning. A period is a minute for CPU time, a look for memory. */
struct ladder {
	unsigned step;
	unsigned moved;	   /* bits of the steps that the last look gave up or took back */
	unsigned calm;	   /* periods of low use, one after the other */
	unsigned patience; /* calm periods before a step is taken back; 0: not set yet */
	/* Periods since a step was taken back; 0: none was since the last one was given up */
	unsigned since_back;
	uint64_t n_given_up; /* steps given up so far */
};

struct governor_limits {
	double cpu;	     /* share of all CPUs; 0: no limit */
	uint64_t memory;     /* bytes; 0: no limit */
	bool waits;	     /* waits are measured, so their stacks can be given up, */
	bool only_waits;     /* and nothing else: they must stay */
	unsigned weight_max; /* samples that one may stand for: 1, 2 or 4 */
};

struct governor_reading {
	uint64_t now_ns;      /* CLOCK_BOOTTIME */
	uint64_t cpu_ns;      /* used since the start, */
	uint64_t sampling_ns; /* of that, by programs that take samples */
	unsigned n_cpus;      /* of the host */
	uint64_t memory;      /* bytes in use */
};

struct governor {
	struct ladder cpu, memory;
	uint64_t since_ns, since_cpu_ns,
		since_sampling_ns; /* of the minute being measured; 0: none is */
	double cpu_share;	   /* of all CPUs, over the last whole minute */
	bool measured;		   /* that minute was after the last step */
	bool keep_rate;		   /* the steps of the rate are left out */
	unsigned weight_max;	   /* of the limits at the last look; 0: none yet */
};

/* Look every few seconds. */
enum governor_move governor_look_at_cpu(struct governor *g, const struct governor_limits *l,
					const struct governor_reading *r);
enum governor_move governor_look_at_memory(struct governor *g, const struct governor_limits *l,
					   const struct governor_reading *r);

/* What was just done costs CPU time of its own: measure a new minute. */
void governor_new_minute(struct governor *g);
/* The limits changed: forget how patient to be. Steps are taken back one by one, as always. */
void governor_new_limits(struct governor *g);

/* How many samples one stands for at this step. */
unsigned governor_weight(const struct governor *g);

/* Are waits measured at this step? */
bool governor_waits(const struct governor *g);

/* Is the last step taken that there is? */
bool governor_cpu_is_last(const struct governor *g, const struct governor_limits *l);

#endif
