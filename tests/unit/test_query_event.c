/* SPDX-License-Identifier: Apache-2.0 */
/* What a question sums: one event, or a metric of several, against sums of the rows. */
#include "unit/store_model.h"

#include "query/query.h"
#include "store/writer.h"

#define EVENTS 14
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
	{ "latency", "nanoseconds", 0, 0 },
	{ "latency.off", "nanoseconds", 0, 0 },
	{ "inuse_space", "byte-seconds", 0, 1 },
	{ "alloc_space", "bytes", 0, 1 },
	{ "alloc_objects", "bytes", 0, 1 }, /* of another unit: of somebody else's */
	{ "usdt:pool:wait", "microseconds", 0, 0 },
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

/* What a sample of an answer is, and how much was sampled for it. */
static void units(struct store *s)
{
	static const struct {
		const char *event;
		enum query_metric metric;
		const char *counts, *name;
		bool amounts, values;
		uint64_t grain;
	} want[] = {
		{ "cpu-clock", QUERY_SAMPLES, "samples", "cpu-clock", false, false, 1 },
		{ "cycles", QUERY_SAMPLES, "samples", "cycles", false, false, 1 },
		{ "alloc_space", QUERY_SAMPLES, "bytes", "alloc_space", false, false, 0 },
		{ "usdt:pool:wait", QUERY_SAMPLES, "samples", "usdt:pool:wait", false, true, 0 },
		{ "usdt:pool:wait", QUERY_VALUE, "microseconds", "usdt:pool:wait", true, false, 0 },
		{ "cycles", QUERY_VALUE, "cycles", "cycles", true, false, 100000 },
		{ NULL, QUERY_CPU, "nanoseconds", "cpu", true, false, CLOCK_NS },
		{ NULL, QUERY_WALL, "nanoseconds", "wall", true, false, CLOCK_NS },
		{ NULL, QUERY_OFF, "nanoseconds", "off-cpu", true, false, 0 },
		{ NULL, QUERY_LATENCY, "nanoseconds", "latency", true, false, CLOCK_NS },
		{ NULL, QUERY_ALLOC_SPACE, "bytes", "alloc_space", true, false, QUERY_HEAP_MEAN },
		{ NULL, QUERY_INUSE_SPACE, "bytes", "inuse_space", true, false, QUERY_HEAP_MEAN },
	};
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		const struct query_spec spec = { .from_ns = INT64_MIN,
						 .to_ns = INT64_MAX,
						 .event = want[i].event,
						 .metric = want[i].metric };
		struct query *q;
		struct err err = { 0 };
		assert_int_equal(query_open(&q, s, &spec, &err), 0);
		const struct query_info *info = query_info(q);
		assert_string_equal(query_counts(info), want[i].counts);
		assert_string_equal(info->event->name, want[i].name);
		assert_int_equal(info->amounts, want[i].amounts);
		if (info->amounts)
			assert_int_equal(info->event->period, 1);
		assert_int_equal(query_has_values(info), want[i].values);
		assert_int_equal(info->grain, want[i].grain);
		query_close(q);
	}
}

static void refuse(struct store *s, const char *event, enum query_metric metric, const char *text)
{
	const struct query_spec spec = {
		.from_ns = INT64_MIN, .to_ns = INT64_MAX, .event = event, .metric = metric
	};
	struct query *q = NULL;
	struct err err = { 0 };
	assert_int_equal(query_open(&q, s, &spec, &err), -EINVAL);
	assert_non_null(strstr(err.text, text));
	assert_null(q);
}

/* Classes of waits are known of blocked time alone, not of time beside it. */
static void classes(struct store *s)
{
	static const char *const keys[] = { "wait" };
	static const enum query_metric metrics[] = { QUERY_OFF, QUERY_WALL, QUERY_RUNQ };
	for (size_t i = 0; i < 3; i++) {
		const struct query_spec spec = { .from_ns = INT64_MIN,
						 .to_ns = INT64_MAX,
						 .metric = metrics[i],
						 .labels = QUERY_KEYS,
						 .keys = keys,
						 .n_keys = 1 };
		struct query_table *t = NULL;
		struct query *q = NULL;
		struct err err = { 0 };
		int rc = query_open(&q, s, &spec, &err);
		rc = rc ? rc : query_table(q, keys, 1, &t, &err);
		assert_int_equal(rc, metrics[i] == QUERY_OFF ? 0 : -EINVAL);
		if (t)
			assert_true(t->n_rows > 0 && t->rows[0].present[0]);
		query_table_free(t);
		query_close(q);
	}
}

static void refused(struct store *s)
{
	refuse(s, NULL, QUERY_INUSE_OBJECTS, "-e heap");
	refuse(s, NULL, QUERY_ALLOC_OBJECTS, "no alloc_objects in the store");
	refuse(s, "cpu-clock", QUERY_VALUE, "--metric cpu");
	refuse(s, "instructions", QUERY_SAMPLES, "instructions");
	refuse(s, "instructions", QUERY_VALUE, "instructions");
}

/* A store without waits says what to record with. */
static void test_no_waits(void **state)
{
	(void)state;
	struct fixture *f = fixture_of(3, 1, 5);
	void *own = f;
	refuse(f->s, NULL, QUERY_OFF, "record with --wall");
	refuse(f->s, NULL, QUERY_WALL, "no wall times in the store: record with --wall");
	refuse(f->s, NULL, QUERY_ALLOC_SPACE, "-e heap");
	assert_int_equal(answer(f->s, NULL, QUERY_CPU, NULL) % 10101010, 0);
	/* Who may see a part is not told the names of other events */
	struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX, .event = "none" };
	struct query *q = NULL;
	struct err err = { 0 };
	store_set_scope(f->s, "{tenant=\"t1\"}");
	assert_int_equal(query_open(&q, f->s, &spec, &err), -EINVAL);
	assert_string_equal(err.text, "no event none in the store");
	store_set_scope(f->s, NULL);
	assert_int_equal(query_open(&q, f->s, &spec, &err), -EINVAL);
	assert_string_equal(err.text, "no event none in the store, it has: cpu-clock, page-faults, "
				      "task-clock");
	refuse(f->s, NULL, QUERY_WAKER, "--wall --waker");
	refuse(f->s, NULL, QUERY_LATENCY, "--latency KEY");
	fixture_teardown(&own);
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
	assert_int_equal(answer(s, NULL, QUERY_LATENCY, NULL), all(values, 8) + all(values, 9));
	assert_int_equal(answer(s, NULL, QUERY_ALLOC_SPACE, NULL), all(values, 11));
	/* An average of the 10 s that were covered */
	assert_int_equal(answer(s, NULL, QUERY_INUSE_SPACE, NULL), (all(values, 10) + 5) / 10);
	assert_int_equal(answer(s, "usdt:pool:wait", QUERY_VALUE, NULL), all(values, 13));
	assert_int_equal(answer(s, "cycles", QUERY_VALUE, "tenant=\"t0\""), values[7][0]);
	assert_string_equal(query_cpu_event(s), "cpu-clock");
	units(s);
	classes(s);
	refused(s);
	store_close(s);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

static void test_names(void **state)
{
	(void)state;
	static const char *const names[] = { "cpu",   "off",   "runq",	  "wall",
					     "blame", "waker", "latency", "value" };
	enum query_metric metric = QUERY_WALL;
	assert_int_equal(query_metric_named(NULL, &metric), 0);
	assert_int_equal(metric, QUERY_SAMPLES);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(query_metric_named(names[i], &metric), 0);
		assert_int_equal(metric, QUERY_CPU + i);
	}
	assert_int_equal(query_metric_named("heap", &metric), 0);
	assert_int_equal(metric, QUERY_INUSE_SPACE);
	assert_int_equal(query_metric_named("alloc_space", &metric), 0);
	assert_int_equal(metric, QUERY_ALLOC_SPACE);
	assert_int_equal(query_metric_named("inuse_objects", &metric), 0);
	assert_int_equal(metric, QUERY_INUSE_OBJECTS);
	assert_int_equal(query_metric_named("inuse_space", &metric), 0);
	assert_int_equal(metric, QUERY_INUSE_SPACE);
	assert_int_equal(query_metric_named("alloc_objects", &metric), 0);
	assert_int_equal(metric, QUERY_ALLOC_OBJECTS);
	assert_int_equal(query_metric_named("off-cpu", &metric), -EINVAL);
	assert_int_equal(query_metric_named("", &metric), -EINVAL);
	for (unsigned e = 0; e < EVENTS; e++) {
		bool of_time = e == 3 || e == 5 || e == 6 || e == 9 || e == 10 || e == 12;
		assert_int_equal(query_is_profile(&events[e]), !of_time);
		assert_int_equal(query_counts_samples(&events[e]), !of_time && e != 4 && e != 8);
	}
	const struct store_event own = { .name = "ascribe_drain" };
	assert_false(query_is_profile(&own));
}

/* Events of other programs and probes: what was sampled of them, and what a sample is called. */
static void test_others(void **state)
{
	static const struct {
		struct store_event event;
		const char *counts;
		uint64_t grain; /* of its samples */
		uint64_t value_grain;
	} v[] = {
		{ { "uprobe:/bin/x:f", "count", 0, 7 }, "samples", 0, 0 },
		{ { "uretprobe:/bin/x:f", "nanoseconds", 0, 0 }, "samples", 0, 0 },
		{ { "usdt:x:y", "count", 0, 2 }, "samples", 0, 0 },
		{ { "uprob:/bin/x:f", "count", 0, 7 }, "samples", 1, 7 },
		{ { "objects", "objects", 0, 1 }, "objects", 0, 0 },
		{ { "pages", "pages", 0, 1 }, "samples", 0, 0 },
		{ { "many", "bytes", 0, 2 }, "samples", 1, 2 },
		{ { "ticks", "bytes", 5, 1 }, "samples", 1, 0 },
		{ { "time", "nanoseconds", 1, 1 }, "nanoseconds", 1, 0 },
	};
	enum { N = sizeof(v) / sizeof(v[0]) };
	struct store_writer *w;
	struct err err = { 0 };
	uint32_t id;
	char dir[64];
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(store_add_event(w, &v[i].event, &id), 0);
		assert_int_equal(store_add_row(w, 0, 0, id, 3, 30), 0);
	}
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	for (size_t i = 0; i < N; i++)
		for (int sums = 0; sums <= !v[i].event.ns_per_sample; sums++) {
			const struct query_spec spec = { .from_ns = INT64_MIN,
							 .to_ns = INT64_MAX,
							 .event = v[i].event.name,
							 .metric = sums ? QUERY_VALUE
									: QUERY_SAMPLES };
			struct query *q;
			assert_int_equal(query_open(&q, s, &spec, &err), 0);
			const struct query_info *info = query_info(q);
			assert_int_equal(info->grain, sums ? v[i].value_grain : v[i].grain);
			assert_int_equal(info->samples, sums ? 30 : 3);
			assert_int_equal(info->value, 30);
			assert_string_equal(query_counts(info),
					    sums ? v[i].event.unit : v[i].counts);
			assert_int_equal(info->event->ns_per_sample,
					 sums ? !strcmp(v[i].event.unit, "nanoseconds")
					      : v[i].event.ns_per_sample);
			assert_int_equal(query_has_values(info),
					 !sums && !v[i].event.ns_per_sample && !v[i].event.period);
			query_close(q);
		}
	assert_string_equal(query_cpu_event(s), "ticks");
	store_close(s);
	remove_tree(dir);
	assert_string_equal(query_counts(&(struct query_info){ 0 }), "samples");
	assert_false(query_has_values(&(struct query_info){ 0 }));
	/* Lengths are of another event: ".lengths" is of none */
	static const char *const
		profiles[] = { ".lengths",   "lengths",	    "a.length", "ascribe",
			       "a_ascribe_", "alloc_space", "waker",	"latency" },
		*const parts[] = { "a.lengths",	  "ab.lengths", "ascribe_",	"inuse_objects",
				   "inuse_space", "blame",	"alloc_objects" };
	for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++)
		assert_true(query_is_profile(&(struct store_event){ .name = profiles[i] }));
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		assert_false(query_is_profile(&(struct store_event){ .name = parts[i] }));
}

/* Allocations that are sampled more rarely: one metric with the others, as sure as the rarest. */
static void test_rare(void **state)
{
	static const struct store_event of[] = {
		{ "alloc_space", "bytes", 0, 0 },
		{ "alloc_space", "bytes", 0, 4 << 20 },
		{ "inuse_space", "byte-seconds", 0, 2 << 20 },
		{ "inuse_space", "byte-seconds", 0, 0 },
		{ "alloc_space", "count", 0, 8 << 20 }, /* of somebody else's */
	};
	static const struct {
		enum query_metric metric;
		const char *event, *where;
		uint64_t sum, grain;
	} want[] = {
		{ QUERY_ALLOC_SPACE, NULL, NULL, 300, 4 << 20 },
		{ QUERY_ALLOC_SPACE, NULL, "tenant=\"t0\"", 100, QUERY_HEAP_MEAN },
		{ QUERY_ALLOC_SPACE, NULL, "tenant=\"t1\"", 200, 4 << 20 },
		{ QUERY_SAMPLES, "alloc_space", NULL, 6, 1 },
		{ QUERY_VALUE, "alloc_space", NULL, 300, 0 },
		{ QUERY_INUSE_SPACE, NULL, NULL, 70, 2 << 20 }, /* on average of 10 s */
		{ QUERY_INUSE_SPACE, NULL, "tenant=\"t1\"", 40, QUERY_HEAP_MEAN },
	};
	struct store_writer *w;
	struct err err = { 0 };
	uint32_t id, set;
	char dir[64], text[] = "tenant=t0\n";
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		text[8] = (char)('0' + i % 2);
		assert_int_equal(store_add_event(w, &of[i], &id), 0);
		assert_int_equal(model_put_set(w, text, &set), 0);
		assert_int_equal(store_add_row(w, set, 0, id, 3, 100 * (i + 1)), 0);
	}
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		const struct query_spec spec = { .from_ns = INT64_MIN,
						 .to_ns = INT64_MAX,
						 .event = want[i].event,
						 .where = want[i].where,
						 .metric = want[i].metric };
		struct query *q;
		assert_int_equal(query_open(&q, s, &spec, &err), 0);
		assert_int_equal(query_info(q)->samples, want[i].sum);
		assert_int_equal(query_info(q)->grain, want[i].grain);
		query_close(q);
	}
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_metrics),	 cmocka_unit_test(test_names),
		cmocka_unit_test(test_no_waits), cmocka_unit_test(test_others),
		cmocka_unit_test(test_rare),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
