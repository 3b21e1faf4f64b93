/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host whose rates are exact, for tests of findings: a list of parts, each a label set that uses
 * CPUs or waits at one rate for some windows.
 */
#ifndef TESTS_FINDINGS_HOST_H
#define TESTS_FINDINGS_HOST_H

#include "near.h"
#include "store_model.h"

#include "query/findings.h"
#include "query/findings_int.h"

#define SECOND 1000000000ll
#define WINDOW (10 * SECOND)
#define BEGIN 1700000000000000000ll
#define DAY (86400 * SECOND)
#define WINDOWS 60
#define RANGE 30 /* the first window of the range; those before it are what was before */

enum { CPU, RUNQ, OFF, WAKER, RUNQ_LENGTHS, OFF_LENGTHS, EVENTS };

/* permille: thousandths of a CPU, or of a thread that waits. */
struct part {
	int event;
	const char *labels, *stack; /* "function module build\n" from the root; build "-": none */
	unsigned from, to, permille;
};

/* Add it to both windows of a part that was a day before. */
#define DAY_BEFORE 1000

static inline int64_t window_ns(int window)
{
	return BEGIN + window * WINDOW;
}

static inline uint32_t host_stack(struct store_writer *w, const char *text)
{
	uint32_t stack = 0, frame;
	for (const char *p = text; *p; p = strchr(p, '\n') + 1) {
		char function[64], module[64], build[16];
		assert_int_equal(sscanf(p, "%63s %63s %15s", function, module, build), 3);
		struct store_frame f = { .kind = *module == '[' ? FRAME_KERNEL : FRAME_USER };
		f.function = model_text(w, function);
		f.module = model_text(w, module);
		f.build_id = strcmp(build, "-") ? model_text(w, build) : 0;
		assert_int_equal(store_add_frame(w, &f, &frame), 0);
		assert_int_equal(store_add_stack(w, stack, frame, &stack), 0);
	}
	return stack;
}

static inline void host_commit(struct store_writer *w, int64_t t0, unsigned cpus)
{
	uint64_t lost[2] = { 0 }, flagged[1] = { 0 };
	struct store_cpu_totals cpu[128];
	struct store_totals t = { cpu, cpus, 0, 0, 0 };
	struct err err = { 0 };
	for (uint32_t i = 0; i < cpus; i++)
		cpu[i] = (struct store_cpu_totals){ i, 1000, 1000, lost, flagged };
	if (store_commit_window(w, t0, t0 + WINDOW, t0 - BEGIN + 2 * DAY, &t, &err))
		fail_msg("%s", err.text);
}

static inline void host_windows(struct store_writer *w, const struct part *v, size_t n,
				unsigned cpus, bool day)
{
	static const struct store_event events[EVENTS] = {
		{ "cpu-clock", "nanoseconds", 10000000, 10000000 },
		{ "runq", "nanoseconds", 0, 0 },
		{ "off-cpu", "nanoseconds", 0, 0 },
		{ "waker", "nanoseconds", 0, 0 },
		{ "runq.lengths", "nanoseconds", 0, 0 },
		{ "off-cpu.lengths", "nanoseconds", 0, 0 },
	};
	for (unsigned i = 0; i < WINDOWS; i++) {
		const unsigned at = i + (day ? DAY_BEFORE : 0);
		for (size_t k = 0; k < n; k++) {
			uint32_t event, set, id;
			for (int e = 0; e < EVENTS; e++) {
				assert_int_equal(store_add_event(w, &events[e], &id), 0);
				event = e == v[k].event ? id : e ? event : id;
			}
			if (at < v[k].from || at >= v[k].to)
				continue;
			assert_int_equal(model_put_set(w, v[k].labels, &set), 0);
			assert_int_equal(store_add_row(w, set, host_stack(w, v[k].stack), event,
						       v[k].permille, v[k].permille * 10000000ull),
					 0);
		}
		host_commit(w, window_ns((int)i) - (day ? DAY : 0), cpus);
	}
}

/* The store of these parts, in a new directory. */
static inline struct store *host_make(char *dir, const struct part *v, size_t n, unsigned cpus)
{
	struct store_options o;
	struct store_writer *w;
	struct err err = { 0 };
	bool day = false;
	store_options_default(&o);
	if (store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < n; i++)
		day |= v[i].from >= DAY_BEFORE;
	if (day)
		host_windows(w, v, n, cpus, true);
	host_windows(w, v, n, cpus, false);
	store_writer_close(w);
	return open_store(dir);
}

#endif
