/* SPDX-License-Identifier: Apache-2.0 */
#include "query/visible.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of all that is stored of an event: the keys, or the values of one. NULL: of the first event. */
static int collect(struct store *s, const char *event, const char *key, struct found_list *l,
		   struct err *err)
{
	const struct query_spec spec = {
		.from_ns = INT64_MIN, .to_ns = INT64_MAX, .labels = QUERY_TOTALS, .event = event
	};
	struct query *q = NULL;
	int rc = query_open(&q, s, &spec, err);
	rc = rc ? rc : found_collect(l, s, q, &spec, key, err);
	query_close(q);
	return rc;
}

/* An event that was recorded at several rates has several ids. */
static bool is_first(const struct store *s, uint32_t id)
{
	for (uint32_t i = 0; i < id; i++)
		if (!strcmp(store_event(s, i)->name, store_event(s, id)->name))
			return false;
	return query_is_profile(store_event(s, id));
}

/* Keys that only samples of this event have. */
static int add_keys(struct store *s, const char *event, struct found_list *l, struct err *err)
{
	struct found_list of = { 0 };
	int rc = collect(s, event, NULL, &of, err);
	if (!rc && found_add_keys(l, &of))
		rc = err_set(err, -ENOMEM, "out of memory");
	found_fini(&of);
	return rc == -EACCES ? 0 : rc; /* that event is shown to others */
}

int visible_keys(struct store *s, struct found_list *l, struct err *err)
{
	int rc = collect(s, NULL, NULL, l, err);
	size_t n = 0;
	for (uint32_t id = 0; !rc && l->info.event && id < store_n_events(s); id++)
		if (is_first(s, id) && strcmp(store_event(s, id)->name, l->info.event->name) != 0)
			rc = add_keys(s, store_event(s, id)->name, l, err);
	for (size_t i = 0; !rc && i < l->n; i++) /* `event` is in no set */
		if (l->v[i].label.key_len != 5 || memcmp(l->v[i].label.key, "event", 5) != 0)
			l->v[n++] = l->v[i];
	l->n = rc ? l->n : n;
	return rc;
}

int visible_events(struct store *s, bool **ret, struct err *err)
{
	const uint32_t n = store_n_events(s);
	struct found_list l = { 0 };
	bool *v = calloc((size_t)n + 1, sizeof(*v));
	int rc = v ? 0 : err_set(err, -ENOMEM, "out of memory");
	if (!rc && store_scope(s))
		rc = collect(s, NULL, "event", &l, err);
	for (uint32_t i = 0; !rc && i < n; i++) {
		v[i] = !store_scope(s);
		for (size_t k = 0; k < l.n; k++)
			v[i] |= !strcmp(l.v[k].label.str, store_event(s, i)->name);
	}
	found_fini(&l);
	if (rc)
		free(v);
	else
		*ret = v;
	return rc;
}
