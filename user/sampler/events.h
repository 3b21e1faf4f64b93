/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perf events by name: open them on every online CPU, and read their counts.
 */
#ifndef ASCRIBE_SAMPLER_EVENTS_H
#define ASCRIBE_SAMPLER_EVENTS_H

#include "util/err.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENT_NAME_MAX 512 /* of a probe: with its file */

struct event {
	char name[EVENT_NAME_MAX];
	struct perf_event_attr attr;
	bool tracepoint;
	bool probe;		/* in the code of programs: probe.h */
	bool calls;		/* a probe: how long calls take */
	bool values;		/* a probe: each hit has a value of its own */
	uint32_t label;		/* a probe: so many of its arguments are labels */
	bool heap;		/* likewise: allocations that programs sample themselves */
	bool fixed_period;	/* constant period: cpu-clock, task-clock */
	uint64_t ns_per_sample; /* 0 where a sample is not a time */
	const char *unit;	/* of the event's own count */
	uint8_t leaves_out;	/* of a clock's samples: LEAVE_OUT_* */
	/* No perf event: bpf/offcpu.bpf.h writes the rows of off-cpu and runq */
	bool wait;
};

/* Is the distribution of the values of its hits kept? */
static inline bool event_has_spread(const struct event *e)
{
	return e->values && !e->heap;
}

#define EVENT_OFF "off-cpu"
#define EVENT_RUNQ "runq"

/*
 * Parse one event: "cpu-clock", "cycles", "page-faults", ..., "r1a8", one of a PMU (pmu.h), each
 * with modifiers (":u", ":kp"), "subsystem:tracepoint", or a probe (probe.h). hz is the requested
 * rate; tracepoints and probes fire at each hit. -EINVAL: the error lists the events; -ENOENT: no
 * such tracepoint, or no tracefs.
 */
int event_parse(struct event *ret, const char *text, unsigned hz, struct err *err);

/*
 * The same of a list that was split at its commas, into ret[MAX_EVENTS]; without any the default.
 * Those of "cpu/event=1,umask=2/" are put back.
 */
int events_parse(struct event *ret, unsigned *ret_n, char *const *texts, size_t n_texts,
		 unsigned hz, struct err *err);

/* Take a sample each `period` of the events that have one. -EINVAL: none has. */
int events_set_period(struct event *v, unsigned n, uint64_t period, struct err *err);

/*
 * Move both kinds of waits to the end of the *n events in v[max], also if only one was named.
 * -EINVAL: no room for them.
 */
int events_add_waits(struct event *v, unsigned *n, unsigned max, struct err *err);

/* Return "cycles" where a PMU of this host counts them, else "cpu-clock". */
const char *event_default(void);

/* Return the names that event_parse accepts, comma separated, without tracepoints. */
const char *event_names(void);

/*
 * Open an event on one CPU, disabled. Errors name the missing capability and how to get it: -EACCES
 * / -EPERM, -ENOENT / -EOPNOTSUPP (no such event on this machine), -ENODEV (the CPU is offline).
 */
int event_open(const struct event *e, int cpu, int *ret_fd, struct err *err);

/*
 * Open a clock on one CPU with a random tick, 0.7 to 0.9 of the sampling period. bpf/jitter.bpf.h
 * chooses the samples among the ticks. The same as event_open for all other events.
 */
int event_open_jittered(const struct event *e, int cpu, int *ret_fd, struct err *err);

/* True if each sample of this event stands for a fixed time. */
bool event_is_clock(const struct event *e);

/*
 * Return the count since opening: nanoseconds for clocks, hits for the others. 0 or -errno. A clock
 * gives the time that it was enabled. Its count stands still while the kernel throttles it: after
 * perf_event_max_sample_rate / HZ interrupts without a tick, as on an idle CPU. An event that took
 * turns with others of its PMU gives what it would have counted alone, an estimate.
 */
int event_count(int fd, uint64_t *ret);

#endif
