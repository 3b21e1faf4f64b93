/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions while memory is short: each allocation of a question fails in turn. It then says so, or
 * goes on without; it neither crashes nor, with sanitizers, leaves anything behind.
 */
#include "findings_host.h"

#include "query/account.h"
#include "query/blame.h"
#include "query/change.h"
#include "query/diff.h"
#include "query/found.h"
#include "query/gate.h"
#include "query/growth.h"
#include "query/heat.h"
#include "query/lengths.h"
#include "query/locks.h"
#include "query/own.h"
#include "query/query_int.h"
#include "query/scope.h"
#include "query/series.h"
#include "query/split.h"
#include "query/stats.h"
#include "query/view.h"
#include "query/visible.h"
#include "query/why.h"

#include <dlfcn.h>

/* ---- allocations that fail ---- */

static long left = -1; /* allocations until one fails; -1: none does */
static bool denied;

static bool deny(void)
{
	if (left < 0 || left--)
		return false;
	denied = true;
	return true;
}

/* Those of the C library or of a sanitizer. The caller's stack is all that they need. */
#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

void *malloc(size_t n)
{
	static __typeof__(&malloc) next;
	next = next ? next : NEXT(malloc);
	return deny() ? NULL : next(n);
}

void *calloc(size_t n, size_t each)
{
	static __typeof__(&calloc) next;
	next = next ? next : NEXT(calloc);
	return deny() ? NULL : next(n, each);
}

void *realloc(void *p, size_t n)
{
	static __typeof__(&realloc) next;
	next = next ? next : NEXT(realloc);
	return deny() ? NULL : next(p, n);
}

void *reallocarray(void *p, size_t n, size_t each)
{
	size_t bytes;
	return __builtin_mul_overflow(n, each, &bytes) ? NULL : realloc(p, bytes);
}

/* ---- the store ---- */

#define A "main /bin/a aa\nserve<int> /bin/a aa\n"
#define B "main /bin/a aa\nsort.part.0 /bin/b bb\n"
#define LOCK "main /bin/a aa\nget /bin/a aa\npthread_mutex_lock /usr/lib/libc.so.6 cc\n"

static const struct part parts[] = {
	{ CPU, "comm=sh\nparent=make\nservice=web\ntenant=t1\n", A, 0, 60, 100 },
	{ CPU, "comm=sh\nparent=make\nservice=web\ntenant=t1\n", B, 45, 60, 500 },
	{ CPU, "comm=sh\nservice=db\ntenant=t2\n", B, 0, 60, 50 },
	{ CPU, "comm=sh\n", "main /bin/a a2\n", 30, 60, 50 },
	{ RUNQ, "comm=sh\nservice=web\n", A, 0, 45, 100 },
	{ RUNQ, "comm=sh\nservice=web\n", A, 45, 60, 700 },
	{ OFF, "comm=sh\nservice=web\ntenant=t1\n", LOCK, 0, 45, 100 },
	{ OFF, "comm=sh\nservice=web\ntenant=t1\n", LOCK, 45, 60, 900 },
	{ OFF_LENGTHS, "service=web\ntenant=t1\n", "10us /bin/a aa\n", 0, 60, 3 },
	{ RUNQ_LENGTHS, "service=web\ntenant=t1\n", "10us /bin/a aa\n", 0, 60, 3 },
	{ WAKER, "by.comm=hog\nby.tenant=t2\nlock.by=holder\nlock.kind=mutex\ntenant=t1\n", B, 0,
	  60, 100 },
};

static char dir[64];
static struct store *store;

static int setup(void **state)
{
	(void)state;
	store = host_make(dir, parts, sizeof(parts) / sizeof(parts[0]), 2);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	store_close(store);
	remove_tree(dir);
	return 0;
}

/* ---- questions ---- */

static const char *const keys[] = { "tenant", "service" };
static struct err err;

static struct query_spec of_labels(enum query_labels labels)
{
	return (struct query_spec){ .from_ns = INT64_MIN,
				    .to_ns = INT64_MAX,
				    .labels = labels,
				    .keys = keys,
				    .n_keys = labels == QUERY_KEYS || labels == QUERY_KEYS_STACKS
						      ? 2
						      : 0 };
}

static int ask(struct query **ret, const struct query_spec *spec)
{
	*ret = NULL;
	return query_open(ret, store, spec, &err);
}

/* Rows of a kind, and what is made of them. */
static int rows_of(enum query_labels labels, enum query_names names, const char *where)
{
	struct query_spec spec = of_labels(labels);
	struct query_table *t = NULL;
	const struct query_node *nodes;
	struct query *q;
	size_t n;
	spec.where = where;
	spec.names = names;
	int rc = ask(&q, &spec);
	rc = rc ? rc : query_tree(q, &nodes, &n, &err);
	rc = rc ? rc : query_table(q, NULL, 0, &t, &err);
	query_table_free(t);
	t = NULL;
	rc = rc ? rc : query_table(q, keys, 2, &t, &err);
	rc = rc ? rc : query_rows_by_stack(q);
	query_table_free(t);
	query_close(q);
	return rc;
}

static int all_labels(void)
{
	return rows_of(QUERY_ALL_LABELS, QUERY_NAMES_FULL, "tenant=~\"t.*\",event!=\"x\"");
}

static int by_keys(void)
{
	return rows_of(QUERY_KEYS_STACKS, QUERY_NAMES_SIMPLE, "comm=\"sh\"");
}

static int by_stack(void)
{
	return rows_of(QUERY_NO_LABELS, QUERY_NAMES_FOLDED, NULL);
}

static int totals(void)
{
	return rows_of(QUERY_KEYS, QUERY_NAMES_FULL, NULL)
		       ?: rows_of(QUERY_TOTALS, QUERY_NAMES_FULL, NULL);
}

/* What does not fit is summed. */
static int within_budget(void)
{
	int rc = 0;
	store_limit(store, &(struct store_limits){ .bytes = 1 });
	for (int labels = 0; !rc && labels <= QUERY_KEYS_STACKS; labels++)
		rc = rows_of((enum query_labels)labels, QUERY_NAMES_FULL, NULL);
	store_limit(store, &(struct store_limits){ 0 });
	return rc;
}

static int views(void)
{
	const struct query_spec spec = of_labels(QUERY_KEYS_STACKS);
	int rc = 0;
	for (int i = 0; !rc && i < 3; i++) {
		const struct query_view_spec how = { i == 0   ? QUERY_VIEW_INVERTED
						     : i == 1 ? QUERY_VIEW_CALLERS
							      : QUERY_VIEW_CALLEES,
						     "main", NULL };
		struct query_view_tree v = { 0 };
		struct query_split *split = NULL;
		struct query *q;
		rc = ask(&q, &spec);
		if (!rc && !(rc = query_view(&v, q, &how, &err)))
			query_view_free(&v);
		rc = rc ? rc : query_split(&split, q, "tenant", 1, &how, &err);
		query_split_free(split);
		query_close(q);
	}
	return rc;
}

static int differences(void)
{
	static const uint64_t counts[][2] = { { 10, 900 }, { 5, 5 } }, all[] = { 1000, 1000 };
	const struct query_diff_spec by_function = { 0 }, by_key = { .keys = keys, .n_keys = 2 };
	struct query_spec a = of_labels(QUERY_ALL_LABELS), b = a;
	struct query *q[2] = { NULL, NULL };
	struct query_diff *d = NULL, *e = NULL;
	struct query_diff_tree *t = NULL;
	uint8_t verdicts[2];
	uint64_t shared;
	a.to_ns = window_ns(45);
	b.from_ns = window_ns(40);
	b.where = "{comm=\"sh\"}";
	int rc = ask(&q[0], &a);
	rc = rc ? rc : ask(&q[1], &b);
	rc = rc ? rc : query_diff(&d, q[0], q[1], &by_function, &err);
	rc = rc ? rc : query_diff(&e, q[0], q[1], &by_key, &err);
	rc = rc ? rc : query_diff_tree(&t, q[0], q[1], &err);
	rc = rc ? rc : query_diff_verdicts(counts, 2, all, verdicts);
	rc = rc ? rc : query_diff_shared(store, &a, &b, &shared, &err);
	query_diff_free(d);
	query_diff_free(e);
	query_diff_tree_free(t);
	query_close(q[0]);
	query_close(q[1]);
	return rc;
}

static int series(void)
{
	const struct query_series_spec spec = { .range = of_labels(QUERY_ALL_LABELS),
						.keys = keys,
						.n_keys = 2,
						.step_ns = 30 * WINDOW,
						.top = 1 };
	struct query_series *s = NULL;
	int rc = query_series(&s, store, &spec, &err);
	query_series_free(s);
	return rc;
}

static int finding(void)
{
	static const char *const who[] = { "service", "tenant" };
	const struct findings_spec spec = {
		.from_ns = window_ns(RANGE), .to_ns = window_ns(WINDOWS), .keys = who, .n_keys = 2
	};
	struct findings *f = NULL;
	int rc = query_findings(&f, store, &spec, &err);
	query_findings_free(f);
	return rc;
}

static int lists(void)
{
	static const struct found_key more[] = { { "zone", 2, 7 } };
	const struct query_spec spec = of_labels(QUERY_KEYS);
	struct found_list l[4] = { 0 }, visible = { 0 };
	struct query *q;
	bool *events = NULL;
	int rc = ask(&q, &spec);
	rc = rc ? rc : found_collect(&l[0], store, q, &spec, NULL, &err);
	rc = rc ? rc : found_collect(&l[1], store, q, &spec, "tenant", &err);
	rc = rc ? rc : found_collect(&l[2], store, q, &spec, "event", &err);
	rc = rc ? rc : found_list_keys(&l[3], q, more, 1, &err);
	rc = rc ? rc : found_add_keys(&l[0], &l[3]);
	rc = rc ? rc : visible_keys(store, &visible, &err);
	rc = rc ? rc : visible_events(store, &events, &err);
	for (int i = 0; i < 4; i++)
		found_fini(&l[i]);
	found_fini(&visible);
	free(events);
	query_close(q);
	return rc;
}

static int waits(void)
{
	const struct query_spec spec = of_labels(QUERY_KEYS);
	const struct query_heat_spec heat = { .range = { .metric = QUERY_CPU,
							 .from_ns = INT64_MIN,
							 .to_ns = INT64_MAX },
					      .step_ns = 20 * WINDOW,
					      .by = "tenant" },
				     cpus = { .range = heat.range,
					      .step_ns = 20 * WINDOW,
					      .by = "cpu" };
	struct query_spec woken = spec;
	struct query_blame *b = NULL;
	struct query_locks *l = NULL;
	struct query_heat *h = NULL, *c = NULL;
	woken.metric = QUERY_WAKER;
	int rc = query_blame(&b, store, &woken, "tenant", 2, 2, &err);
	rc = rc ? rc : query_locks(&l, store, &spec, "tenant", 10, &err);
	rc = rc ? rc : query_heat(&h, store, &heat, &err);
	rc = rc ? rc : query_heat(&c, store, &cpus, &err);
	query_blame_free(b);
	query_locks_free(l);
	query_heat_free(h);
	query_heat_free(c);
	return rc;
}

static int reasons(void)
{
	const struct query_spec spec = { .where = "{tenant=\"t1\"}",
					 .from_ns = window_ns(30),
					 .to_ns = window_ns(60) };
	struct why_tables blocked = { 0 }, occupants = { 0 }, wakers = { 0 };
	struct why_changes changes = { 0 };
	struct why w;
	int rc = why_open(&w, store, &spec, INT64_MIN, &err);
	rc = rc ? rc : why_blocked(&w, &blocked, &err);
	rc = rc ? rc : why_occupants(&w, &occupants, &err);
	rc = rc ? rc : why_wakers(&w, &wakers, &err);
	rc = rc ? rc : why_changes(&w, WHY_BEFORE, false, &changes, &err);
	why_tables_free(&blocked);
	why_tables_free(&occupants);
	why_tables_free(&wakers);
	why_changes_free(&changes);
	why_close(&w);
	return rc;
}

static int accounts(void)
{
	struct account a = { 0 };
	struct query_own own = { 0 };
	int rc = account_sum(&a, store, INT64_MIN, INT64_MAX, &err);
	rc = rc ? rc : query_own(store, INT64_MIN, INT64_MAX, &own, &err);
	account_fini(&a);
	query_own_fini(&own);
	return rc;
}

static int numbers(void)
{
	static const double rates[] = { 1, 1, 1, 1, 5, 5, 5, 5, 9, 5 }, p[] = { 0.5, 0.1 };
	const struct change_spec spec = { .least = 0.1, .least_burst = 0.1, .per_step = 10 };
	struct change c;
	double q[2];
	int rc = change_find(&c, rates, 10, &spec);
	return rc ? rc : stats_adjust(p, 2, q);
}

static int rules(void)
{
	static const char *const texts[] = { "function>1%", "function=~\"m.*\">1%", "total>1x" };
	struct query_diff_row row = { .text = "main",
				      .module = "/bin/a",
				      .count = { 900, 100 },
				      .share = { 0.9, 0.1 },
				      .change = 0.8 };
	struct query_diff d = { .rows = &row, .n_rows = 1, .samples = { 1000, 1000 } };
	const struct gate_sides s = { .d = &d, .exposure = { 1, 1 } };
	struct scope scope = { 0 };
	int rc = scope_parse(&scope, "{tenant=\"a\"}", &err);
	scope_fini(&scope);
	for (size_t i = 0; !rc && i < 3; i++) {
		struct gate_result result = { 0 };
		struct gate_rule r = { 0 };
		size_t at;
		rc = gate_rule_parse(&r, texts[i], &at, &err);
		rc = rc ? rc : gate_judge_diff(&r, &s, &result, &err);
		gate_result_fini(&result);
		gate_rule_fini(&r);
	}
	return rc;
}

/* ---- each allocation fails ---- */

/* The first allocations, and a part of the later ones: of many each is like the one before it. */
static void starve(const char *name, int (*question)(void))
{
	unsigned failed = 0;
	long n = 0;
	if (question()) /* what a store loads once is there */
		fail_msg("%s: %s", name, err.text);
	for (denied = true; denied; n += 1 + n / 100) {
		denied = false;
		err = (struct err){ 0 };
		left = n;
		int rc = question();
		left = -1;
		store_limit(store, &(struct store_limits){ 0 });
		if (rc && rc != -ENOMEM)
			fail_msg("%s, allocation %ld: %d %s", name, n, rc, err.text);
		assert_true(!rc || denied);
		failed += rc != 0;
	}
	assert_int_equal(question(), 0); /* and works as before */
	assert_true(failed > 0);
}

static void questions(void **state)
{
	(void)state;
	starve("all labels", all_labels);
	starve("keys", by_keys);
	starve("stacks", by_stack);
	starve("totals", totals);
	starve("budget", within_budget);
	starve("views", views);
	starve("differences", differences);
	starve("series", series);
	starve("findings", finding);
	starve("lists", lists);
	starve("waits", waits);
	starve("reasons", reasons);
	starve("accounts", accounts);
	starve("numbers", numbers);
	starve("rules", rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(questions) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
