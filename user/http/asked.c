/* SPDX-License-Identifier: Apache-2.0 */
#include "http/asked.h"

#include "util/times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEY_MAX_BYTES 255
#define WHERE_MAX_BYTES 8192
#define MAX_NODES 100000
#define LIMIT_MAX 100000
#define DEFAULT_ROWS 100

int asked_time(const struct request *r, const char *name, int64_t *ret, struct err *err)
{
	const char *text = request_param(r, name);
	struct timespec now;
	if (!text || !*text)
		return 0;
	clock_gettime(CLOCK_REALTIME, &now);
	if (times_parse(text, now.tv_sec * 1000000000ll + now.tv_nsec, ret))
		return err_set(
			err, -EINVAL,
			"%s: '%.60s' is not a time: -1h, 14:05, 2026-05-01T10:00:00Z or seconds "
			"since 1970",
			name, text);
	return 0;
}

static int take_flag(const struct request *r, const char *name, bool *ret, struct err *err)
{
	const char *text = request_param(r, name);
	if (!text)
		return 0;
	if (!strcmp(text, "0") || !strcmp(text, "false"))
		return 0;
	if (*text && strcmp(text, "1") && strcmp(text, "true"))
		return err_set(err, -EINVAL, "%s: 0 or 1", name);
	*ret = true;
	return 0;
}

static int take_count(const struct request *r, const char *name, uint64_t max, uint64_t *ret,
		      struct err *err)
{
	if (request_number(r, name, max, ret) >= 0)
		return 0;
	return err_set(err, -EINVAL, "%s: a number from 0 to %llu", name, (unsigned long long)max);
}

static int take_keys(struct asked *a, const char *text, struct err *err)
{
	if (!text || !*text || !strcmp(text, "function"))
		return 0;
	a->texts = strdup(text);
	if (!a->texts)
		return err_set(err, -ENOMEM, "out of memory");
	char *rest = a->texts;
	for (char *key; (key = strsep(&rest, ","));) {
		if (!*key || strlen(key) > KEY_MAX_BYTES)
			return err_set(err, -EINVAL, "by: keys have 1 to %d bytes", KEY_MAX_BYTES);
		if (!strcmp(key, "function"))
			return err_set(err, -EINVAL, "by: function stands alone");
		if (a->n_keys == ASKED_KEYS_MAX)
			return err_set(err, -EINVAL, "by: at most %d keys", ASKED_KEYS_MAX);
		a->keys[a->n_keys++] = key;
	}
	return 0;
}

static int take_names(const struct request *r, enum query_names *ret, struct err *err)
{
	static const char *const styles[] = { "full", "folded", "simple" };
	const char *text = request_param(r, "names");
	for (int i = 0; text && i < 3; i++) {
		if (strcmp(text, styles[i]))
			continue;
		*ret = (enum query_names)i;
		return 0;
	}
	return text ? err_set(err, -EINVAL, "names: full, folded or simple") : 0;
}

static int take_metric(struct asked *a, const struct request *r, struct err *err)
{
	const char *text = request_param(r, "metric");
	if (!text || !*text)
		return 0;
	if (query_metric_named(text, &a->spec.metric) || a->spec.metric == QUERY_BLAME)
		return err_set(err, -EINVAL, "metric: '%.60s' is none of " QUERY_METRICS, text);
	if (a->spec.event && a->spec.metric != QUERY_VALUE)
		return err_set(err, -EINVAL, "metric and event exclude each other");
	a->metric = text;
	return 0;
}

static int check_range(const struct query_spec *s, const char *prefix, struct err *err)
{
	if (s->from_ns >= s->to_ns)
		return err_set(err, -EINVAL, "%sfrom must be before %sto", prefix, prefix);
	if (s->where && strlen(s->where) > WHERE_MAX_BYTES)
		return err_set(err, -EINVAL, "a selector of more than %d bytes", WHERE_MAX_BYTES);
	return 0;
}

int asked_parse(struct asked *a, const struct request *r, struct err *err)
{
	struct query_spec *s = &a->spec;
	const char *step = request_param(r, "step");
	*a = (struct asked){ .spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX } };
	s->where = request_param(r, "where");
	s->event = request_param(r, "event");
	if (s->event && !*s->event)
		s->event = NULL;
	int rc = asked_time(r, "from", &s->from_ns, err);
	rc = rc ? rc : asked_time(r, "to", &s->to_ns, err);
	rc = rc ? rc : take_flag(r, "idle", &s->idle, err);
	rc = rc ? rc : take_names(r, &s->names, err);
	rc = rc ? rc : take_metric(a, r, err);
	rc = rc ? rc : take_keys(a, request_param(r, "by"), err);
	rc = rc ? rc : take_count(r, "limit", LIMIT_MAX, &a->limit, err);
	rc = rc ? rc : take_count(r, "max_nodes", MAX_NODES, &a->max_nodes, err);
	rc = rc ? rc : take_flag(r, "inclusive", &a->inclusive, err);
	rc = rc ? rc : take_flag(r, "absolute", &a->absolute, err);
	rc = rc ? rc : take_flag(r, "changes", &a->changes, err);
	rc = rc ? rc : take_flag(r, "exact", &a->exact, err);
	if (!rc && step && *step && times_duration(step, &a->step_ns))
		rc = err_set(err, -EINVAL, "step: a duration: 10s, 1m, 1h");
	rc = rc ? rc : check_range(s, "", err);
	s->keys = a->n_keys ? a->keys : NULL;
	s->n_keys = a->n_keys;
	s->labels = a->n_keys ? QUERY_KEYS : QUERY_NO_LABELS;
	return rc;
}

void asked_fini(struct asked *a)
{
	free(a->texts);
}

int asked_against(const struct asked *a, const struct request *r, struct query_spec *ret,
		  struct err *err)
{
	const char *where = request_param(r, "against");
	bool range = request_param(r, "against_from") || request_param(r, "against_to");
	struct query_spec s = a->spec;
	if (!where && !range)
		return err_set(err, -EINVAL,
			       "nothing to compare with: against, or against_from and against_to");
	if (where)
		s.where = where;
	if (range) {
		s.from_ns = INT64_MIN;
		s.to_ns = INT64_MAX;
	}
	int rc = asked_time(r, "against_from", &s.from_ns, err);
	rc = rc ? rc : asked_time(r, "against_to", &s.to_ns, err);
	rc = rc ? rc : check_range(&s, "against_", err);
	s.by_start = query_takes_starts(s.from_ns, s.to_ns);
	*ret = s;
	return rc;
}

struct answer asked_answer(const struct asked *a, struct store *s, const struct query_spec *spec)
{
	uint64_t limit = a->limit ? a->limit : DEFAULT_ROWS;
	return (struct answer){ .store = s,
				.dir = "",
				.where = spec->where,
				.keys = spec->keys,
				.n_keys = spec->n_keys,
				.limit = limit,
				.metric = a->metric };
}
