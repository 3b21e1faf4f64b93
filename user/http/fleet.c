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
	NEED_ASKING,  /* names and the list of keys: the handler asks for the rest */
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
		{ "export-folded", NEED_SETS },	 { "pprof", NEED_ASKING },
		{ "render", NEED_ASKING },	 { "render-diff", NEED_ASKING },
		{ "label-values", NEED_ASKING },
	};
	if (!strcmp(r->route->name, "labels") && request_param(r, "names_only"))
		return NEED_NAMES;
	if (routes_is_procedure(r->route->path))
		return NEED_ASKING;
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

static void compare_with(struct fleet_question *q, const struct query_spec *other)
{
	q->compares = q->by_start = true;
	q->against = other->where;
	q->against_from_ns = other->from_ns;
	q->against_to_ns = other->to_ns;
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
	compare_with(&f->q, &other);
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

static struct fleet_question question_of(const struct query_spec *s)
{
	return (struct fleet_question){ .where = s->where,
					.from_ns = s->from_ns,
					.to_ns = s->to_ns,
					.event = s->event,
					.metric = s->metric,
					.idle = s->idle };
}

static int ask_for(struct fleet_asked *f, const struct request *r, enum need need, struct err *err)
{
	struct fleet_question *q = &f->q;
	int rc = asked_parse(&f->a, r, err);
	const struct query_spec *s = &f->a.spec;
	*q = question_of(s);
	q->keys = f->keys;
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

/* Its parameters are Pyroscope's: all that can be asked yet is which names there are. */
static void ask_for_names(struct fleet_question *q)
{
	*q = (struct fleet_question){ .from_ns = INT64_MIN,
				      .to_ns = INT64_MAX,
				      .several = true,
				      .no_stacks = true,
				      .list_keys = true,
				      .recent_s = RECENT_S };
}

/* ---- filled stores ---- */

struct filled_store {
	struct filled_store *next;
	struct store *store;
	struct fleet_result result;
	char dir[PATH_MAX];
};

struct fleet_asking {
	const struct fleet_server *server;
	const char *scratch;
	const struct store_limits *limits;
	struct filled_store *stores; /* the last one first */
};

static int add_store(struct fleet_asking *a, struct fleet_question *q, struct err *err)
{
	struct filled_store *f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	q->memory = a->limits->bytes;
	int rc = 0;
	if (snprintf(f->dir, sizeof(f->dir), "%s/ask-XXXXXX", a->scratch) >= (int)sizeof(f->dir))
		rc = err_set(err, -ENAMETOOLONG, "the path of temporary stores is too long");
	else if (!mkdtemp(f->dir))
		rc = err_sys(err, -errno, "cannot make a directory in %s", a->scratch);
	if (rc) {
		free(f);
		return rc;
	}
	f->next = a->stores;
	a->stores = f;
	rc = fleet_fill(f->dir, a->server, q, &f->result, err);
	rc = rc ? rc : store_open(&f->store, f->dir, err);
	if (!rc)
		store_limit(f->store, a->limits);
	return rc;
}

static void remove_stores(struct fleet_asking *a)
{
	while (a->stores) {
		struct filled_store *f = a->stores;
		a->stores = f->next;
		store_close(f->store);
		fleet_result_fini(&f->result);
		tree_remove(f->dir);
		free(f);
	}
}

int fleet_ask(struct request *r, struct store **s, const struct fleet_need *need, struct err *err)
{
	struct fleet_question q = question_of(need->spec);
	if (!r->asking)
		return 0;
	q.keys = need->keys;
	q.n_keys = need->n_keys;
	q.all_labels = need->what == FLEET_SETS;
	q.no_stacks = need->what == FLEET_SUMS || need->what == FLEET_STEPS;
	q.steps = need->what == FLEET_STEPS;
	q.step_s = fleet_step_s(need->step_ns);
	if (need->against)
		compare_with(&q, need->against);
	int rc = add_store(r->asking, &q, err);
	*s = rc ? *s : r->asking->stores->store;
	return rc;
}

int fleet_answer(struct request *r, const struct fleet_server *server, const char *scratch,
		 const struct store_limits *limits, struct err *err)
{
	const enum need need = need_of(r);
	struct fleet_asking asking = { .server = server, .scratch = scratch, .limits = limits };
	struct fleet_asked f = { .q = { 0 } };
	int rc = 0;
	if (!need)
		return err_set(err, -EOPNOTSUPP, "%s is not served from ClickHouse",
			       r->route->path);
	if (need == NEED_ASKING)
		ask_for_names(&f.q);
	else
		rc = ask_for(&f, r, need, err);
	rc = rc ? rc : add_store(&asking, &f.q, err);
	if (!rc) {
		r->out.len = 0;
		r->filled = &asking.stores->result;
		r->asking = need == NEED_ASKING ? &asking : NULL;
		rc = r->route->handle(r, asking.stores->store, err);
		r->filled = NULL;
		r->asking = NULL;
	}
	remove_stores(&asking);
	asked_fini(&f.a);
	return rc;
}
