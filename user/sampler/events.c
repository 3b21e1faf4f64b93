/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/events.h"

#include "sampler/pmu.h"
#include "sampler/probe.h"
#include "sampler/tracepoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NS 1000000000ull
#define UPROBE_SEMAPHORE_SHIFT 32 /* its field in config: format/ref_ctr_offset of the PMU */

static const struct known {
	const char *name;
	uint32_t type;
	uint64_t config;
	const char *unit;
	bool clock;
} known[] = {
	{ "cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, "nanoseconds", true },
	{ "task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, "nanoseconds", true },
	{ "page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, "count", false },
	{ "minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, "count", false },
	{ "major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, "count", false },
	{ "context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, "count", false },
	{ "cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, "count", false },
	{ "alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS, "count", false },
	{ "emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS, "count", false },
	{ "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, "cycles", false },
	{ "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, "count", false },
	{ "cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, "count", false },
	{ "cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, "count", false },
	{ "branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, "count", false },
	{ "branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, "count", false },
	{ "bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES, "cycles", false },
	{ "ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES, "cycles", false },
	{ "stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
	  "cycles", false },
	{ "stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
	  "cycles", false },
};
#define N_KNOWN (sizeof(known) / sizeof(known[0]))

const char *event_names(void)
{
	static char names[1024];
	names[0] = 0;
	for (size_t i = 0; i < N_KNOWN; i++) {
		strcat(strcat(names, i ? ", " : ""), known[i].name);
	}
	strcat(names, ", " EVENT_OFF ", " EVENT_RUNQ);
	return names;
}

static int parse_tracepoint(struct event *e, const char *text, struct err *err)
{
	uint64_t id;
	int rc = tracepoint_id(text, &id);
	if (rc == -EINVAL)
		return err_set(err, -EINVAL,
			       "event '%s': a tracepoint is subsystem:name, as under "
			       "/sys/kernel/tracing/events",
			       text);
	if (rc == -EACCES)
		return err_set(err, -EACCES,
			       "event '%s': tracefs cannot be read: be root, or run with "
			       "CAP_DAC_READ_SEARCH",
			       text);
	if (rc == -ENOENT && access("/sys/kernel/tracing/events", F_OK) &&
	    access("/sys/kernel/debug/tracing/events", F_OK))
		return err_set(err, -ENOENT,
			       "event '%s': tracefs is not mounted: mount -t tracefs tracefs "
			       "/sys/kernel/tracing",
			       text);
	if (rc == -ENOENT)
		return err_set(err, -ENOENT,
			       "event '%s': no such tracepoint under /sys/kernel/tracing/events",
			       text);
	if (rc)
		return err_sys(err, rc, "event '%s'", text);
	e->tracepoint = true;
	e->fixed_period = true;
	e->attr.type = PERF_TYPE_TRACEPOINT;
	e->attr.config = id;
	return 0;
}

static int parse_probe(struct event *e, const char *text, struct err *err)
{
	struct probe_spec spec;
	int rc = probe_parse(&spec, text, err);
	if (rc)
		return rc;
	e->probe = e->fixed_period = true;
	e->calls = spec.kind == PROBE_CALLS;
	e->heap = spec.kind == PROBE_HEAP;
	e->label = spec.n_labels;
	e->values = e->calls || e->heap || spec.value.arg;
	e->unit = probe_unit(&spec);
	e->attr.sample_period = 1;
	return 0;
}

static int no_event(const char *text, struct err *err)
{
	return err_set(err, -EINVAL,
		       "unknown event '%s'; there are %s, rHEX and PMU/event/ of a CPU's PMU, "
		       "tracepoints as subsystem:name, and probes as uprobe:FILE:SYMBOL, "
		       "uretprobe:FILE:SYMBOL, usdt:FILE:PROVIDER:NAME and heap:FILE",
		       text, event_names());
}

/* An event of a PMU whose number is given: r1a8. False: the name is none. */
static bool parse_raw(struct event *e, const char *name)
{
	const size_t len = strlen(name);
	if (*name != 'r' || len < 2 || len > 17 ||
	    strspn(name + 1, "0123456789abcdefABCDEF") != len - 1)
		return false;
	e->attr.type = PERF_TYPE_RAW;
	e->attr.config = strtoull(name + 1, NULL, 16);
	return true;
}

static const struct known *find_known(const char *name)
{
	for (size_t i = 0; i < N_KNOWN; i++)
		if (!strcmp(known[i].name, name))
			return &known[i];
	return NULL;
}

static void set_rate(struct event *e, const struct known *k, unsigned hz)
{
	if (k && k->clock) {
		/*
		 * The kernel turns a clock's frequency into this very period; saying it
		 * ourselves keeps both sides exact.
		 */
		e->fixed_period = true;
		e->attr.sample_period = NS / hz;
		e->ns_per_sample = NS / hz;
	} else if (e->attr.type == PERF_TYPE_SOFTWARE) {
		/*
		 * Every one: the kernel's way of adapting a period to a rate starts at 1 and
		 * overshoots by far for these.
		 */
		e->fixed_period = true;
		e->attr.sample_period = 1;
	} else {
		e->attr.freq = 1;
		e->attr.sample_freq = hz;
		if (k && k->config == PERF_COUNT_HW_CPU_CYCLES)
			e->ns_per_sample = NS / hz;
	}
}

/* The letters behind an event's name: u user, k kernel, p (up to three) precise addresses. */
static int set_modifiers(struct event *e, const char *letters, struct err *err)
{
	const size_t user = strspn(letters, "u"), kernel = strspn(letters + user, "k"),
		     precise = strspn(letters + user + kernel, "p");
	if (!*letters || letters[user + kernel + precise] || user > 1 || kernel > 1 || precise > 3)
		return err_set(
			err, -EINVAL,
			"event '%s': behind the colon stand u (user), k (kernel), and p, pp or "
			"ppp (precise addresses)",
			e->name);
	if (precise && e->attr.type == PERF_TYPE_SOFTWARE)
		return err_set(err, -EINVAL,
			       "event '%s': precise addresses (p) are for events of a PMU",
			       e->name);
	e->attr.precise_ip = precise & 3;
	if (user == kernel)
		return 0;
	/* A clock counts all time either way, so its samples are chosen in the program. */
	if (event_is_clock(e)) {
		e->leaves_out = user ? LEAVE_OUT_KERNEL : LEAVE_OUT_USER;
	} else {
		e->attr.exclude_kernel = user;
		e->attr.exclude_user = kernel;
		/* The kernel keeps the rate by a shorter period. */
		e->ns_per_sample = 0;
	}
	return 0;
}

/* A name that is known, "r1a8" or "PMU/event/"; then modifiers, behind a slash without a colon. */
static int parse_counter(struct event *e, const char *text, unsigned hz, struct err *err)
{
	const char *slash = text + strcspn(text, ":/");
	const char *end = *slash == '/' ? strchr(slash + 1, '/') : NULL;
	const size_t len = end ? (size_t)(end + 1 - text) : strcspn(text, ":");
	const char *letters = text[len] == ':' ? text + len + 1 : text + len;
	char name[EVENT_NAME_MAX];
	snprintf(name, sizeof(name), "%.*s", (int)len, text);
	const struct known *k = find_known(name);
	e->unit = "count";
	if (k) {
		e->attr.type = k->type;
		e->attr.config = k->config;
		e->unit = k->unit;
	} else if (*slash == '/') {
		int rc = pmu_parse(&e->attr, PMU_DEVICES, name, err);
		if (rc)
			return rc;
	} else if (!parse_raw(e, name)) {
		return text[len] ? parse_tracepoint(e, text, err) : no_event(text, err);
	}
	set_rate(e, k, hz);
	return text[len] ? set_modifiers(e, letters, err) : 0;
}

int event_parse(struct event *ret, const char *text, unsigned hz, struct err *err)
{
	struct event e = { .attr = { .size = sizeof(e.attr), .disabled = 1 } };
	int rc = 0;
	if (!*text || strlen(text) >= EVENT_NAME_MAX)
		return err_set(err, -EINVAL, "event '%.40s': the name is empty or too long", text);
	snprintf(e.name, sizeof(e.name), "%s", text);
	if (probe_is(text)) {
		rc = parse_probe(&e, text, err);
	} else if (!strcmp(text, EVENT_OFF) || !strcmp(text, EVENT_RUNQ)) {
		e.wait = e.fixed_period = true;
		e.unit = "nanoseconds";
	} else {
		rc = parse_counter(&e, text, hz, err);
	}
	if (!rc)
		*ret = e;
	return rc;
}

/* Does an element of a list end within a PMU's event (slashes), or a function (brackets)? */
static bool is_cut(const char *text)
{
	const size_t name = strcspn(text, ":/");
	int open = 0;
	if (!probe_is(text))
		return name && text[name] == '/' && !strchr(text + name + 1, '/');
	for (const char *p = text; *p; p++)
		open += (*p == '(') - (*p == ')');
	return open > 0;
}

int events_parse(struct event *ret, unsigned *ret_n, char *const *texts, size_t n_texts,
		 unsigned hz, struct err *err)
{
	unsigned n = 0;
	int rc = n_texts ? 0 : event_parse(&ret[n++], event_default(), hz, err);
	for (size_t i = 0; !rc && i < n_texts; i++) {
		char text[EVENT_NAME_MAX + 1];
		size_t len = (size_t)snprintf(text, sizeof(text), "%s", texts[i]);
		while (len < sizeof(text) && is_cut(text) && i + 1 < n_texts)
			len += (size_t)snprintf(text + len, sizeof(text) - len, ",%s", texts[++i]);
		rc = n < MAX_EVENTS
			     ? event_parse(&ret[n++], text, hz, err)
			     : err_set(err, -EINVAL, "more than %d events at a time", MAX_EVENTS);
	}
	*ret_n = n;
	return rc;
}

int events_set_period(struct event *v, unsigned n, uint64_t period, struct err *err)
{
	bool any = false;
	for (unsigned i = 0; i < n; i++) {
		struct event *e = &v[i];
		if (event_is_clock(e) || e->wait || e->probe || e->tracepoint)
			continue;
		e->attr.freq = 0;
		e->attr.sample_period = period;
		e->fixed_period = any = true;
		e->ns_per_sample = 0;
	}
	return any ? 0
		   : err_set(err, -EINVAL,
			     "no event has a period (-c): clocks have a rate (-F), and each hit of "
			     "a tracepoint or probe is a sample");
}

int events_add_waits(struct event *v, unsigned *n, unsigned max, struct err *err)
{
	static const char *const names[] = { EVENT_OFF, EVENT_RUNQ };
	unsigned kept = 0;
	for (unsigned i = 0; i < *n; i++)
		if (!v[i].wait)
			v[kept++] = v[i];
	if (kept + 2 > max)
		return err_set(err, -EINVAL, "waits (%s, %s) are 2 of the %u events at a time",
			       names[0], names[1], max);
	int rc = event_parse(&v[kept], names[0], 1, err);
	rc = rc ? rc : event_parse(&v[kept + 1], names[1], 1, err);
	*n = kept + 2;
	return rc;
}

static int perf_open(const struct perf_event_attr *attr, int cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Asked once: a recorder that has given up its capabilities would be told that there is none. */
const char *event_default(void)
{
	static const char *answer;
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = PERF_TYPE_HARDWARE,
					.config = PERF_COUNT_HW_CPU_CYCLES,
					.disabled = 1,
					.freq = 1,
					.sample_freq = 99 };
	if (answer)
		return answer;
	int fd = perf_open(&attr, 0);
	if (fd >= 0)
		close(fd);
	return answer = fd < 0 ? "cpu-clock" : "cycles";
}

int event_open(const struct event *e, int cpu, int *ret_fd, struct err *err)
{
	struct perf_event_attr attr = e->attr;
	/*
	 * Else no program that reads stacks can be attached (-EPROTO): since v5.9, commit
	 * 5d99cb2c86775.
	 */
	if (attr.precise_ip)
		attr.sample_type = PERF_SAMPLE_CALLCHAIN;
	int fd = perf_open(&attr, cpu);
	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	switch (-fd) {
	case EACCES:
	case EPERM:
		return err_set(
			err, fd,
			"event '%s' on CPU %d: not permitted: be root, or run with CAP_PERFMON "
			"(CAP_SYS_ADMIN where kernel.perf_event_paranoid is above 2); see ascribe "
			"check",
			e->name, cpu);
	case ENOENT:
	case EOPNOTSUPP:
		if (attr.precise_ip)
			return err_set(err, fd,
				       "event '%s' is not counted by this machine: there may be no "
				       "precise addresses: leave out the p, or use -e cpu-clock",
				       e->name);
		return err_set(err, fd,
			       "event '%s' is not counted by this machine (no PMU, or not by its "
			       "PMU): use -e cpu-clock",
			       e->name);
	case EINVAL:
		return err_set(err, fd,
			       "event '%s' on CPU %d: refused: the rate may be above "
			       "kernel.perf_event_max_sample_rate",
			       e->name, cpu);
	case EMFILE:
		return err_set(err, fd,
			       "event '%s' on CPU %d: too many open files: raise ulimit -n",
			       e->name, cpu);
	default:
		return err_sys(err, fd, "event '%s' on CPU %d", e->name, cpu);
	}
}

bool event_is_clock(const struct event *e)
{
	return e->fixed_period && e->ns_per_sample && !e->wait;
}

#define TICK_MIN_NS 10000 /* the kernel's own bound: perf_swevent_hrtimer, since Linux 2.6.35 */

/* From 0.7 to 0.9 of the period: a random lattice, that leaves room for random distances on it. */
static uint64_t random_tick_ns(uint64_t period_ns)
{
	uint32_t r;
	if (period_ns <= TICK_MIN_NS || getrandom(&r, sizeof(r), GRND_NONBLOCK) != sizeof(r))
		return period_ns;
	uint64_t tick_ns = period_ns / 10 * 7 + (period_ns / 5 * (r >> 8) >> 24);
	return tick_ns < TICK_MIN_NS ? TICK_MIN_NS : tick_ns;
}

/* The kernel lets events of a PMU take turns where there are more of them than counters. */
static bool may_share_counter(const struct event *e)
{
	return e->attr.type != PERF_TYPE_SOFTWARE && !e->tracepoint;
}

int event_open_jittered(const struct event *e, int cpu, int *ret_fd, struct err *err)
{
	struct event ticking = *e;
	if (event_is_clock(e)) {
		ticking.attr.sample_period = random_tick_ns(e->attr.sample_period);
		ticking.attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
	} else if (may_share_counter(e)) {
		ticking.attr.read_format =
			PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	}
	return event_open(&ticking, cpu, ret_fd, err);
}

int event_count(int fd, uint64_t *ret)
{
	uint64_t v[3]; /* the count; the time that it was enabled, and had a counter */
	ssize_t n = read(fd, v, sizeof(v));
	if (n == (ssize_t)sizeof(v[0]))
		*ret = v[0];
	else if (n == 2 * (ssize_t)sizeof(v[0])) /* of a clock */
		*ret = v[1];
	else if (n == (ssize_t)sizeof(v))
		*ret = v[2] ? (uint64_t)((double)v[0] * ((double)v[1] / (double)v[2])) : 0;
	else
		return n < 0 ? -errno : -EIO;
	return 0;
}

/* How the kernel numbers the events of probes. -1: it has none. */
static long uprobe_type(void)
{
	long type = -1;
	FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	if (f && fscanf(f, "%ld", &type) != 1)
		type = -1;
	if (f)
		fclose(f);
	return type;
}

int probe_open(int file, const struct probe_place *at, bool is_return, int *ret_fd, struct err *err)
{
	char path[64];
	const long type = uprobe_type();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = (uint32_t)type,
					.config = at->semaphore << UPROBE_SEMAPHORE_SHIFT |
						  is_return, /* format/retprobe */
					.uprobe_path = (uintptr_t)path,
					.probe_offset = at->offset,
					.sample_period = 1,
					.disabled = 1 };
	if (type < 0)
		return err_set(err, -ENOTSUP,
			       "this kernel has no probes in programs (CONFIG_UPROBE_EVENTS)");
	int fd = perf_open(&attr, 0);
	if (fd == -EACCES || fd == -EPERM)
		return err_set(err, fd,
			       "probes in programs: not permitted: they take CAP_SYS_ADMIN before "
			       "Linux 6.6; see ascribe check");
	if (fd < 0)
		return err_sys(err, fd, "a probe at byte %llu of the file",
			       (unsigned long long)at->offset);
	*ret_fd = fd;
	return 0;
}
