/* SPDX-License-Identifier: Apache-2.0 */
#include "hist/metrics.h"

#include "hist/multi.h"
#include "util/clock.h"

#include <errno.h>

#define BITS 6

static const struct {
	const char *name, *help;
	unsigned decimals;
	uint64_t from, to;
} list[N_METRICS] = {
#define METRIC(id, name, decimals, from, to, help) \
	[METRIC_##id] = { name, help, decimals, from, to },
#include "hist/metrics.def"
#undef METRIC
};

/* Made once and never freed: a thread may be recording. */
static struct hist_multi *histograms[N_METRICS];
static uint64_t lost;

static struct hist_multi *get(enum metric m)
{
	return __atomic_load_n(&histograms[m], __ATOMIC_ACQUIRE);
}

static struct hist_multi *make(enum metric m)
{
	struct hist_multi *h = get(m), *fresh;
	if (h || hist_multi_new(BITS, &fresh))
		return h;
	if (__atomic_compare_exchange_n(&histograms[m], &h, fresh, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return fresh;
	hist_multi_free(fresh); /* another thread was faster */
	return h;
}

void metric_record(enum metric m, uint64_t value)
{
	struct hist_multi *h = make(m);
	if (h)
		hist_multi_record(h, value);
	else
		__atomic_fetch_add(&lost, 1, __ATOMIC_RELAXED);
}

void metric_add(enum metric m, uint64_t value, uint64_t n)
{
	struct hist_multi *h = make(m);
	if (h)
		hist_add(h->shared, value, n);
	else
		__atomic_fetch_add(&lost, n, __ATOMIC_RELAXED);
}

struct metric_timer metric_begin(enum metric m)
{
	return (struct metric_timer){ m, clock_ns(CLOCK_MONOTONIC) };
}

void metric_end(struct metric_timer *t)
{
	metric_record(t->metric, clock_ns(CLOCK_MONOTONIC) - t->begin_ns);
}

const char *metric_name(enum metric m)
{
	return list[m].name;
}

unsigned metric_decimals(enum metric m)
{
	return list[m].decimals;
}

int metric_snapshot(enum metric m, struct hist_snapshot *s, struct err *err)
{
	const struct hist_multi *h = get(m);
	return h ? hist_multi_snapshot(h, s, err) : 0;
}

uint64_t metrics_lost(void)
{
	return __atomic_load_n(&lost, __ATOMIC_RELAXED);
}

static int put(enum metric m, const struct hist_snapshot *s, struct buf *out, struct err *err)
{
	uint64_t bounds[HIST_BOUNDS_MAX];
	struct hist_family f = { .name = list[m].name,
				 .help = list[m].help,
				 .decimals = list[m].decimals,
				 .bounds = bounds };
	f.n_bounds = hist_bounds(list[m].from, list[m].to, bounds);
	int rc = hist_prometheus_head(&f, out, err);
	return rc ? rc : hist_prometheus(&f, s, NULL, 0, out, err);
}

int metrics_prometheus(struct buf *out, struct err *err)
{
	int rc = 0;
	for (unsigned m = 0; m < N_METRICS && !rc; m++) {
		struct hist_snapshot s;
		hist_snapshot_init(&s, BITS);
		rc = metric_snapshot(m, &s, err);
		if (!rc && s.total)
			rc = put(m, &s, out, err);
		hist_snapshot_fini(&s);
	}
	return rc;
}
