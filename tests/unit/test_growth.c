/* SPDX-License-Identifier: Apache-2.0 */
/* Live memory over time: averages of ranges, and which values of a label grow, beside sums. */
#include "unit/store_model.h"

#include "query/growth.h"
#include "query/series.h"

#include <math.h>

#define T0 1700000000000000000ll
#define WINDOW 10000000000ll
#define WINDOWS 13
#define GAP 6 /* this window is not there */
#define VALUES 4
#define STACKS 5
#define MIB (1 << 20)

static const struct store_event event = { "inuse_space", "byte-seconds", 0, 1 };
/* One is the beginning of another; NULL: without the label. */
static const char *const tenants[VALUES] = { "t1", "t10", NULL, "t2" };
static const int64_t queries[VALUES] = { -5, 50, 5, 0 };

/* Live bytes in each window, multiples of all lengths that they are averaged over. */
static uint64_t bytes[WINDOWS][VALUES][STACKS];

struct given {
	char dir[64];
	struct store *s;
};

static void commit(struct store_writer *w, size_t i)
{
	struct err err = { 0 };
	uint32_t id, set, stack;
	char text[60];
	for (unsigned v = 0; v < VALUES; v++) {
		snprintf(text, sizeof(text), "query_id=%" PRId64 "\n%s%s%s", queries[v],
			 tenants[v] ? "tenant=" : "", tenants[v] ? tenants[v] : "",
			 tenants[v] ? "\n" : "");
		for (unsigned k = 0; k < STACKS; k++) {
			char frame[40];
			snprintf(frame, sizeof(frame), "f%u (/bin/demo) 0 0\n", k);
			assert_int_equal(store_add_event(w, &event, &id), 0);
			assert_int_equal(model_put_set(w, text, &set), 0);
			assert_int_equal(model_put_stack(w, frame, &stack), 0);
			assert_int_equal(store_add_row(w, set, stack, id, 1, 10 * bytes[i][v][k]),
					 0);
		}
	}
	assert_int_equal(model_commit_at(w, i, &err), 0);
}

static int setup(void **state)
{
	struct given *g = calloc(1, sizeof(*g));
	struct model m = { .random = 41 };
	struct store_writer *w;
	struct err err = { 0 };
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(g->dir), &model_meta, &model_options, &err), 0);
	for (size_t i = 0; i < WINDOWS; i++)
		for (unsigned v = 0; v < VALUES; v++)
			for (unsigned k = 0; k < STACKS; k++)
				bytes[i][v][k] = 12 * (1 + model_random(&m, (v + 1) * 4000000));
	for (size_t i = 0; i < WINDOWS; i++)
		if (i != GAP)
			commit(w, i);
	store_writer_close(w);
	g->s = open_store(g->dir);
	*state = g;
	return 0;
}

static int teardown(void **state)
{
	struct given *g = *state;
	store_close(g->s);
	remove_tree(g->dir);
	free(g);
	return 0;
}

/* Of the windows [from, to), on average; of one stack or of all. */
static int64_t average_of(size_t from, size_t to, unsigned v, int stack)
{
	uint64_t sum = 0, n = 0;
	for (size_t i = from; i < to; i++) {
		n += i != GAP;
		for (unsigned k = 0; k < STACKS; k++)
			sum += i != GAP && (stack < 0 || k == (unsigned)stack) ? bytes[i][v][k] : 0;
	}
	return (int64_t)(sum / n);
}

static unsigned value_of(const struct growth_row *r, const char *key)
{
	char text[32];
	unsigned v = 0;
	for (; v < VALUES; v++) {
		snprintf(text, sizeof(text), "%" PRId64, queries[v]);
		const char *is = !strcmp(key, "tenant") ? tenants[v] : text;
		if (is && r->value ? !strcmp(is, r->value) : !is && !r->value)
			break;
	}
	assert_true(v < VALUES);
	return v;
}

static int descending(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;
	return (*x < *y) - (*x > *y);
}

static void check_row(struct store *s, const struct growth_row *r, unsigned v, size_t from,
		      size_t to, size_t end)
{
	int64_t grown[STACKS], first = average_of(from, from + end, v, -1),
			       last = average_of(to - end, to, v, -1);
	assert_int_equal(r->first, first);
	assert_int_equal(r->last, last);
	assert_true(
		fabs(r->bytes_per_s - (double)(last - first) / (double)(10 * (to - from - end))) <
		1e-6 * fabs(r->bytes_per_s) + 1e-9);
	for (int k = 0; k < STACKS; k++)
		grown[k] = average_of(to - end, to, v, k) - average_of(from, from + end, v, k);
	for (int k = 0; k < GROWTH_STACKS && r->stacks[k].bytes; k++) {
		char *text = store_stack_text(s, r->stacks[k].stack);
		assert_int_equal(r->stacks[k].bytes, grown[text[1] - '0']);
		free(text);
	}
	qsort(grown, STACKS, sizeof(*grown), descending);
	for (int k = 0; k < GROWTH_STACKS; k++)
		assert_int_equal(r->stacks[k].bytes, grown[k] > 0 ? grown[k] : 0);
}

/* The windows [from, to), of which `end` are at each end. */
static void check_growth(struct store *s, const char *key, size_t from, size_t to, size_t end)
{
	const struct query_spec spec = { .from_ns = T0 + (int64_t)from * WINDOW,
					 .to_ns = T0 + (int64_t)to * WINDOW };
	struct growth g;
	struct err err = { 0 };
	uint64_t first = 0, last = 0;
	bool seen[VALUES] = { false };
	if (growth_open(&g, s, &spec, key, &err))
		fail_msg("%s", err.text);
	assert_int_equal(g.from_ns, spec.from_ns);
	assert_int_equal(g.to_ns, spec.to_ns);
	assert_int_equal(g.end_s, 10 * end);
	assert_int_equal(g.n_rows, VALUES);
	for (size_t i = 0; i < VALUES; i++) {
		unsigned v = value_of(&g.rows[i], key);
		assert_false(seen[v]);
		seen[v] = true;
		assert_true(!i || g.rows[i - 1].bytes_per_s >= g.rows[i].bytes_per_s);
		check_row(s, &g.rows[i], v, from, to, end);
		first += g.rows[i].first;
		last += g.rows[i].last;
	}
	assert_int_equal(g.first, first);
	assert_int_equal(g.last, last);
	growth_close(&g);
	assert_null(g.rows);
}

static void growth(void **state)
{
	struct given *g = *state;
	static const char *const keys[] = { "tenant", "query_id" };
	for (int k = 0; k < 2; k++) {
		/* An end is a sixth of the range in whole windows, one at least */
		check_growth(g->s, keys[k], 0, 13, 2);
		check_growth(g->s, keys[k], 1, 13, 2);
		check_growth(g->s, keys[k], 1, 12, 1);
		check_growth(g->s, keys[k], 0, 3, 1);
		check_growth(g->s, keys[k], 7, 9, 1);
	}
}

static void too_short(void **state)
{
	struct given *g = *state;
	const struct query_spec one = { .from_ns = T0, .to_ns = T0 + WINDOW },
				bad = { .from_ns = T0, .to_ns = T0 + 9 * WINDOW, .where = "{a" };
	struct growth ret;
	struct err err = { 0 };
	assert_int_equal(growth_open(&ret, g->s, &one, "tenant", &err), -ENODATA);
	assert_non_null(strstr(err.text, "two windows"));
	growth_close(&ret);
	assert_int_equal(growth_open(&ret, g->s, &bad, "tenant", &err), -EINVAL);
	growth_close(&ret);
}

/*
 * Reference values: 4 times what Python's statistics.NormalDist() has above (last - first) /
 * sqrt((first + last) * 512 KiB). 64 MiB are within the noise of 74, not of 96.
 */
static void chance(void **state)
{
	static const struct {
		uint64_t first, last;
		double chance;
		bool grows;
	} want[VALUES] = {
		{ 64 * MIB, 74 * MIB, 0.457289, false },
		{ 64 * MIB, 96 * MIB, 0.00069324, true },
		{ 64 * MIB, 60 * MIB, 2.77709, false },
		{ 64 * MIB, 64 * MIB, 2, false },
	};
	struct store_writer *w;
	struct growth g;
	struct err err = { 0 };
	const struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	char dir[64];
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	memset(bytes, 0, sizeof(bytes));
	for (unsigned v = 0; v < VALUES; v++) {
		bytes[0][v][0] = want[v].first;
		bytes[1][v][0] = want[v].last;
	}
	commit(w, 0);
	commit(w, 1);
	store_writer_close(w);
	struct store *s = open_store(dir);
	assert_int_equal(growth_open(&g, s, &spec, "tenant", &err), 0);
	assert_int_equal(g.n_rows, VALUES);
	for (size_t i = 0; i < VALUES; i++) {
		unsigned v = value_of(&g.rows[i], "tenant");
		assert_true(fabs(g.rows[i].chance / want[v].chance - 1) < 0.001);
		assert_int_equal(g.rows[i].grows, want[v].grows);
	}
	growth_close(&g);
	store_close(s);
	remove_tree(dir);
}

/* Without memory nothing is told apart, and nothing is lost. */
static void cut(void **state)
{
	struct given *g = *state;
	const struct query_spec spec = { .from_ns = T0, .to_ns = T0 + 3 * WINDOW };
	struct growth whole, ret;
	struct err err = { 0 };
	assert_int_equal(growth_open(&whole, g->s, &spec, "tenant", &err), 0);
	store_limit(g->s, &(struct store_limits){ .bytes = 1 });
	assert_int_equal(growth_open(&ret, g->s, &spec, "tenant", &err), 0);
	store_limit(g->s, &(struct store_limits){ 0 });
	assert_int_equal(ret.n_rows, 1);
	assert_null(ret.rows[0].value);
	assert_true(llabs((int64_t)ret.first - (int64_t)whole.first) <= VALUES * STACKS);
	assert_true(llabs((int64_t)ret.last - (int64_t)whole.last) <= VALUES * STACKS);
	assert_int_equal(ret.rows[0].first, ret.first);
	growth_close(&ret);
	growth_close(&whole);
}

/* ---- averages in a series ---- */

static void series(void **state)
{
	struct given *g = *state;
	static const char *const keys[] = { "tenant" };
	for (size_t of = 1; of <= 2; of++) {
		struct query_series_spec spec = { .range = { .from_ns = T0,
							     .to_ns = T0 + 12 * WINDOW,
							     .metric = QUERY_INUSE_SPACE },
						  .keys = keys,
						  .n_keys = 1,
						  .step_ns = (int64_t)of * WINDOW };
		struct query_series *q;
		struct err err = { 0 };
		if (query_series(&q, g->s, &spec, &err))
			fail_msg("%s", err.text);
		assert_int_equal(q->n_rows, VALUES);
		assert_int_equal(q->n_steps, 12 / of);
		for (size_t i = 0; i < VALUES; i++) {
			const struct query_series_row *row = &q->rows[i];
			char *text = row->present[0] ? strdup(row->values[0]) : NULL;
			const struct growth_row r = { .value = text };
			unsigned v = value_of(&r, "tenant");
			for (size_t k = 0; k < q->n_steps; k++) {
				bool gap = of == 1 && k == GAP;
				assert_int_equal(q->covered_ns[k], gap		   ? 0
								   : k == GAP / of ? WINDOW
										   : of * WINDOW);
				int64_t want = gap ? 0 : average_of(of * k, of * (k + 1), v, -1);
				assert_true(llabs((int64_t)q->rows[i].points[k] - want) <= 1);
			}
			int64_t all = average_of(0, 12, v, -1);
			assert_true(llabs((int64_t)q->rows[i].samples - all) <= 1);
			free(text);
		}
		query_series_free(q);
	}
}

/* Of a range without windows there is no average, and no row. */
static void nothing_there(void **state)
{
	struct given *g = *state;
	const struct query_series_spec spec = { .range = { .from_ns = T0 + 100 * WINDOW,
							   .to_ns = T0 + 110 * WINDOW,
							   .metric = QUERY_INUSE_SPACE },
						.step_ns = WINDOW };
	struct query_series *q;
	struct err err = { 0 };
	assert_int_equal(query_series(&q, g->s, &spec, &err), 0);
	assert_int_equal(q->n_steps, 0);
	assert_int_equal(q->n_rows, 0);
	query_series_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(growth),	 cmocka_unit_test(series),
		cmocka_unit_test(nothing_there), cmocka_unit_test(too_short),
		cmocka_unit_test(cut),		 cmocka_unit_test(chance),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
