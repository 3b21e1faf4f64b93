/* SPDX-License-Identifier: Apache-2.0 */
#include "http/pyroscope.h"

#include "query/found.h"

#include <errno.h>
#include <stdlib.h>
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
	return !strcmp(e->name, "off-cpu") ? QUERY_OFF
	       : !strcmp(e->name, "runq")  ? QUERY_RUNQ
	       : !strcmp(e->name, "waker") ? QUERY_WAKER
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

/* ---- selectors ---- */

/* Cut out __profile_type__="...", which says what the type says already. */
static void drop_type(char *s)
{
	char *at = strstr(s, "__profile_type__"), *quote = at ? strchr(at, '"') : NULL,
	     *end = quote ? strchr(quote + 1, '"') : NULL;
	if (!end)
		return;
	end++;
	while (*end == ' ' || *end == ',')
		end++;
	memmove(at, end, strlen(end) + 1);
}

int pyro_selector(char *const *v, size_t n, char **ret)
{
	size_t len = 3;
	for (size_t i = 0; i < n; i++)
		len += strlen(v[i]) + 1;
	char *out = malloc(len), *at = out;
	if (!out)
		return -ENOMEM;
	*at++ = '{';
	for (size_t i = 0; i < n; i++) {
		size_t m = strlen(v[i]);
		const char *p = v[i];
		/* What is no pair of braces is left as it is, for the parser to complain of. */
		if (m >= 2 && p[0] == '{' && p[m - 1] == '}') {
			p++;
			m -= 2;
		}
		if (at[-1] != '{' && m)
			*at++ = ',';
		memcpy(at, p, m);
		at += m;
	}
	memcpy(at, "}", 2);
	drop_type(out);
	*ret = out;
	return 0;
}

/* ---- labels ---- */

struct names {
	int (*cb)(void *ctx, const char *name);
	void *ctx;
};

static int on_key(void *ctx, const char *key, uint32_t sets)
{
	struct names *n = ctx;
	(void)sets;
	return n->cb(n->ctx, key);
}

int pyro_label_names(struct store *s, int (*cb)(void *ctx, const char *name), void *ctx,
		     struct err *err)
{
	struct names n = { cb, ctx };
	struct store_wide_key k;
	int rc = store_narrow_keys(s, on_key, &n, err);
	for (size_t i = 0; !rc && store_wide_key(s, i, &k); i++)
		if (k.to_ns == INT64_MAX)
			rc = cb(ctx, k.key);
	return rc;
}

int pyro_label_values(struct store *s, const struct query_spec *asked, const char *key,
		      int (*cb)(void *ctx, const char *text, size_t len), void *ctx,
		      struct err *err)
{
	struct query_spec spec = *asked;
	struct query *q = NULL;
	struct found_list l = { 0 };
	spec.labels = QUERY_KEYS;
	spec.keys = &key;
	spec.n_keys = 1;
	int rc = query_open(&q, s, &spec, err);
	rc = rc ? rc : found_collect(&l, s, q, &spec, key, err);
	for (size_t i = 0; !rc && i < l.n && i < PYRO_NAMES_MAX; i++) {
		size_t len;
		char *text = found_text(&l.v[i].label, &len);
		rc = text ? cb(ctx, text, len) : -ENOMEM;
		free(text);
	}
	found_fini(&l);
	query_close(q);
	return rc;
}
