/* SPDX-License-Identifier: Apache-2.0 */
#include "http/fleet.h"

#include "http/asked.h"
#include "store/file/tree.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECENT_S 600 /* in which keys are looked for */

/* What a path needs of the fleet. */
enum need {
	NEED_NOTHING, /* not served */
	NEED_TOTALS,  /* the counters of recorders */
	NEED_NAMES,   /* keys, events, the range that there is */
	NEED_LIST,    /* what each key has */
	NEED_KEYS,    /* sums by the keys that are asked for */
	NEED_BLAME,   /* sums by the key that is asked for, of both sides */
	NEED_STACKS,  /* stacks without labels, or by the key `split` */
	NEED_SETS,    /* stacks of all label sets */
	NEED_STEPS,   /* sums by keys in short windows */
	NEED_CHANGES, /* and of as much time before */
};

static enum need need_of(const struct request *r)
{
	static const struct {
		const char *name;
		enum need need;
	} needs[] = {
		{ "labels", NEED_LIST },	 { "values", NEED_KEYS },
		{ "series", NEED_STEPS },	 { "flame", NEED_STACKS },
		{ "table", NEED_KEYS },		 { "diff", NEED_KEYS },
		{ "findings", NEED_CHANGES },	 { "why", NEED_CHANGES },
		{ "blame", NEED_BLAME },	 { "stat", NEED_TOTALS },
		{ "export-flame", NEED_STACKS }, { "export-pprof", NEED_SETS },
		{ "export-folded", NEED_SETS },
	};
	if (!strcmp(r->route->name, "labels") && request_param(r, "names_only"))
		return NEED_NAMES;
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (!strcmp(r->route->name, needs[i].name))
			return needs[i].need;
	return NEED_NOTHING;
}

struct fleet_asked {
	struct asked a;
	struct fleet_question q;
	const char *keys[FLEET_FEW_KEYS + ASKED_KEYS_MAX + 2];
};

static void add_key(struct fleet_asked *f, const char *key)
{
	if (key && *key && f->q.n_keys < sizeof(f->keys) / sizeof(f->keys[0]))
		f->keys[f->q.n_keys++] = key;
}

/* Findings look at as much time before. */
static int widen(struct fleet_asked *f, const struct request *r, struct err *err)
{
	struct fleet_question *q = &f->q;
	const struct query_spec *s = &f->a.spec;
	int64_t from = s->from_ns;
	int rc = asked_time(r, "before", &from, err);
	if (s->from_ns != INT64_MIN && s->to_ns != INT64_MAX)
		q->from_ns = s->from_ns - (s->to_ns - s->from_ns);
	q->from_ns = from < q->from_ns ? from : q->from_ns;
	return rc;
}

static int compare(struct fleet_asked *f, const struct request *r, struct err *err)
{
	struct query_spec other;
	if (!request_param(r, "against") && !request_param(r, "against_from") &&
	    !request_param(r, "against_to"))
		return 0;
	int rc = asked_against(&f->a, r, &other, err);
	if (rc)
		return rc;
	f->q.compares = f->q.by_start = true;
	f->q.against = other.where;
	f->q.against_from_ns = other.from_ns;
	f->q.against_to_ns = other.to_ns;
	return 0;
}

/* A table of functions alone: the engine counts them. */
static void count_functions(struct fleet_asked *f, const struct request *r)
{
	const char *match = request_param(r, "match"), *sort = request_param(r, "sort");
	if (strcmp(r->route->name, "table") || f->a.n_keys || (match && *match) ||
	    f->a.spec.names != QUERY_NAMES_FULL)
		return;
	f->q.functions = asked_answer(&f->a, NULL, &f->a.spec).limit;
	f->q.by_total = sort && !strcmp(sort, "samples");
}

static int ask_for(struct fleet_asked *f, const struct request *r, enum need need, struct err *err)
{
	struct fleet_question *q = &f->q;
	int rc = asked_parse(&f->a, r, err);
	const struct query_spec *s = &f->a.spec;
	*q = (struct fleet_question){ .where = s->where,
				      .from_ns = s->from_ns,
				      .to_ns = s->to_ns,
				      .event = s->event,
				      .metric = s->metric,
				      .idle = s->idle,
				      .keys = f->keys };
	for (size_t i = 0; i < f->a.n_keys; i++)
		add_key(f, f->a.keys[i]);
	add_key(f, request_param(r, "key"));
	add_key(f, request_param(r, "split"));
	if (need == NEED_BLAME) {
		add_key(f, "comm");
		q->blame = true;
		q->metric = s->metric == QUERY_WAKER ? QUERY_WAKER : QUERY_BLAME;
	}
	q->steps = need == NEED_STEPS || need == NEED_CHANGES;
	if (need == NEED_STEPS)
		q->step_s = fleet_step_s(f->a.step_ns);
	q->several = need == NEED_CHANGES && !s->event && !s->metric;
	q->rest = !strcmp(r->route->name, "why");
	q->all_labels = need == NEED_SETS;
	bool list = need == NEED_NAMES || need == NEED_CHANGES;
	for (size_t i = 0; list && i < FLEET_FEW_KEYS; i++)
		add_key(f, fleet_few_keys[i]);
	q->no_stacks = need <= NEED_LIST || need == NEED_BLAME || need == NEED_STEPS ||
		       (need == NEED_KEYS && f->q.n_keys);
	q->list_keys = need == NEED_LIST;
	count_functions(f, r);
	if (need == NEED_NAMES)
		q->recent_s = RECENT_S;
	if (rc || need == NEED_CHANGES)
		return rc ? rc : widen(f, r, err);
	return compare(f, r, err);
}

static int answer_in(struct request *r, const struct fleet_asked *f,
		     const struct fleet_server *server, const char *dir,
		     const struct store_limits *limits, struct err *err)
{
	struct fleet_result filled;
	struct store *s;
	int rc = fleet_fill(dir, server, &f->q, &filled, err);
	rc = rc ? rc : store_open(&s, dir, err);
	if (!rc) {
		store_limit(s, limits);
		r->out.len = 0;
		r->filled = &filled;
		rc = r->route->handle(r, s, err);
		r->filled = NULL;
		store_close(s);
	}
	fleet_result_fini(&filled);
	return rc;
}

int fleet_answer(struct request *r, const struct fleet_server *server, const char *scratch,
		 const struct store_limits *limits, struct err *err)
{
	const enum need need = need_of(r);
	struct fleet_asked f = { .q = { 0 } };
	char dir[PATH_MAX];
	if (!need)
		return err_set(err, -EOPNOTSUPP, "%s is not served from ClickHouse",
			       r->route->path);
	int rc = ask_for(&f, r, need, err);
	f.q.memory = limits->bytes;
	if (!rc && snprintf(dir, sizeof(dir), "%s/ask-XXXXXX", scratch) >= (int)sizeof(dir))
		rc = err_set(err, -ENAMETOOLONG, "the path of temporary stores is too long");
	if (!rc && !mkdtemp(dir))
		rc = err_sys(err, -errno, "cannot make a directory in %s", scratch);
	if (!rc) {
		rc = answer_in(r, &f, server, dir, limits, err);
		tree_remove(dir);
	}
	asked_fini(&f.a);
	return rc;
}
