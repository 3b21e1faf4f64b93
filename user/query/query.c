/* SPDX-License-Identifier: Apache-2.0 */
#include "query/query_int.h"

#include "hist/metrics.h"
#include "query/counters.h"
#include "query/runs.h"
#include "query/sum.h"
#include "query/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Stacks of who ended waits are of anybody. */
static int check_events(const struct choice *c, const struct query *q, struct err *err)
{
	for (uint32_t i = 0; c->scope.selector && i < store_n_events(q->store); i++) {
		const char *name = store_event(q->store, i)->name;
		if (c->measures.of[i].counts &&
		    (!strcmp(name, WAKER_EVENT) || !strcmp(name, WAKER_IDLE_EVENT)))
			return err_set(err, -EACCES,
				       "who ended waits is not shown for a part of the labels");
	}
	return 0;
}

/* Work out what is asked for, in terms of the store. */
static int choose(struct choice *c, struct query *q, const struct query_spec *spec, struct err *err)
{
	struct query_spec *own = &c->spec;
	*c = (struct choice){ .spec = *spec };
	int rc = scope_parse(&c->scope, store_scope(q->store), err);
	rc = rc ? rc : selector_parse(&c->selector, spec->where, NULL, err);
	rc = rc ? rc : measures_choose(&c->measures, q, own, c->selector, err);
	rc = rc ? rc : check_events(c, q, err);
	rc = rc ? rc : waits_choose(&c->waits, q, &c->measures, own, c->selector, err);
	for (size_t i = 0; !rc && i < own->n_keys; i++) {
		rc = query_check_key(q, own->keys[i], err);
		if (own->labels == QUERY_KEYS && query_by_stack(q, own->keys[i]))
			own->labels = QUERY_KEYS_STACKS;
	}
	bool stacks = own->labels != QUERY_KEYS || c->waits.by_class;
	return rc ? rc : plan_make(&c->plan, q, own, c->selector, &c->scope, stacks, err);
}

static void choice_fini(struct choice *c)
{
	scope_fini(&c->scope);
	selector_free(c->selector);
	measures_fini(&c->measures);
	plan_fini(&c->plan);
}

static uint64_t bounded_total;

uint64_t query_bounded_total(void)
{
	return __atomic_load_n(&bounded_total, __ATOMIC_RELAXED);
}

size_t query_budget(const struct store *s, const struct query_spec *spec)
{
	size_t all = store_budget(s) ? store_budget(s) : QUERY_MEMORY;
	size_t parts = spec->parts ? spec->parts : 1;
	if (spec->labels == QUERY_KEYS) /* dictionaries of label sets alone are small */
		return all / parts;
	size_t taken = store_dictionaries(s) + all / 8; /* and blocks that are being read */
	const size_t least = parts > 1 ? all / 8 * 5 : 0, most = all / 4 * 3;
	taken = taken > least ? taken : least; /* the other parts add to them */
	taken = taken < most ? taken : most;
	return (all - taken) / parts;
}

int query_read(struct query **ret, struct store *s, const struct query_spec *spec, struct err *err)
{
	struct query *q = calloc(1, sizeof(*q));
	struct choice of;
	struct summing m = { 0 };
	if (!q)
		return err_sys(err, -ENOMEM, "cannot query");
	q->store = s;
	q->names = spec->names;
	if (setpool_init(&q->sets) || query_add_other(q)) {
		query_close(q);
		return err_sys(err, -ENOMEM, "cannot query");
	}
	int rc = choose(&of, q, spec, err);
	if (!rc && counters_init(q))
		rc = err_sys(err, -ENOMEM, "cannot query");
	q->labels = of.spec.labels;
	rc = rc ? rc : summing_read(&m, q, &of, err);
	if (!rc && summing_finish(&m))
		rc = err_sys(err, -ENOMEM, "cannot merge the rows");
	if (!rc && q->info.bounded)
		__atomic_add_fetch(&bounded_total, 1, __ATOMIC_RELAXED);
	summing_fini(&m);
	choice_fini(&of);
	if (rc)
		query_close(q);
	else
		*ret = q;
	return rc;
}

int query_open(struct query **ret, struct store *s, const struct query_spec *spec, struct err *err)
{
	METRIC_TIME(query);
	if (!store_scope(s) && values_serve(s, spec)) {
		struct query *q;
		int rc = values_open(&q, s, spec, err);
		if (rc || q) {
			*ret = q;
			return rc;
		}
	}
	return query_read(ret, s, spec, err);
}

void query_close(struct query *q)
{
	if (!q)
		return;
	free(q->nodes);
	free(q->rows);
	wait_reasons_fini(&q->reasons);
	free(q->counters);
	setpool_fini(&q->sets);
	free(q);
}

static const struct label other_label = {
	.key = "(other)", .key_len = 7, .str = "(other)", .str_len = 7, .type = LABEL_STRING
};

int query_add_other(struct query *q)
{
	uint32_t id;
	return setpool_add(&q->sets, &other_label, 1, &id);
}

size_t query_set(const struct query *q, uint32_t set, const struct label **ret)
{
	return setpool_get(&q->sets, set, ret);
}

bool query_row_is_other(const struct query *q, const struct store_row *row)
{
	return row->stack == QUERY_OTHER_STACK ||
	       (q->labels == QUERY_NO_LABELS && row->set == QUERY_OTHER);
}

const struct query_info *query_info(const struct query *q)
{
	return &q->info;
}

/* They are in order of the set, and equal keys keep their order. */
int query_rows_by_stack(struct query *q)
{
	return runs_sort_rows(&q->rows, q->n_rows, false);
}

const struct store_row *query_rows(const struct query *q, size_t *ret_n)
{
	*ret_n = q->n_rows;
	return q->rows;
}
