/* SPDX-License-Identifier: Apache-2.0 */
#include "http/pyroscope.h"

#include "query/visible.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CPU_TYPE "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

/* The event that stands for CPU time: the first that stands for time. */
static uint32_t cpu_event(const struct store *s)
{
	for (uint32_t i = 0; i < store_n_events(s); i++)
		if (store_event(s, i)->ns_per_sample)
			return i;
	return UINT32_MAX;
}

/* Events whose times count, not how often they were. */
static enum query_metric metric_of(const struct store_event *e)
{
	return !strcmp(e->name, "off-cpu")   ? QUERY_OFF
	       : !strcmp(e->name, "runq")    ? QUERY_RUNQ
	       : !strcmp(e->name, "waker")   ? QUERY_WAKER
	       : !strcmp(e->name, "latency") ? QUERY_LATENCY
					     : QUERY_SAMPLES;
}

void pyro_of_type(const struct store *s, uint32_t event, struct query_spec *spec)
{
	spec->event = store_event(s, event)->name;
	spec->metric = metric_of(store_event(s, event));
}

void pyro_type_id(const struct store *s, uint32_t event, char out[PYRO_ID_MAX])
{
	const struct store_event *e = store_event(s, event);
	char name[100];
	if (e->ns_per_sample && !strcmp(e->name, store_event(s, cpu_event(s))->name)) {
		snprintf(out, PYRO_ID_MAX, CPU_TYPE);
		return;
	}
	snprintf(name, sizeof(name), "%s", e->name);
	for (char *p = name; *p; p++) /* sched:sched_switch */
		*p = *p == ':' ? '.' : *p;
	snprintf(out, PYRO_ID_MAX,
		 e->ns_per_sample ? "%s:cpu:nanoseconds:cpu:nanoseconds"
		 : metric_of(e)	  ? "%s:delay:nanoseconds:waits:count"
				  : "%s:samples:count:event:count",
		 name);
}

static bool is_type(const struct store *s, uint32_t event)
{
	char id[PYRO_ID_MAX], other[PYRO_ID_MAX];
	if (!query_is_profile(store_event(s, event)))
		return false;
	pyro_type_id(s, event, id);
	for (uint32_t i = 0; i < event; i++) {
		pyro_type_id(s, i, other);
		if (!strcmp(id, other))
			return false;
	}
	return true;
}

int pyro_types(struct store *s, bool **ret, struct err *err)
{
	int rc = visible_events(s, ret, err);
	for (uint32_t i = 0; !rc && i < store_n_events(s); i++)
		(*ret)[i] &= is_type(s, i);
	return rc;
}

int pyro_find_type(const struct store *s, const char *id, uint32_t *ret_event, struct err *err)
{
	char have[PYRO_ID_MAX];
	for (uint32_t i = 0; i < store_n_events(s); i++) {
		pyro_type_id(s, i, have);
		if (strcmp(have, id))
			continue;
		*ret_event = i;
		return 0;
	}
	return err_set(err, -EINVAL, "no profile type '%.100s' in the store", id);
}

int64_t pyro_scale(const struct store_event *e)
{
	return e && e->ns_per_sample ? (int64_t)e->ns_per_sample : 1;
}
