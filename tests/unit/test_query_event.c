/* SPDX-License-Identifier: Apache-2.0 */
/* What a question sums: one event, or a metric of several, against sums of the rows. */
#include "unit/store_model.h"

#include "query/query.h"
#include "store/writer.h"

#define EVENTS 8
#define ROWS 300
#define CLOCK_NS 1000000

/* A store of record --wall --waker. */
static const struct store_event events[EVENTS] = {
	{ "cpu-clock", "nanoseconds", CLOCK_NS, CLOCK_NS },
	{ "off-cpu", "nanoseconds", 0, 0 },
	{ "runq", "nanoseconds", 0, 0 },
	{ "blame", "nanoseconds", 0, 0 },
	{ "waker", "nanoseconds", 0, 0 },
	{ "waker.idle", "nanoseconds", 0, 0 },
	{ "off-cpu.lengths", "nanoseconds", 0, 0 },
	{ "cycles", "cycles", 0, 100000 },
};

/* What was put in, by event; runs of a row's set are t0 to t2. */
static uint64_t samples[EVENTS][3], values[EVENTS][3];

static struct store *make_store(const char *dir)
{
	struct model m = { .random = 11 };
	struct store_writer *w;
	struct store *s;
	struct err err = { 0 };
	uint32_t id[EVENTS];
	memset(samples, 0, sizeof(samples));
	memset(values, 0, sizeof(values));
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	for (unsigned e = 0; e < EVENTS; e++)
		assert_int_equal(store_add_event(w, &events[e], &id[e]), 0);
	for (unsigned i = 0; i < ROWS; i++) {
		uint32_t e = model_random(&m, EVENTS), t = model_random(&m, 3),
			 n = 1 + model_random(&m, 9), ns = 1 + model_random(&m, 1000000), set,
			 stack;
		char text[40];
		snprintf(text, sizeof(text), "tenant=t%u\n", t);
		assert_int_equal(model_put_set(w, text, &set), 0);
		assert_int_equal(model_put_stack(w,
						 i % 2 ? "main (a)1\nwork (a)1\n" : "main (a)1\n",
						 &stack),
				 0);
		assert_int_equal(store_add_row(w, set, stack, id[e], n, ns), 0);
		samples[e][t] += n;
		values[e][t] += ns;
	}
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	return s;
}

static uint64_t answer(struct store *s, const char *event, enum query_metric metric,
		       const char *where)
{
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .labels = QUERY_ALL_LABELS,
					 .event = event,
					 .metric = metric,
					 .idle = true,
					 .where = where };
	struct query *q;
	struct err err = { 0 };
	uint64_t sum = 0;
	size_t n;
	if (query_open(&q, s, &spec, &err))
		fail_msg("%s", err.text);
	const struct store_row *rows = query_rows(q, &n);
	for (size_t i = 0; i < n; i++)
		sum += rows[i].samples;
	assert_int_equal(sum, query_info(q)->samples);
	query_close(q);
	return sum;
}

static uint64_t all(uint64_t of[EVENTS][3], unsigned e)
{
	return of[e][0] + of[e][1] + of[e][2];
}

static void test_metrics(void **state)
{
	(void)state;
	char dir[] = "/tmp/test_query_event.XXXXXX", path[64], command[80];
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	struct store *s = make_store(path);
	const uint64_t cpu = all(samples, 0) * CLOCK_NS, off = all(values, 1),
		       runq = all(values, 2);
	assert_int_equal(answer(s, NULL, QUERY_CPU, NULL), cpu);
	assert_int_equal(answer(s, NULL, QUERY_OFF, NULL), off);
	assert_int_equal(answer(s, NULL, QUERY_RUNQ, NULL), runq);
	assert_int_equal(answer(s, NULL, QUERY_WALL, NULL), cpu + off + runq);
	assert_int_equal(answer(s, NULL, QUERY_BLAME, NULL), all(values, 3));
	assert_int_equal(answer(s, NULL, QUERY_WAKER, NULL), all(values, 4) + all(values, 5));
	assert_int_equal(answer(s, NULL, QUERY_CPU, "tenant=\"t1\""), samples[0][1] * CLOCK_NS);
	assert_int_equal(answer(s, NULL, QUERY_WALL, "tenant=\"t2\""),
			 samples[0][2] * CLOCK_NS + values[1][2] + values[2][2]);
	assert_int_equal(answer(s, NULL, QUERY_SAMPLES, NULL), all(samples, 0));
	for (unsigned e = 0; e < EVENTS; e++)
		assert_int_equal(answer(s, events[e].name, QUERY_SAMPLES, NULL), all(samples, e));
	assert_int_equal(answer(s, NULL, QUERY_SAMPLES, "event=\"cycles\""), all(samples, 7));
	assert_string_equal(query_cpu_event(s), "cpu-clock");
	store_close(s);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

static void test_names(void **state)
{
	(void)state;
	static const char *const names[] = { "cpu", "off", "runq", "wall", "blame", "waker" };
	enum query_metric metric = QUERY_WALL;
	assert_int_equal(query_metric_named(NULL, &metric), 0);
	assert_int_equal(metric, QUERY_SAMPLES);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(query_metric_named(names[i], &metric), 0);
		assert_int_equal(metric, QUERY_CPU + i);
	}
	assert_int_equal(query_metric_named("off-cpu", &metric), -EINVAL);
	assert_int_equal(query_metric_named("", &metric), -EINVAL);
	for (unsigned e = 0; e < EVENTS; e++) {
		bool of_time = e == 3 || e == 5 || e == 6;
		assert_int_equal(query_is_profile(&events[e]), !of_time);
		assert_int_equal(query_counts_samples(&events[e]), !of_time && e != 4);
	}
	const struct store_event own = { .name = "ascribe_drain" };
	assert_false(query_is_profile(&own));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
