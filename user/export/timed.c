/* SPDX-License-Identifier: Apache-2.0 */
#include "export/timed.h"

#include "query/waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RUNQ_EVENT "runq"

bool timed_is_wait(const struct store_event *e)
{
	return !strcmp(e->name, WAIT_EVENT) || !strcmp(e->name, RUNQ_EVENT);
}

static bool is_sampled(const struct timed *t, const struct store_event *e)
{
	return t->sampled && !strcmp(e->name, t->sampled->name);
}

static bool wants(const struct timed *t, const struct query_spec *q, const struct store_event *e)
{
	switch (q->metric) {
	case QUERY_CPU:
		return is_sampled(t, e);
	case QUERY_OFF:
		return !strcmp(e->name, WAIT_EVENT);
	case QUERY_RUNQ:
		return !strcmp(e->name, RUNQ_EVENT);
	default:
		return q->event && *q->event ? !strcmp(e->name, q->event)
					     : timed_is_wait(e) || is_sampled(t, e);
	}
}

int timed_choose(const struct export_source *src, struct timed *ret)
{
	const struct query_spec *q = src->asked;
	const struct store_event *e = query_info(src->query)->event;
	const uint32_t n = store_n_events(src->store);
	if (q->metric != QUERY_SAMPLES && q->metric != QUERY_CPU && q->metric != QUERY_OFF &&
	    q->metric != QUERY_RUNQ && q->metric != QUERY_WALL)
		return -EINVAL;
	ret->sampled = e && !timed_is_wait(e) ? e : NULL;
	ret->events = calloc((size_t)n + 1, sizeof(*ret->events));
	for (uint32_t i = 0; ret->events && i < n; i++)
		ret->events[i] = wants(ret, q, store_event(src->store, i));
	return ret->events ? 0 : -ENOMEM;
}
