/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hold the daemon to memory-max and cpu-max: measure (account.h), decide (governor.h), say in the
 * log what is given up, and give the collector its part of it. The daemon changes the rate and
 * drops caches. By the recorder's thread.
 */
#ifndef ASCRIBE_DAEMON_SAVING_H
#define ASCRIBE_DAEMON_SAVING_H

#include "daemon/account.h"
#include "daemon/governor.h"

struct saving {
	struct governor governor;
	struct account account; /* at the last look */
	uint64_t kept;		/* of its reserve: for another process */
	uint64_t program_bytes;
	/* Of the account at the start, all but the kernel's memory; 0: not measured yet */
	uint64_t base;
	uint64_t needs; /* the least that a daemon needs here, at its start; 0: not measured yet */
	uint64_t cpu_ns, sampling_ns,
		cpu_last[4]; /* used so far; what children and BPF had used at the last look */
	struct {
		/* Of a CPU's table, of the next recorder; 0: as many as in the beginning */
		uint32_t rows;
		uint64_t since_ns, early_drains; /* at the beginning of the minute */
	} tables;
	bool peaks; /* the account has the peak since the last look, not that of the whole life */
	bool memory_over, cpu_over; /* it was logged that the limit cannot be kept */
};

struct saving_limits {
	double cpu;	 /* share of all CPUs; 0: no limit */
	uint64_t memory; /* 0: no limit */
	uint64_t hz;
	bool waits, only_waits; /* governor_limits */
	bool hits; /* tracepoints or probes are recorded: each hit counts, so the rate stays */
};

/* Before any recorder is opened. */
void saving_init(struct saving *s);

/*
 * Is memory-max enough for this recorder, which has just begun or begins? -E2BIG: no, and err says
 * what is needed.
 */
int saving_check(struct saving *s, const struct saving_limits *l, struct collector *c,
		 struct err *err);

/* Is there room for a second recorder beside the one that runs? */
bool saving_has_room(const struct saving *s, const struct saving_limits *l);

/* Bytes of memory-max that a process beside the daemon may take now; UINT64_MAX: no limit. */
uint64_t saving_room(const struct saving *s, const struct saving_limits *l);

/* A recorder is new: it gives up what the one before did. */
void saving_apply(const struct saving *s, const struct saving_limits *l, struct collector *c);

/* What is left to the daemon after a look. */
struct saving_todo {
	bool rate;   /* samples stand for another number: governor_weight */
	bool waits;  /* waits are measured or not: governor_waits */
	bool tables; /* they fill too often: twice as large ones */
	bool caches; /* questions have another share, and caches go */
};

/*
 * Every few seconds. server: memory of the process that serves; kept: that another process may
 * take.
 */
struct saving_todo saving_look(struct saving *s, const struct saving_limits *l, struct collector *c,
			       const struct collector_progress *p, uint64_t server, uint64_t kept);

#endif
