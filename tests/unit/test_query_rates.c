/* SPDX-License-Identifier: Apache-2.0 */
/* Queries over one event at two rates: in which samples they count. */
#include "unit/store_model.h"

#include "query/query.h"
#include "query/series.h"
#include "store/writer.h"

#include <math.h>

#define RATES_ROWS 400

static const struct store_event rates[] = { { "clock", "nanoseconds", 10000000, 10000000 },
					    { "clock", "nanoseconds", 30000000, 30000000 } };

/*
 * Windows 0 and 1 are of the higher rate, 2 of both, 3 of the lower one: what was put in, by set.
 * In window 2 tenant t0 has the higher rate alone.
 */
static struct store *store_of_rates(const char *dir, uint64_t ns[4][5])
{
	struct model m = { .random = 7 };
	struct store_writer *w;
	struct store *s;
	struct err err = { 0 };
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	for (size_t i = 0; i < 4; i++) {
		for (size_t k = 0; k < RATES_ROWS; k++) {
			uint32_t tenant = model_random(&m, 5),
				 rate = i < 2	 ? 0
					: i == 3 ? 1
						 : tenant && model_random(&m, 2),
				 n = 1 + model_random(&m, 3), event, set, stack;
			char text[40], *at = model_draw_stack(&m);
			if (!strncmp(at, "[idle]", 6))
				*at = 0;
			snprintf(text, sizeof(text), "tenant=t%u\n", tenant);
			assert_int_equal(store_add_event(w, &rates[rate], &event), 0);
			assert_int_equal(model_put_set(w, text, &set), 0);
			assert_int_equal(model_put_stack(w, at, &stack), 0);
			assert_int_equal(
				store_add_row(w, set, stack, event, n, n * rates[rate].period), 0);
			ns[i][tenant] += n * rates[rate].ns_per_sample;
			free(at);
		}
		assert_int_equal(model_commit_at(w, i, &err), 0);
	}
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	return s;
}

/* Windows [from, to), in samples of `each` nanoseconds. */
static void check_rates(struct store *s, uint64_t ns[4][5], size_t from, size_t to, uint64_t asked,
			uint64_t each)
{
	static const char *const tenant[] = { "tenant" };
	uint64_t want[5] = { 0 }, all = 0;
	for (size_t i = from; i < to; i++)
		for (size_t k = 0; k < 5; k++) {
			want[k] += ns[i][k];
			all += ns[i][k];
		}
	for (int kind = QUERY_ALL_LABELS; kind <= QUERY_KEYS_STACKS; kind++) {
		const int64_t t0 = 1700000000000000000, window = 10000000000;
		const struct query_spec spec = { .from_ns = t0 + (int64_t)from * window,
						 .to_ns = t0 + (int64_t)to * window,
						 .labels = (enum query_labels)kind,
						 .keys = tenant,
						 .n_keys = 1,
						 .event = "clock",
						 .ns_per_sample = asked };
		struct query *q;
		struct query_table *t;
		struct err err = { 0 };
		uint64_t sum = 0;
		size_t n;
		assert_int_equal(query_open(&q, s, &spec, &err), 0);
		assert_int_equal(query_info(q)->event->ns_per_sample, each);
		assert_true(fabs(query_info(q)->seconds - (double)all / 1e9) <= (double)each / 1e9);
		const struct store_row *rows = query_rows(q, &n);
		for (size_t i = 0; i < n; i++) {
			sum += rows[i].samples;
			assert_int_equal(rows[i].event, each == 30000000); /* that it counts in */
		}
		assert_int_equal(sum, query_info(q)->samples);
		assert_int_equal(sum, (all + each / 2) / each);
		if (kind == QUERY_KEYS) {
			assert_int_equal(query_table(q, tenant, 1, &t, &err), 0);
			assert_int_equal(t->n_rows, 5);
			for (size_t i = 0; i < 5; i++) {
				double exact =
					(double)want[t->rows[i].values[0][1] - '0'] / (double)each;
				assert_true(fabs((double)t->rows[i].samples - exact) <= 1);
			}
			query_table_free(t);
		}
		query_close(q);
	}
}

/* What is not in the answer does not make its unit coarser. */
static void check_fast_alone(struct store *s, uint64_t ns[4][5])
{
	for (int kind = QUERY_ALL_LABELS; kind <= QUERY_KEYS_STACKS; kind++) {
		static const char *const tenant[] = { "tenant" };
		const struct query_spec spec = { .from_ns = 1700000020000000000,
						 .to_ns = 1700000030000000000,
						 .where = "{tenant=\"t0\"}",
						 .labels = (enum query_labels)kind,
						 .keys = tenant,
						 .n_keys = 1,
						 .event = "clock" };
		struct query *q;
		struct err err = { 0 };
		assert_int_equal(query_open(&q, s, &spec, &err), 0);
		assert_int_equal(query_info(q)->event->ns_per_sample, 10000000);
		assert_int_equal(query_info(q)->samples, ns[2][0] / 10000000);
		query_close(q);
	}
}

static void two_rates(void **state)
{
	(void)state;
	char dir[64];
	uint64_t ns[4][5] = { 0 };
	struct store *s = store_of_rates(temp_dir(dir), ns);
	check_rates(s, ns, 0, 2, 0, 10000000); /* one rate alone is as it is */
	check_rates(s, ns, 3, 4, 0, 30000000);
	check_rates(s, ns, 0, 4, 0, 30000000);
	check_rates(s, ns, 2, 3, 0, 30000000);
	check_rates(s, ns, 3, 4, 10000000, 10000000); /* a step of a longer range */
	check_fast_alone(s, ns);
	store_close(s);
	remove_tree(dir);
}

#define WIDE_WINDOWS 120
#define WIDE_FAST 60  /* the first ones, of the higher rate alone: a parent and more */
#define WIDE_VALUES 8 /* more than model_options.wide_values */

static void write_wide(const char *dir)
{
	struct store_writer *w;
	struct err err = { 0 };
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	for (size_t i = 0; i < WIDE_WINDOWS; i++) {
		for (unsigned k = 0; k < WIDE_VALUES; k++) {
			const struct store_event *rate = &rates[i >= WIDE_FAST && k % 2];
			char text[40];
			uint32_t event, set;
			snprintf(text, sizeof(text), "tenant=t%u\n", k);
			assert_int_equal(store_add_event(w, rate, &event), 0);
			assert_int_equal(model_put_set(w, text, &set), 0);
			assert_int_equal(store_add_row(w, set, 0, event, 1, rate->period), 0);
		}
		assert_int_equal(model_commit_at(w, i, &err), 0);
	}
	store_writer_close(w);
}

/* The values of a wide key that blocks list are samples of one event: of one rate. */
static void top_lists(void **state)
{
	(void)state;
	static const char *const tenant[] = { "tenant" };
	const int64_t t0 = 1700000000000000000, window = 10000000000;
	char dir[64];
	struct store *s;
	struct err err = { 0 };
	write_wide(temp_dir(dir));
	assert_int_equal(store_open(&s, dir, &err), 0);
	for (int fast = 0; fast < 2; fast++) {
		const struct query_spec spec = {
			.from_ns = t0,
			.to_ns = t0 + window * (fast ? WIDE_FAST : WIDE_WINDOWS),
			.labels = QUERY_KEYS,
			.keys = tenant,
			.n_keys = 1,
			.event = "clock",
		};
		struct query *q;
		assert_int_equal(query_open(&q, s, &spec, &err), 0);
		assert_int_equal(query_top_serves(q, "tenant"), fast);
		query_close(q);
		if (fast)
			continue;
		/* A series goes on without the lists: each value has its time, at either rate */
		const struct query_series_spec of = {
			.range = spec, .keys = tenant, .n_keys = 1, .step_ns = WIDE_FAST * window
		};
		struct query_series *series;
		uint64_t samples = 0;
		assert_int_equal(query_series(&series, s, &of, &err), 0);
		assert_int_equal(series->n_rows, WIDE_VALUES);
		for (size_t i = 0; i < WIDE_VALUES; i++)
			samples += series->rows[i].samples;
		/* 60 of 10 ms each; then half of them of 30 ms, counted in these */
		const int64_t ms = WIDE_FAST * WIDE_VALUES * 10 +
				   (WIDE_WINDOWS - WIDE_FAST) * WIDE_VALUES * 20,
			      off = (int64_t)samples - ms / 30;
		assert_true(llabs(off) <= (int64_t)series->n_steps); /* each is rounded */
		query_series_free(series);
	}
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(two_rates),
					    cmocka_unit_test(top_lists) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
