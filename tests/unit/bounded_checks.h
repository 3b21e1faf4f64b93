/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers within budgets from tiny to ample, against brute force over all rows. What is shown is
 * exact, (other) is the exact rest, and the memory of a question stays within its budget.
 */
#ifndef TESTS_BOUNDED_CHECKS_H
#define TESTS_BOUNDED_CHECKS_H

#include "bounded_questions.h"
#include "part.h"

#include "query/diff.h"
#include "query/series.h"
#include "store/writer.h"

#include <errno.h>

/* Of the budget, a stack that is shown with its part of everything: where all do not fit. */
#define STACK_COSTS 710

/* ---- checks ---- */

static const char *const both_keys[] = { "tenant", "query_id" };
static unsigned n_bounded, n_whole;

static struct query *ask(struct fixture *f, const struct question *a)
{
	struct query *q = NULL;
	struct err err = { 0 };
	if (query_open(&q, f->s, &a->spec, &err))
		fail_msg("%s: %s", a->spec.where ? a->spec.where : "", err.text);
	n_bounded += query_info(q)->bounded;
	n_whole += !query_info(q)->bounded;
	return q;
}

static void check_table(struct fixture *f, size_t budget)
{
	struct question a = draw_question(f, QUERY_KEYS, budget);
	size_t n = (size_t)f->size.tenants * f->size.queries + 1;
	struct query_table *t;
	struct err err = { 0 };
	uint64_t all, shown = 0, largest = 0, *want = sums(f, &a, n, by_both, &all),
		      least = UINT64_MAX;
	a.spec.keys = both_keys;
	a.spec.n_keys = 2;
	int64_t before = begin_memory();
	struct query *q = ask(f, &a);
	assert_int_equal(query_table(q, both_keys, 2, &t, &err), 0);
	check_memory(before, budget);
	assert_int_equal(query_info(q)->samples, all);
	for (size_t i = 0; i < t->n_rows; i++) {
		const struct query_table_row *r = &t->rows[i];
		if (r->other) {
			assert_true(query_info(q)->bounded && i + 1 == t->n_rows);
			assert_int_equal(shown + r->samples, all);
			shown = all;
			continue;
		}
		uint64_t *sum = &want[both_of_values(f, r->values[0], r->values[1])];
		assert_int_equal(r->samples, *sum);
		shown += r->samples;
		least = r->samples < least ? r->samples : least;
		*sum = 0;
	}
	assert_int_equal(shown, all);
	for (size_t i = 0; i < n; i++)
		largest = want[i] > largest ? want[i] : largest;
	assert_true(!largest || query_info(q)->bounded);
	/* A table of dozens of rows has whatever makes up a tenth. */
	assert_true(budget < 32000 || largest * 10 < all || !all);
	query_table_free(t);
	query_close(q);
	free(want);
}

static uint32_t node_of(const struct fixture *f, uint32_t *path, const struct query_node *nodes,
			uint32_t i)
{
	uint32_t parent, frame;
	store_stack(f->s, nodes[i].stack, &parent, &frame);
	const char *name = store_string(f->s, store_frame(f->s, frame)->function, NULL);
	return f->child[path[nodes[i].parent]][atoi(name + 1)];
}

static void check_functions(struct fixture *f, struct query *q, const struct question *a)
{
	struct query_table *t;
	struct err err = { 0 };
	uint64_t all, self[FUNCTIONS] = { 0 }, total[FUNCTIONS] = { 0 }, sum = 0,
		      *own = sums(f, a, f->n_nodes, by_node, &all);
	for (uint32_t i = 1; i < f->n_nodes; i++) {
		bool seen[FUNCTIONS] = { false };
		self[f->function[i]] += own[i];
		for (uint32_t n = i; n && own[i]; n = f->parent[n]) {
			total[f->function[n]] += seen[f->function[n]] ? 0 : own[i];
			seen[f->function[n]] = true;
		}
	}
	assert_int_equal(query_table(q, NULL, 0, &t, &err), 0);
	assert_true(t->approximate == query_info(q)->bounded || a->spec.least);
	for (size_t i = 0; i < t->n_rows; i++) {
		const struct query_table_row *r = &t->rows[i];
		int function = r->other ? 0 : atoi(r->text + 1);
		sum += r->self;
		assert_true(!r->other || !strcmp(r->text, "(other)"));
		assert_true(r->other ||
			    (r->self <= self[function] && r->self + r->error >= self[function]));
		assert_true(r->other || (r->samples <= total[function] &&
					 r->samples + r->error >= total[function]));
	}
	assert_int_equal(sum + own[0], all);
	query_table_free(t);
	free(own);
}

static void check_tree(struct fixture *f, size_t budget)
{
	static const uint32_t leasts[] = { 0, 10, 100, 10000 };
	struct question a = draw_question(f, QUERY_NO_LABELS, budget);
	a.spec.least = leasts[draw(f, 4)];
	const struct query_node *nodes;
	struct err err = { 0 };
	size_t n;
	uint64_t all, *total = sums(f, &a, f->n_nodes, by_node, &all),
		      *self = malloc(f->n_nodes * sizeof(*self));
	memcpy(self, total, f->n_nodes * sizeof(*self));
	for (uint32_t i = f->n_nodes; i-- > 1;)
		total[f->parent[i]] += total[i];
	int64_t before = begin_memory();
	struct query *q = ask(f, &a);
	assert_int_equal(query_tree(q, &nodes, &n, &err), 0);
	check_functions(f, q, &a);
	check_memory(before, budget + (COUNTS_BYTES ? f->n_nodes * sizeof(uint64_t) : 0));
	uint32_t *path = calloc(n, sizeof(*path));
	uint64_t *children = calloc(n, sizeof(*children)), least = UINT64_MAX;
	size_t shown = 0;
	assert_int_equal(query_info(q)->samples, all);
	for (uint32_t i = 0; i < n; i++) {
		bool other = nodes[i].stack == QUERY_OTHER_STACK;
		path[i] = !i || other ? 0 : node_of(f, path, nodes, i);
		assert_true(!other || query_info(q)->bounded || a.spec.least);
		if (i)
			children[nodes[i].parent] += nodes[i].total;
		if (other)
			continue;
		assert_true(!i || path[i]);
		assert_int_equal(nodes[i].self, self[path[i]]);
		assert_int_equal(nodes[i].total, total[path[i]]);
		if (i && a.spec.least && (!a.spec.where || !*a.spec.where))
			assert_true(nodes[i].total * a.spec.least >= all);
		least = nodes[i].total < least ? nodes[i].total : least;
		total[path[i]] = 0;
		shown++;
	}
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(nodes[i].self + children[i], nodes[i].total);
	/* Of stacks that have equally many samples some stay: the memory is used. */
	size_t cut = 0;
	for (uint32_t i = 0; i < f->n_nodes; i++)
		cut += total[i] != 0;
	if (cut && !a.spec.least && (shown + 2) * STACK_COSTS < budget)
		fail_msg("%zu stacks of %zu in %zu bytes", shown, shown + cut, budget);
	for (uint32_t i = 0; i < f->n_nodes; i++)
		assert_true(!total[i] || (a.spec.least && total[i] * a.spec.least < all) ||
			    (query_info(q)->bounded && (budget < 200000 || total[i] * 20 < all)));
	free(path);
	free(children);
	query_close(q);
	free(total);
	free(self);
}

struct place {
	uint32_t set, node;
	uint64_t samples;
};

static int by_place(const void *pa, const void *pb)
{
	const struct place *a = pa, *b = pb;
	if (a->set != b->set)
		return a->set < b->set ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

static size_t places(const struct fixture *f, const struct question *a, struct place **ret)
{
	struct place *v = malloc((f->n_rows + 1) * sizeof(*v));
	size_t n = 0, to = 0;
	for (size_t i = 0; i < f->n_rows; i++)
		if (counts(a, &f->rows[i]))
			v[n++] = (struct place){ (uint32_t)by_both(f, &f->rows[i]), f->rows[i].node,
						 f->rows[i].samples };
	qsort(v, n, sizeof(*v), by_place);
	for (size_t i = 0; i < n; i++)
		if (to && !by_place(&v[to - 1], &v[i]))
			v[to - 1].samples += v[i].samples;
		else
			v[to++] = v[i];
	*ret = v;
	return to;
}

static uint32_t set_of(const struct fixture *f, const struct query *q, uint32_t set)
{
	char tenant[40] = "", number[40] = "";
	const struct label *l;
	size_t n = query_set(q, set, &l);
	for (size_t i = 0; i < n; i++)
		if (l[i].key_len == 6)
			label_text(&l[i], tenant, sizeof(tenant));
		else if (l[i].key_len == 8)
			label_text(&l[i], number, sizeof(number));
	return (uint32_t)both_of_values(f, tenant, number);
}

static uint32_t node_of_stack(const struct fixture *f, uint32_t stack)
{
	uint32_t parent, frame;
	if (!stack)
		return 0;
	store_stack(f->s, stack, &parent, &frame);
	const char *name = store_string(f->s, store_frame(f->s, frame)->function, NULL);
	return f->child[node_of_stack(f, parent)][atoi(name + 1)];
}

static void check_rows(struct fixture *f, size_t budget)
{
	/* Sets without a tenant differ by comm: a question by these two keys makes them one. */
	struct question a = draw_question(f, QUERY_KEYS_STACKS, budget);
	struct place *want;
	size_t n_want = places(f, &a, &want), n,
	       n_sets = (size_t)f->size.tenants * f->size.queries + 1;
	uint64_t all, *of_set = sums(f, &a, n_sets, by_both, &all), sum = 0;
	a.spec.keys = both_keys;
	a.spec.n_keys = 2;
	int64_t before = begin_memory();
	struct query *q = ask(f, &a);
	const struct store_row *rows = query_rows(q, &n);
	check_memory(before, budget);
	assert_int_equal(query_info(q)->samples, all);
	for (size_t i = 0; i < n; i++) {
		assert_true(!i || rows[i - 1].set < rows[i].set ||
			    (rows[i - 1].set == rows[i].set && rows[i - 1].stack < rows[i].stack));
		sum += rows[i].samples;
		if (rows[i].set == QUERY_OTHER) {
			assert_true(query_info(q)->bounded && rows[i].stack == QUERY_OTHER_STACK);
			continue;
		}
		uint32_t set = set_of(f, q, rows[i].set);
		of_set[set] -= rows[i].samples; /* 0 after all rows of a set that is shown */
		if (rows[i].stack == QUERY_OTHER_STACK) {
			assert_true(query_info(q)->bounded);
			continue;
		}
		struct place *p =
			bsearch(&(struct place){ set, node_of_stack(f, rows[i].stack), 0 }, want,
				n_want, sizeof(*want), by_place);
		assert_non_null(p);
		assert_int_equal(p->samples, rows[i].samples);
	}
	assert_int_equal(sum, all);
	for (size_t i = 0; i < n; i++)
		assert_true(rows[i].set == QUERY_OTHER || !of_set[set_of(f, q, rows[i].set)]);
	if (!query_info(q)->bounded)
		assert_int_equal(n, n_want);
	query_close(q);
	free(want);
	free(of_set);
}

/* What sums up to one number needs no budget. */
static void check_totals(struct fixture *f, size_t budget)
{
	struct question a = draw_question(f, QUERY_TOTALS, budget);
	uint64_t all, *want = sums(f, &a, f->n_nodes, by_node, &all);
	struct query *q = ask(f, &a);
	size_t n;
	const struct store_row *rows = query_rows(q, &n);
	assert_false(query_info(q)->bounded);
	assert_int_equal(query_info(q)->samples, all);
	assert_int_equal(n, all > 0);
	assert_true(!n || (!rows->set && !rows->stack && rows->samples == all));
	query_close(q);
	free(want);
}

static void check_series(struct fixture *f, size_t budget)
{
	struct question a = draw_question(f, QUERY_KEYS, budget);
	struct query_series_spec spec = { .range = a.spec,
					  .keys = both_keys,
					  .n_keys = draw(f, 3),
					  .step_ns = (1 + draw(f, 5)) * WINDOW_NS,
					  .top = draw(f, 2) ? 0 : 1 + draw(f, 20) };
	struct query_series *s;
	struct err err = { 0 };
	uint64_t sum = 0;
	int64_t before = begin_memory();
	assert_int_equal(query_series(&s, f->s, &spec, &err), 0);
	check_memory(before, budget);
	for (size_t i = 0; i < s->n_rows; i++) {
		uint64_t points = 0;
		for (size_t k = 0; k < s->n_steps; k++)
			points += s->rows[i].points[k];
		assert_int_equal(points, s->rows[i].samples);
		sum += points;
		assert_true(!s->rows[i].other || i + 1 == s->n_rows);
	}
	assert_int_equal(sum, s->whole ? query_info(s->whole)->samples : 0);
	query_series_free(s);
}

static void check_diff(struct fixture *f, size_t budget)
{
	struct question a[2] = { draw_question(f, QUERY_KEYS, budget),
				 draw_question(f, QUERY_KEYS, budget) };
	const struct query_diff_spec how = { .keys = both_keys, .n_keys = 2 };
	size_t n = (size_t)f->size.tenants * f->size.queries + 1;
	struct query *q[2];
	struct query_diff *d;
	struct err err = { 0 };
	uint64_t all[2], sum[2] = { 0 }, *want[2];
	for (int i = 0; i < 2; i++)
		want[i] = sums(f, &a[i], n, by_both, &all[i]);
	int64_t before = begin_memory();
	for (int i = 0; i < 2; i++) {
		a[i].spec.keys = both_keys;
		a[i].spec.n_keys = 2;
		a[i].spec.parts = 3;
		q[i] = ask(f, &a[i]);
	}
	assert_int_equal(query_diff(&d, q[0], q[1], &how, &err), 0);
	check_memory(before, budget);
	for (size_t i = 0; i < d->n_rows; i++) {
		const struct query_diff_row *r = &d->rows[i];
		size_t key = r->other ? 0 : both_of_values(f, r->values[0], r->values[1]);
		for (int k = 0; k < 2; k++) {
			bool cut = query_info(q[k])->bounded && !r->samples[k];
			sum[k] += r->samples[k];
			assert_true(r->other || cut || r->samples[k] == want[k][key]);
			assert_true(!r->tested || !(r->other || cut));
		}
	}
	for (int k = 0; k < 2; k++) {
		assert_int_equal(sum[k], all[k]);
		free(want[k]);
	}
	query_diff_free(d);
	query_close(q[0]);
	query_close(q[1]);
}

static void ask_all(struct fixture *f, size_t budget)
{
	check_diff(f, budget);

	check_table(f, budget);
	check_tree(f, budget);
	check_rows(f, budget);
	check_totals(f, budget);
	check_series(f, budget);
}

/* Everything that the store loads at the first question of a kind is there. */
static void warm_up(struct fixture *f)
{
	int64_t most_over_before = most_over;
	for (int i = 0; i < 5; i++)
		ask_all(f, (size_t)1 << 30);
	most_over = most_over_before;
}

static struct fixture fixture; /* large */

#endif
