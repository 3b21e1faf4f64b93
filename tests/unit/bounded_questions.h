/* SPDX-License-Identifier: Apache-2.0 */
/* Random questions about the stores of bounded_model.h, and sums over their rows by brute force. */
#ifndef TESTS_BOUNDED_QUESTIONS_H
#define TESTS_BOUNDED_QUESTIONS_H

#include "bounded_model.h"

#include "query/query.h"

static bool has_all(const struct row *r)
{
	return r->query % 7 != 0;
}

static bool any(const struct row *r)
{
	(void)r;
	return true;
}

static bool tenant_3(const struct row *r)
{
	return has_all(r) && r->tenant == 3;
}

static bool not_tenant_1(const struct row *r)
{
	return !has_all(r) || r->tenant != 1;
}

static bool tenants_re(const struct row *r)
{
	return has_all(r) && r->tenant < 10 && r->tenant % 2;
}

static bool comm_and_query(const struct row *r)
{
	return has_all(r) && r->tenant % 4 == 2 && (r->query < 10 || r->query > 99);
}

static bool no_tenant(const struct row *r)
{
	return !has_all(r);
}

static const struct {
	const char *where;
	bool (*holds)(const struct row *r);
} selectors[] = {
	{ NULL, any },
	{ "tenant=\"t3\"", tenant_3 },
	{ "tenant!=\"t1\"", not_tenant_1 },
	{ "tenant=~\"t[13579]\"", tenants_re },
	{ "comm=\"c2\",query_id!~\"..\",query_id!=\"\"", comm_and_query },
	{ "tenant=\"\"", no_tenant },
};

#define N_SELECTORS (sizeof(selectors) / sizeof(selectors[0]))

struct question {
	struct query_spec spec;
	uint32_t selector, from, to; /* windows */
};

/* budget: for what is summed, with stacks a quarter of what the question may take. */
static struct question draw_question(struct fixture *f, enum query_labels labels, size_t budget)
{
	store_limit(f->s,
		    &(struct store_limits){ .bytes = labels == QUERY_KEYS ? budget : 4 * budget });
	struct question a = { .selector = draw(f, N_SELECTORS), .from = draw(f, f->size.windows) };
	a.to = a.from + 1 + draw(f, f->size.windows - a.from);
	if (draw(f, 2)) {
		a.from = 0;
		a.to = f->size.windows;
	}
	a.spec = (struct query_spec){ .where = selectors[a.selector].where,
				      .labels = labels,
				      .event = "cpu-clock",
				      .from_ns = 1700000000000000000ll + a.from * WINDOW_NS,
				      .to_ns = 1700000000000000000ll + a.to * WINDOW_NS };
	return a;
}

static bool counts(const struct question *a, const struct row *r)
{
	return !r->event && r->window >= a->from && r->window < a->to &&
	       selectors[a->selector].holds(r);
}

/* ---- sums by brute force: of keys that are small numbers ---- */

static uint64_t *sums(struct fixture *f, const struct question *a, size_t n,
		      size_t (*key)(const struct fixture *f, const struct row *r),
		      uint64_t *ret_all)
{
	uint64_t *v = calloc(n, sizeof(*v));
	*ret_all = 0;
	for (size_t i = 0; i < f->n_rows; i++)
		if (counts(a, &f->rows[i])) {
			v[key(f, &f->rows[i])] += f->rows[i].samples;
			*ret_all += f->rows[i].samples;
		}
	return v;
}

/* tenant x query_id; (none, none) is the last. */
static size_t by_both(const struct fixture *f, const struct row *r)
{
	return has_all(r) ? (size_t)r->tenant * f->size.queries + r->query
			  : (size_t)f->size.tenants * f->size.queries;
}

static size_t by_node(const struct fixture *f, const struct row *r)
{
	(void)f;
	return r->node;
}

static size_t both_of_values(const struct fixture *f, const char *tenant, const char *query)
{
	if (!*tenant)
		return (size_t)f->size.tenants * f->size.queries;
	return (size_t)atoi(tenant + 1) * f->size.queries + (size_t)atoi(query);
}

#endif
