/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a wide key from what blocks above the windows keep of it, beside sums of the rows. */
#include "unit/store_model.h"

#include "query/values.h"

#define T0 (1700000000ll / 3600 * 3600 * 1000000000)
#define WINDOW 10000000000ll
#define WINDOWS 60
#define TENANTS 12 /* more than a narrow key has; the last one: without the label */
#define PERIOD 1000

static const struct store_event events[2] = { { "page-faults", "count", 0, 7 },
					      { "cpu-clock", "nanoseconds", PERIOD, PERIOD } };

struct given {
	char dir[64];
	struct store *s;
	uint64_t samples[WINDOWS][TENANTS], idle;
};

static void add(struct store_writer *w, uint32_t event, unsigned tenant, bool idle, uint64_t n)
{
	uint32_t id = 0, set, stack;
	char labels[60];
	for (unsigned e = 0; e < 2; e++)
		assert_int_equal(store_add_event(w, &events[e], &id), 0);
	snprintf(labels, sizeof(labels),
		 tenant == TENANTS - 1 ? "comm=sh\n" : "comm=sh\ntenant=t%u\n", tenant);
	assert_int_equal(model_put_set(w, labels, &set), 0);
	assert_int_equal(
		model_put_stack(w, idle ? "[idle] () 2 0\n" : "main (/bin/demo) 0 0\n", &stack), 0);
	assert_int_equal(store_add_row(w, set, stack, event, n, n * events[event].period), 0);
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
				add(w, 1, t, false, n);
			add(w, 0, t, false, 1 + model_random(&m, 5));
		}
		add(w, 1, TENANTS - 1, true, 5);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows),
		cmocka_unit_test(from_parents),
		cmocka_unit_test(table),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
