/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon may use, and what to do when it uses more. */
#ifndef ASCRIBE_CLI_BUDGET_H
#define ASCRIBE_CLI_BUDGET_H

#include "collect/collector.h"

struct budget_limits {
	double cpu;	 /* of one CPU, 0: no limit */
	uint64_t memory; /* resident, and the maps of the kernel side; 0: no limit */
};

enum budget_verdict {
	BUDGET_FINE,
	BUDGET_SLOWER,	/* half the rate */
	BUDGET_FASTER,	/* twice the rate */
	BUDGET_TRIM,	/* give up caches */
	BUDGET_RESTART, /* give up everything */
};

/* All zero before the first look. */
struct budget {
	uint64_t since_ns, cpu_ns; /* of the minute that is measured */
	unsigned low_minutes;	   /* one after the other, far below the limit */
	unsigned high_looks;	   /* memory */
	uint64_t memory;	   /* when it was last looked at */
	double cpu;		   /* of one CPU, over the last whole minute */
};

struct budget_reading {
	uint64_t now_ns; /* CLOCK_BOOTTIME */
	uint64_t cpu_ns; /* used since the start, by the recorder's thread and the parsing children */
	uint64_t memory;
};

/* By the recorder's thread. */
struct budget_reading budget_read(const struct collector_progress *p);
/* Call every some seconds. weight: how many samples one stands for now. */
enum budget_verdict budget_look(struct budget *b, const struct budget_limits *l, const struct budget_reading *r, unsigned weight);
/* What was just done costs of its own: measure from here. */
void budget_restarted(struct budget *b);

#endif
