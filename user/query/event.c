/* SPDX-License-Identifier: Apache-2.0 */
#include "query/event.h"

#include "query/lengths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int named_event(const struct store *s, const char *name, uint32_t *ret, struct err *err)
{
	char known[300] = "";
	for (uint32_t i = 0; i < store_n_events(s); i++) {
		const char *have = store_event(s, i)->name;
		if (!strcmp(have, name)) {
			*ret = i;
			return 0;
		}
		if (store_scope(s)) /* others may have named them */
			continue;
		size_t n = strlen(known);
		snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", have);
	}
	return err_set(err, -EINVAL, "no event %s in the store%s%s", name,
		       known[0] ? ", it has: " : "", known);
}

/* The first that the selector admits, else the first. */
static int default_event(const struct store *s, struct selector *sel, uint32_t *ret,
			 struct err *err)
{
	*ret = store_n_events(s) ? 0 : NO_EVENT;
	for (uint32_t i = 0; selector_names_event(sel) && i < store_n_events(s); i++) {
		bool match = false;
		int rc = selector_match_event(sel, store_event(s, i)->name, &match, err);
		if (rc)
			return rc;
		if (match) {
			*ret = i;
			break;
		}
	}
	return 0;
}

static const char *const metric_names[] = {
	"",
	"cpu",
	"off-cpu",
	"runq",
	"wall",
	"blame",
	"waker",
	LATENCY_EVENT,
	"",
	"alloc_objects",
	"alloc_space",
	"inuse_objects",
	"inuse_space",
}; /* QUERY_VALUE: as its event */

int query_metric_named(const char *name, enum query_metric *ret)
{
	static const char *const names[] = {
		[QUERY_CPU] = "cpu",	     [QUERY_OFF] = "off",     [QUERY_RUNQ] = "runq",
		[QUERY_WALL] = "wall",	     [QUERY_BLAME] = "blame", [QUERY_WAKER] = "waker",
		[QUERY_LATENCY] = "latency", [QUERY_VALUE] = "value"
	};
	*ret = QUERY_SAMPLES;
	for (int i = QUERY_CPU; name && i <= QUERY_INUSE_SPACE; i++)
		if (!strcmp(name, i <= QUERY_VALUE ? names[i] : metric_names[i]))
			*ret = (enum query_metric)i;
	if (name && !strcmp(name, "heap"))
		*ret = QUERY_INUSE_SPACE;
	return name && *ret == QUERY_SAMPLES ? -EINVAL : 0;
}

const char *query_cpu_event(const struct store *s)
{
	for (uint32_t i = 0; i < store_n_events(s); i++)
		if (store_event(s, i)->ns_per_sample)
			return store_event(s, i)->name;
	return "";
}

static uint64_t query_cpu_ns(const struct store *s)
{
	for (uint32_t i = 0; i < store_n_events(s); i++)
		if (store_event(s, i)->ns_per_sample)
			return store_event(s, i)->ns_per_sample;
	return 0;
}

bool query_is_blocked(const char *event)
{
	return !strcmp(event, WAIT_EVENT) || !strcmp(event, LATENCY_OFF_EVENT);
}

static bool is_of_waits(const char *event)
{
	return query_is_blocked(event) || !strcmp(event, metric_names[QUERY_RUNQ]);
}

/* The units of what the recorder stores: who imports profiles may give an event such a name. */
static bool is_heap_event(const struct store_event *e, enum query_metric metric)
{
	static const char *const units[] = { "count", "bytes", "object-seconds", "byte-seconds" };
	return query_metric_is_heap(metric) && !strcmp(e->name, metric_names[metric]) &&
	       !strcmp(e->unit, units[metric - QUERY_ALLOC_OBJECTS]);
}

static bool is_same_heap(const struct store_event *a, const struct store_event *b)
{
	for (int i = QUERY_ALLOC_OBJECTS; i <= QUERY_INUSE_SPACE; i++)
		if (is_heap_event(a, (enum query_metric)i) &&
		    is_heap_event(b, (enum query_metric)i))
			return true;
	return false;
}

static int choose_metric(struct measures *m, struct query *q, const struct query_spec *spec,
			 struct selector *sel, struct err *err)
{
	enum query_metric metric = spec->metric;
	const char *cpu = query_cpu_event(q->store), *name = metric_names[metric];
	bool any = false;
	for (uint32_t i = 0; i < store_n_events(q->store); i++) {
		const struct store_event *e = store_event(q->store, i);
		struct measure *v = &m->of[i];
		bool wait = !strcmp(e->name, metric_names[QUERY_OFF]) ||
			    !strcmp(e->name, metric_names[QUERY_RUNQ]);
		bool part = metric == QUERY_LATENCY && !strcmp(e->name, LATENCY_OFF_EVENT);
		bool idle = metric == QUERY_WAKER && !strcmp(e->name, WAKER_IDLE_EVENT);
		if ((metric == QUERY_CPU || metric == QUERY_WALL) && !strcmp(e->name, cpu)) {
			*v = (struct measure){ .counts = true, .per_sample = e->ns_per_sample };
			q->info.grain = e->ns_per_sample;
			any |= metric == QUERY_CPU;
		} else if ((metric == QUERY_WALL && wait) ||
			   (metric != QUERY_CPU && !query_metric_is_heap(metric) &&
			    !strcmp(e->name, name)) ||
			   part || idle || is_heap_event(e, metric)) {
			*v = (struct measure){ .counts = true, .value = true, .idle = idle };
			any = true;
		}
	}
	if (!any && store_n_events(q->store) && query_metric_is_heap(metric))
		return err_set(err, -EINVAL, "no %s in the store: record with -e heap", name);
	if (!any && store_n_events(q->store))
		return err_set(err, -EINVAL, "no %s times in the store: record with %s", name,
			       metric == QUERY_WAKER	 ? "--wall --waker"
			       : metric == QUERY_LATENCY ? "--latency KEY"
							 : "--wall");
	const bool objects = metric == QUERY_ALLOC_OBJECTS || metric == QUERY_INUSE_OBJECTS;
	q->metric = query_metric_is_heap(metric)
			    ? (struct store_event){ name, objects ? "objects" : "bytes", 0, 1 }
			    : (struct store_event){ name, "nanoseconds", 1, 1 };
	if (query_metric_is_heap(metric) && !objects)
		q->info.grain = QUERY_HEAP_MEAN;
	if (metric == QUERY_LATENCY) /* its time on CPUs is sampled */
		q->info.grain = query_cpu_ns(q->store);
	m->stock = query_metric_is_stock(metric);
	q->event = 0;
	q->info.event = &q->metric;
	q->info.amounts = true;
	return selector_match_event(sel, name, &m->admitted, err);
}

bool query_is_profile(const struct store_event *e)
{
	static const char end[] = LENGTHS_SUFFIX;
	size_t n = strlen(e->name);
	if (!strncmp(e->name, "ascribe_", 8)) /* what the recorder measured of itself */
		return false;
	for (int i = QUERY_ALLOC_OBJECTS; i <= QUERY_INUSE_SPACE; i++)
		if (i != QUERY_ALLOC_SPACE && !strcmp(e->name, metric_names[i]))
			return false;
	return strcmp(e->name, "blame") && strcmp(e->name, WAKER_IDLE_EVENT) &&
	       strcmp(e->name, LATENCY_OFF_EVENT) &&
	       (n < sizeof(end) || strcmp(e->name + n - (sizeof(end) - 1), end));
}

bool query_counts_samples(const struct store_event *e)
{
	return query_is_profile(e) && strcmp(e->name, WAKER_EVENT) &&
	       strcmp(e->name, LATENCY_EVENT);
}

/*
 * Is every hit there, none of them for others? Not of waits, whose stacks are sampled. The kernel
 * adapts the period of a PMU's event that has none.
 */
static bool is_each_hit(const struct store_event *e)
{
	static const char *const probes[] = { "uprobe:", "uretprobe:", "usdt:" };
	bool each = !e->ns_per_sample && e->period == 1;
	for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++)
		each |= !strncmp(e->name, probes[i], strlen(probes[i]));
	return each;
}

bool query_has_values(const struct query_info *info)
{
	return info->event && !info->amounts && query_event_has_values(info->event);
}

/* Who imports profiles may store amounts as samples. */
static bool is_amount(const struct store_event *e)
{
	return !e->ns_per_sample && e->period == 1 &&
	       (!strcmp(e->unit, "bytes") || !strcmp(e->unit, "objects"));
}

const char *query_counts(const struct query_info *info)
{
	const struct store_event *e = info->event;
	if (!e)
		return "samples";
	if (info->amounts || is_amount(e))
		return e->unit;
	return e->ns_per_sample == 1 ? "nanoseconds" : "samples";
}

/*
 * A store that is written at another rate than before has another event of the same name, and so
 * have allocations that are sampled more rarely.
 */
static void measure_rates(struct measures *m, const struct query *q)
{
	for (uint32_t i = 0; i < store_n_events(q->store); i++) {
		const struct store_event *e = store_event(q->store, i);
		bool other = i != q->event && e->ns_per_sample && q->info.event->ns_per_sample &&
			     !strcmp(e->name, q->info.event->name);
		m->rates |= other;
		m->of[i].counts = other || i == q->event || is_same_heap(e, q->info.event);
	}
	for (uint32_t i = 0; i < store_n_events(q->store); i++)
		m->of[i].per_sample = m->rates ? store_event(q->store, i)->ns_per_sample : 1;
}

/* Sum the values of an event. */
static int choose_values(struct measures *m, struct query *q, const struct store_event *e,
			 struct selector *sel, struct err *err)
{
	if (e->ns_per_sample)
		return err_set(err, -EINVAL, "the values of %s are its time: --metric cpu",
			       e->name);
	for (uint32_t i = 0; i < store_n_events(q->store); i++)
		if (i == q->event || is_same_heap(store_event(q->store, i), e))
			m->of[i] = (struct measure){ .counts = true, .value = true };
	q->metric = *e;
	q->metric.period = 1;
	q->metric.ns_per_sample = !strcmp(e->unit, "nanoseconds");
	q->info.event = &q->metric;
	q->info.amounts = true;
	q->info.grain *= e->period;
	return selector_match_event(sel, e->name, &m->admitted, err);
}

static int choose_event(struct measures *m, struct query *q, const struct query_spec *spec,
			struct selector *sel, struct err *err)
{
	const char *name = spec->event;
	int rc = name && *name ? named_event(q->store, name, &q->event, err)
			       : default_event(q->store, sel, &q->event, err);
	if (rc || q->event == NO_EVENT)
		return rc;
	const struct store_event *e = q->info.event = store_event(q->store, q->event);
	q->info.grain = !is_each_hit(e);
	if (m->metric)
		return choose_values(m, q, e, sel, err);
	measure_rates(m, q);
	return selector_match_event(sel, e->name, &m->admitted, err);
}

int measures_choose(struct measures *m, struct query *q, const struct query_spec *spec,
		    struct selector *sel, struct err *err)
{
	*m = (struct measures){ .metric = spec->metric != QUERY_SAMPLES };
	m->of = calloc((size_t)store_n_events(q->store) + 1, sizeof(*m->of));
	if (!m->of)
		return err_sys(err, -ENOMEM, "cannot query");
	int rc = m->metric && spec->metric != QUERY_VALUE ? choose_metric(m, q, spec, sel, err)
							  : choose_event(m, q, spec, sel, err);
	for (uint32_t i = 0; !rc && i < store_n_events(q->store); i++) {
		const char *name = store_event(q->store, i)->name;
		m->of[i].blocked = query_is_blocked(name);
		m->of[i].waits = is_of_waits(name);
		m->of[i].labelled = !strcmp(name, LATENCY_OFF_EVENT);
	}
	return rc;
}

void measures_fini(struct measures *m)
{
	free(m->of);
	m->of = NULL;
}

struct measure *measure_of(const struct measures *m, const struct query *q,
			   const struct store_row *row)
{
	struct measure *v = row->event < store_n_events(q->store) ? &m->of[row->event] : NULL;
	return v && v->counts ? v : NULL;
}

struct store_row measured(const struct measures *m, const struct query *q, const struct measure *v,
			  const struct store_row *row)
{
	uint64_t amount = v->value ? row->value : row->samples * v->per_sample;
	return (struct store_row){ row->set, row->stack, q->event, amount,
				   m->metric ? amount : row->value };
}
