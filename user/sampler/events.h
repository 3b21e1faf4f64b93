/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fires: perf events by name, opened on every online CPU, and their own counts.
 */
#ifndef ASCRIBE_SAMPLER_EVENTS_H
#define ASCRIBE_SAMPLER_EVENTS_H

#include "util/err.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

#define EVENT_NAME_MAX 128

struct event {
	char name[EVENT_NAME_MAX];
	struct perf_event_attr attr;
	bool tracepoint;
	bool fixed_period;      /* the period of a sample never changes: cpu-clock, task-clock */
	uint64_t ns_per_sample; /* 0 when a sample does not stand for time */
	const char *unit;       /* of the event's own count */
	bool wait;              /* no perf event: bpf/offcpu.bpf.h makes the rows, off-cpu and runq */
};

#define EVENT_OFF "off-cpu"
#define EVENT_RUNQ "runq"

/*
 * Parse one event: "cpu-clock", "cycles", "page-faults", ..., or "subsystem:tracepoint". hz is the rate that is asked for; a
 * tracepoint fires at each hit whatever the rate. -EINVAL names the events there are; -ENOENT: no such tracepoint, or tracefs
 * is not to be had.
 */
int event_parse(struct event *ret, const char *text, unsigned hz, struct err *err);

/*
 * Both kinds of waits at the end of the *n events in v[max], whichever of them was named. -EINVAL: there is no place for them.
 */
int events_add_waits(struct event *v, unsigned *n, unsigned max, struct err *err);

/* "cycles" where this host has a PMU that counts them, else "cpu-clock". */
const char *event_default(void);

/* Names that event_parse knows, comma separated, without tracepoints. */
const char *event_names(void);

/*
 * Open on one CPU, disabled. The errors name the missing right and how to get it: -EACCES / -EPERM, -ENOENT / -EOPNOTSUPP (no
 * such event on this machine), -ENODEV (the CPU is offline).
 */
int event_open(const struct event *e, int cpu, int *ret_fd, struct err *err);

/*
 * Open a clock on one CPU to tick at a random period, 0.7 to 0.9 of the sampling
 * period. bpf/jitter.bpf.h chooses the samples among the ticks. For all other events the
 * same as event_open.
 */
int event_open_jittered(const struct event *e, int cpu, int *ret_fd, struct err *err);

/* Does each sample of this event stand for a fixed time? */
bool event_is_clock(const struct event *e);

/* The count since opening: nanoseconds for clocks, hits for the others. 0 or -errno. */
int event_count(int fd, uint64_t *ret);

#endif
