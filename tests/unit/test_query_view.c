/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree from its leaves and around one function, against every stack of a random store walked by
 * itself; verdicts against a table's.
 */
#include "unit/store_model.h"

#include "query/diff.h"
#include "query/view.h"

#define N_WINDOWS 12
#define DEPTH 64

static int setup(void **state)
{
	*state = fixture_of(31, N_WINDOWS, 60);
	return 0;
}

static struct query *ask(struct fixture *f, const char *where)
{
	struct query_spec spec = {
		.where = where, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .labels = QUERY_NO_LABELS
	};
	struct query *q;
	struct err err = { 0 };
	assert_int_equal(query_open(&q, f->s, &spec, &err), 0);
	return q;
}

static char *name_of(const struct store *s, uint32_t frame)
{
	char text[600], *name;
	query_frame_name(s, frame, text, sizeof(text));
	assert_true(asprintf(&name, "%s%s (%s)", text,
			     store_frame(s, frame)->flags & FRAME_INLINED ? " i" : "",
			     store_string(s, store_frame(s, frame)->module, NULL)) > 0);
	return name;
}

/* The names of a stack, root first. */
static size_t names_of(const struct store *s, uint32_t stack, char **out)
{
	uint32_t frame[DEPTH], n = 0;
	for (uint32_t parent; stack && n < DEPTH; stack = parent)
		store_stack(s, stack, &parent, &frame[n++]);
	for (uint32_t i = 0; i < n; i++)
		out[i] = name_of(s, frame[n - 1 - i]);
	return n;
}

static void drop(char **v, size_t n)
{
	while (n)
		free(v[--n]);
}

/* What a stack is in a view: the names from the root's child on; 0: it is not in it. */
static size_t seen_as(const struct query_view_spec *spec, char **stack, size_t n, char **out)
{
	size_t at = n - 1, len = 0;
	if (spec->view != QUERY_VIEW_INVERTED) {
		char want[700];
		snprintf(want, sizeof(want), "%s (%s)", spec->function, spec->module);
		for (at = 0; at < n && strcmp(stack[at], want); at++)
			;
		if (at == n)
			return 0;
	}
	if (spec->view == QUERY_VIEW_CALLEES)
		for (size_t i = at; i < n; i++)
			out[len++] = stack[i];
	else
		for (size_t i = at + 1; i-- > 0;)
			out[len++] = stack[i];
	return len;
}

/* Samples whose view begins with a path: [0] in all, [1] that end there. */
static void brute(struct query *q, const struct query_view_spec *spec, char **path, size_t n,
		  uint64_t ret[2], const struct store *s)
{
	size_t n_rows;
	const struct store_row *rows = query_rows(q, &n_rows);
	ret[0] = ret[1] = 0;
	for (size_t r = 0; r < n_rows; r++) {
		char *stack[DEPTH], *view[DEPTH];
		size_t depth = names_of(s, rows[r].stack, stack),
		       len = depth ? seen_as(spec, stack, depth, view) : 0, k = 0;
		while (k < n && k < len && !strcmp(path[k], view[k]))
			k++;
		if (k == n && (len || (!depth && spec->view == QUERY_VIEW_INVERTED))) {
			/* a sample may have no stack at all */
			ret[0] += rows[r].samples;
			ret[1] += len == n ? rows[r].samples : 0;
		}
		drop(stack, depth);
	}
}

static size_t path_of(const struct store *s, const struct query_view_tree *t, uint32_t node,
		      char **out)
{
	uint32_t at[DEPTH], n = 0, parent, frame;
	for (; node; node = t->nodes[node].parent)
		at[n++] = node;
	for (uint32_t i = 0; i < n; i++) {
		store_stack(s, t->nodes[at[n - 1 - i]].stack, &parent, &frame);
		out[i] = name_of(s, frame);
	}
	return n;
}

static void check_view(struct fixture *f, const char *where, const struct query_view_spec *spec)
{
	struct query *q = ask(f, where);
	struct query_view_tree t;
	struct err err = { 0 };
	size_t checked = 0;
	assert_int_equal(query_view(&t, q, spec, &err), 0);
	uint64_t least = t.nodes[0].total / QUERY_VIEW_MIN_SHARE + 1;
	for (uint32_t i = 0; i < t.n; i++) {
		const struct query_node *n = &t.nodes[i];
		uint64_t sum = n->self, last = UINT64_MAX, want[2];
		char *path[DEPTH];
		for (uint32_t c = n->first_child; c; c = t.nodes[c].next_sibling) {
			assert_int_equal(t.nodes[c].parent, i);
			assert_true(c > i && t.nodes[c].total <= last);
			last = t.nodes[c].total;
			sum += last;
		}
		if (n->total >= least)
			assert_int_equal(sum, n->total);
		if (i % 11 > 2)
			continue;
		size_t len = path_of(f->s, &t, i, path);
		brute(q, spec, path, len, want, f->s);
		if (n->total != want[0] || (n->total >= least && i && n->self != want[1]))
			fail_msg("node %u, %s: %llu %llu, want %llu %llu", i,
				 len ? path[len - 1] : "all", (unsigned long long)n->total,
				 (unsigned long long)n->self, (unsigned long long)want[0],
				 (unsigned long long)want[1]);
		drop(path, len);
		checked++;
	}
	assert_true(checked > 2);
	query_view_free(&t);
	query_close(q);
}

static void inverted(void **state)
{
	struct query_view_spec spec = { .view = QUERY_VIEW_INVERTED };
	check_view(*state, NULL, &spec);
}

/* Every function of the table: its callers and callees have what it has. */
static void around_functions(void **state)
{
	struct fixture *f = *state;
	struct query *q = ask(f, NULL);
	struct query_table *t;
	struct err err = { 0 };
	assert_int_equal(query_table(q, NULL, 0, &t, &err), 0);
	for (size_t i = 0; i < t->n_rows; i++) {
		for (int view = QUERY_VIEW_CALLEES; view <= QUERY_VIEW_CALLERS; view++) {
			struct query_view_spec spec = { (enum query_view)view, t->rows[i].text,
							t->rows[i].module };
			struct query_view_tree v;
			assert_int_equal(query_view(&v, q, &spec, &err), 0);
			assert_int_equal(v.nodes[0].total, t->rows[i].samples);
			assert_int_equal(v.nodes[v.nodes[0].first_child].total, t->rows[i].samples);
			assert_int_equal(v.nodes[v.nodes[0].first_child].next_sibling, 0);
			query_view_free(&v);
			if (i < 2)
				check_view(f, NULL, &spec);
		}
	}
	struct query_view_spec nobody = { QUERY_VIEW_CALLERS, "no such function", NULL };
	struct query_view_tree v;
	assert_int_equal(query_view(&v, q, &nobody, &err), 0);
	assert_int_equal(v.nodes[0].total, 0);
	assert_int_equal(v.n, 1);
	query_view_free(&v);
	query_table_free(t);
	query_close(q);
}

/*
 * The leaves of an inverted difference are the functions by self: the same counts, and the same
 * verdicts when they are tested alone.
 */
static void inverted_difference(void **state)
{
	struct fixture *f = *state;
	struct query *a = ask(f, "{comm=~\"[a-m].*\"}"), *b = ask(f, "{comm!~\"[a-m].*\"}");
	struct query_view_spec spec = { .view = QUERY_VIEW_INVERTED };
	struct query_diff_spec how = { 0 };
	struct query_diff_tree *t;
	struct query_diff *d;
	struct err err = { 0 };
	size_t n = 0, seen = 0;
	assert_int_equal(query_diff_view(&t, a, b, &spec, &err), 0);
	assert_int_equal(query_diff(&d, a, b, &how, &err), 0);
	uint64_t(*counts)[2] = calloc(d->n_rows + 1, sizeof(*counts));
	uint8_t *verdict = calloc(d->n_rows + 1, 1);
	for (size_t i = 0; i < d->n_rows; i++, n++)
		memcpy(counts[n], d->rows[i].self, sizeof(counts[0]));
	assert_int_equal(query_diff_verdicts((const uint64_t(*)[2])counts, n, d->samples, verdict),
			 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(verdict[i], d->rows[i].verdict);
	for (uint32_t c = t->nodes[0].first_child; c; c = t->nodes[c].next_sibling)
		for (size_t i = 0; i < n; i++)
			if (!strcmp(d->rows[i].text, t->nodes[c].text) &&
			    !strcmp(d->rows[i].module, t->nodes[c].module)) {
				assert_int_equal(d->rows[i].self[0], t->nodes[c].total[0]);
				assert_int_equal(d->rows[i].self[1], t->nodes[c].total[1]);
				seen++;
			}
	assert_true(seen > 5);
	free(counts);
	free(verdict);
	query_diff_free(d);
	query_diff_tree_free(t);
	query_close(a);
	query_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inverted),
		cmocka_unit_test(around_functions),
		cmocka_unit_test(inverted_difference),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
