/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a wide key from what blocks above the windows keep of it, beside sums of the rows. */
#include "unit/store_model.h"

#include "query/series.h"
#include "query/values.h"

#define T0 (1700000000ll / 3600 * 3600 * 1000000000)
#define WINDOW 10000000000ll
#define WINDOWS 60
#define TENANTS 12 /* more than a narrow key has; the last one: without the label */
#define PERIOD 1000
#define QUIET 50 /* a tenant beside these, */
#define RARE 51	 /* and one in one window alone */
#define RARE_WINDOW 20
#define EVENTS 3

enum { FAULTS, CLOCK, ODD };

static const struct store_event events[EVENTS] = {
	{ "page-faults", "count", 0, 7 },
	{ "cpu-clock", "nanoseconds", PERIOD, PERIOD },
	{ "odd", "bytes", 0, 10 }, /* whose values are not its samples times the period */
};

struct given {
	char dir[64];
	struct store *s;
	uint64_t samples[WINDOWS][TENANTS], idle;
};

static void add(struct store_writer *w, uint32_t event, unsigned tenant, bool idle, uint64_t n)
{
	uint32_t id = 0, set, stack;
	char labels[80];
	for (unsigned e = 0; e < EVENTS; e++)
		assert_int_equal(store_add_event(w, &events[e], &id), 0);
	snprintf(labels, sizeof(labels),
		 tenant == TENANTS - 1 ? "comm=sh\n" : "comm=sh\nexe=e%u\ntenant=t%u\n", tenant,
		 tenant);
	assert_int_equal(model_put_set(w, labels, &set), 0);
	assert_int_equal(
		model_put_stack(w, idle ? "[idle] () 2 0\n" : "main (/bin/demo) 0 0\n", &stack), 0);
	assert_int_equal(
		store_add_row(w, set, stack, event, n, n * events[event].period + (event == ODD)),
		0);
}

static int setup(void **state)
{
	struct given *g = calloc(1, sizeof(*g));
	struct model m = { .random = 77 };
	struct store_writer *w;
	struct err err = { 0 };
	const struct store_totals none = { 0 };
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(g->dir), &model_meta, &model_options, &err), 0);
	for (size_t i = 0; i < WINDOWS; i++) {
		for (unsigned t = 0; t < TENANTS; t++) {
			uint64_t n = model_random(&m, 4) ? 1 + model_random(&m, 900) : 0;
			g->samples[i][t] = n;
			if (n)
				add(w, CLOCK, t, false, n);
			add(w, FAULTS, t, false, 1 + model_random(&m, 5));
			if (t < TENANTS - 1)
				add(w, ODD, t, false, 3);
		}
		add(w, CLOCK, TENANTS - 1, true, 5);
		add(w, FAULTS, QUIET, false, 2); /* has no samples of the clock */
		if (i == RARE_WINDOW)
			add(w, FAULTS, RARE, false, 1);
		g->idle += 5;
		int64_t t0 = T0 + (int64_t)i * WINDOW;
		assert_int_equal(store_commit_window(w, t0, t0 + WINDOW, t0 - T0 + 1, &none, &err),
				 0);
	}
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

static uint64_t sum_of(const struct given *g, size_t from, size_t to, unsigned tenant)
{
	uint64_t sum = 0;
	for (size_t i = from; i < to; i++)
		sum += g->samples[i][tenant];
	return sum;
}

static unsigned tenant_of(const char *text)
{
	return *text ? (unsigned)atoi(text + 1) : TENANTS - 1;
}

static struct query *ask(const struct given *g, size_t from, size_t to, enum query_labels labels,
			 bool idle)
{
	static const char *const keys[] = { "tenant" };
	const struct query_spec spec = { .event = "cpu-clock",
					 .from_ns = T0 + (int64_t)from * WINDOW,
					 .to_ns = T0 + (int64_t)to * WINDOW,
					 .labels = labels,
					 .keys = keys,
					 .n_keys = labels == QUERY_KEYS,
					 .idle = idle };
	struct query *q;
	struct err err = { 0 };
	if (query_open(&q, g->s, &spec, &err))
		fail_msg("%s", err.text);
	return q;
}

static void check_rows(const struct given *g, size_t from, size_t to, bool idle)
{
	struct query *q = ask(g, from, to, QUERY_KEYS, idle);
	size_t n;
	const struct store_row *rows = query_rows(q, &n);
	uint64_t want[TENANTS], all = 0;
	for (unsigned t = 0; t < TENANTS; t++)
		want[t] = sum_of(g, from, to, t);
	want[TENANTS - 1] += idle ? 5 * (to - from) : 0;
	for (size_t i = 0; i < n; i++) {
		char *text = query_labels_text(q, rows[i].set), *value = strchr(text, '=');
		unsigned t = tenant_of(value ? value + 1 : "");
		assert_true(!i || rows[i - 1].set < rows[i].set);
		assert_int_equal(rows[i].stack, 0);
		assert_int_equal(rows[i].samples, want[t]);
		assert_int_equal(rows[i].value, want[t] * PERIOD);
		assert_true(want[t] > 0);
		all += want[t];
		want[t] = 0;
		free(text);
	}
	for (unsigned t = 0; t < TENANTS; t++)
		assert_int_equal(want[t], 0);
	assert_int_equal(query_info(q)->samples, all);
	assert_int_equal(query_info(q)->idle, 5 * (to - from));
	query_close(q);
}

static void rows(void **state)
{
	const struct given *g = *state;
	for (int idle = 0; idle < 2; idle++) {
		check_rows(g, 0, 60, idle);
		check_rows(g, 0, 30, idle);
		check_rows(g, 6, 36, idle);
		check_rows(g, 7, 45, idle);
		check_rows(g, 3, 5, idle);
		check_rows(g, 3, 4, idle);
	}
}

/* From blocks above the windows: far fewer are read than there are windows. */
static void from_parents(void **state)
{
	const struct given *g = *state;
	struct query *q = ask(g, 0, 60, QUERY_KEYS, true);
	assert_int_equal(query_info(q)->windows, 60);
	assert_true(query_info(q)->blocks < 20);
	query_close(q);
	assert_true(values_kept(g->s, "tenant", T0, T0 + 60 * WINDOW));
	assert_false(values_kept(g->s, "tenant", T0, T0 + WINDOW));
	assert_false(values_kept(g->s, "comm", T0, T0 + 60 * WINDOW));
}

/* Which questions the values answer, and which of those they do. */
static void which_serve(void **state)
{
	static const char *const tenant[] = { "tenant", "comm" }, *const exe[] = { "exe" };
	const int64_t end = T0 + WINDOWS * WINDOW;
	const struct query_spec spec = { .event = "cpu-clock",
					 .from_ns = T0,
					 .to_ns = end,
					 .labels = QUERY_KEYS,
					 .keys = tenant,
					 .n_keys = 1,
					 .idle = true };
	struct {
		struct query_spec spec;
		bool may, serves;
	} v[] = {
		{ spec, true, true },  { spec, true, true },  { spec, true, true },
		{ spec, false, true }, { spec, false, true }, { spec, false, true },
		{ spec, false, true }, { spec, false, true }, { spec, false, false },
		{ spec, true, false }, { spec, true, false }, { spec, true, true },
		{ spec, true, true },
	};
	const struct given *g = *state;
	v[1].spec.where = "";
	v[2].spec.idle = false; /* no idle CPU has a tenant */
	v[3].spec.labels = QUERY_KEYS_STACKS;
	v[4].spec.n_keys = 2;
	v[5].spec.where = "comm=\"sh\"";
	v[6].spec.rest = true;
	v[7].spec.metric = QUERY_CPU;
	v[8].spec.to_ns = T0 + WINDOW; /* one window */
	v[9].spec.event = "odd";
	v[10].spec.keys = v[11].spec.keys = v[12].spec.keys = exe;
	v[10].spec.idle = v[12].spec.idle = false; /* which idle CPUs may have */
	v[12].spec.event = "page-faults";	   /* but not this event */
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct query *q = NULL;
		struct err err = { 0 };
		if (values_serve(g->s, &v[i].spec) != v[i].may)
			fail_msg("%zu", i);
		if (!v[i].may && i != 8)
			continue;
		assert_int_equal(values_open(&q, g->s, &v[i].spec, &err), 0);
		if ((q != NULL) != v[i].serves)
			fail_msg("%zu", i);
		query_close(q);
	}
}

/* The table of a wide key: its values, the samples without it, and no more than all. */
static void table(void **state)
{
	const struct given *g = *state;
	struct query *q = ask(g, 0, 60, QUERY_TOTALS, false);
	struct query_table *t;
	struct err err = { 0 };
	uint64_t sum = 0;
	assert_true(query_top_serves(q, "tenant"));
	assert_false(query_top_serves(q, "comm"));
	assert_int_equal(query_top(q, "tenant", &t, &err), 0);
	assert_int_equal(t->n_rows, TENANTS);
	for (size_t i = 0; i < t->n_rows; i++) {
		const struct query_table_row *r = &t->rows[i];
		uint64_t want = sum_of(g, 0, 60, tenant_of(r->values[0]));
		assert_int_equal(r->present[0], *r->values[0] != 0);
		assert_true(r->samples <= want && want <= r->samples + r->error);
		assert_true(!i || r[-1].samples >= r->samples);
		assert_true(r->low <= (double)want / (double)query_info(q)->samples + 0.01);
		sum += r->samples;
	}
	assert_int_equal(sum, query_info(q)->samples);
	query_table_free(t);
	query_close(q);
}

/* Each sample of this event has a tenant: there is no row for those without. */
static void all_with_the_key(void **state)
{
	const struct given *g = *state;
	const struct query_spec spec = { .event = "odd",
					 .from_ns = T0,
					 .to_ns = T0 + WINDOWS * WINDOW,
					 .labels = QUERY_TOTALS };
	struct query_table *t;
	struct query *q;
	struct err err = { 0 };
	assert_int_equal(query_open(&q, g->s, &spec, &err), 0);
	assert_int_equal(query_top(q, "tenant", &t, &err), 0);
	assert_int_equal(t->n_rows, TENANTS - 1);
	for (size_t i = 0; i < t->n_rows; i++) {
		assert_int_equal(t->rows[i].samples, 3 * WINDOWS);
		assert_true(t->rows[i].present[0] && !t->rows[i].other && !t->rows[i].error);
		assert_int_equal(t->rows[i].self, t->rows[i].samples);
	}
	assert_false(t->approximate);
	query_table_free(t);
	query_close(q);
}

/* Of a value that few windows have these alone are read; the account is that of all. */
static void a_rare_value(void **state)
{
	static const char *const keys[] = { "tenant" };
	const struct given *g = *state;
	struct query_spec spec = { .event = "page-faults",
				   .where = "{tenant=\"t51\"}",
				   .from_ns = T0,
				   .to_ns = T0 + WINDOWS * WINDOW,
				   .keys = keys,
				   .n_keys = 1 };
	for (int labels = QUERY_KEYS; labels <= QUERY_KEYS_STACKS; labels++) {
		struct query *q;
		struct err err = { 0 };
		spec.labels = (enum query_labels)labels;
		assert_int_equal(query_open(&q, g->s, &spec, &err), 0);
		assert_int_equal(query_info(q)->samples, 1);
		assert_true(query_info(q)->blocks < 3);
		assert_int_equal(query_info(q)->windows, WINDOWS);
		assert_int_equal(query_info(q)->from_ns, T0);
		assert_int_equal(query_info(q)->to_ns, T0 + WINDOWS * WINDOW);
		query_close(q);
	}
}

/* Steps by a wide key: from its lists, or as any query. */
static void series(void **state)
{
	static const char *const keys[] = { "tenant" };
	static const size_t steps[] = { 1, 6, 10, 60 }; /* in windows */
	const struct given *g = *state;
	for (size_t i = 0; i < 8; i++) {
		const size_t of = steps[i / 2];
		const struct query_series_spec spec = { .range = { .event = "cpu-clock",
								   .from_ns = T0,
								   .to_ns = T0 + WINDOWS * WINDOW },
							.keys = keys,
							.n_keys = 1,
							.step_ns = (int64_t)of * WINDOW,
							.exact = i % 2 };
		struct query_series *s;
		struct err err = { 0 };
		if (query_series(&s, g->s, &spec, &err))
			fail_msg("%s", err.text);
		assert_int_equal(s->n_rows, TENANTS);
		assert_int_equal(s->n_groups, TENANTS);
		assert_int_equal(s->n_steps, WINDOWS / of);
		assert_false(s->approximate || s->bounded);
		assert_true(query_info(s->whole)->blocks < WINDOWS);
		for (size_t k = 0; k < s->n_rows; k++) {
			const unsigned t = tenant_of(s->rows[k].values[0]);
			assert_int_equal(s->rows[k].present[0], t != TENANTS - 1);
			assert_int_equal(s->rows[k].samples, sum_of(g, 0, WINDOWS, t));
			for (size_t p = 0; p < s->n_steps; p++)
				assert_int_equal(s->rows[k].points[p],
						 sum_of(g, p * of, (p + 1) * of, t));
		}
		query_series_free(s);
	}
}

/* Values that are numbers, by their text. */
static void numbers(void **state)
{
	enum { IDS = 9 };
	struct store_writer *w;
	struct query_table *t;
	struct query *q;
	struct err err = { 0 };
	char dir[64], text[40];
	uint32_t event, set, stack;
	const struct store_totals none = { 0 };
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .labels = QUERY_TOTALS };
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	for (size_t i = 0; i < WINDOWS; i++) {
		assert_int_equal(store_add_event(w, &events[FAULTS], &event), 0);
		assert_int_equal(model_put_stack(w, "main (/bin/demo) 0 0\n", &stack), 0);
		for (int k = 0; k < IDS; k++) {
			snprintf(text, sizeof(text), "query_id=%d\n", (k - 3) * 1000000);
			assert_int_equal(model_put_set(w, text, &set), 0);
			assert_int_equal(store_add_row(w, set, stack, event, (uint64_t)k + 1, 7),
					 0);
		}
		const int64_t t0 = T0 + (int64_t)i * WINDOW;
		assert_int_equal(store_commit_window(w, t0, t0 + WINDOW, t0 - T0 + 1, &none, &err),
				 0);
	}
	store_writer_close(w);
	struct store *s = open_store(dir);
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	assert_true(query_top_serves(q, "query_id"));
	assert_int_equal(query_top(q, "query_id", &t, &err), 0);
	assert_int_equal(t->n_rows, IDS);
	for (int k = 0; k < IDS; k++) {
		snprintf(text, sizeof(text), "%d", (IDS - 1 - k - 3) * 1000000);
		assert_string_equal(t->rows[k].values[0], text);
		assert_string_equal(t->rows[k].text, text);
		assert_int_equal(t->rows[k].samples, (IDS - k) * WINDOWS);
	}
	query_table_free(t);
	query_close(q);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows),		cmocka_unit_test(from_parents),
		cmocka_unit_test(which_serve),	cmocka_unit_test(table),
		cmocka_unit_test(series),	cmocka_unit_test(all_with_the_key),
		cmocka_unit_test(a_rare_value), cmocka_unit_test(numbers),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
