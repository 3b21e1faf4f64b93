/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings of a host that was made: what was put into it, and nothing else. Two days of windows; in
 * the last quarter of an hour one service grows, one has a burst, one waits, one goes away.
 */
#include "unit/store_model.h"

#include "query/findings.h"
#include "query/findings_int.h"
#include "query/selector.h"
#include "store/writer.h"

#include <math.h>

#define SECOND 1000000000ll
#define WINDOW (10 * SECOND)
#define END (1700000000000000000ll / WINDOW * WINDOW)
#define FROM (END - 900 * SECOND)
#define DAY (86400 * SECOND)
#define CPUS 2
#define NS_PER_SAMPLE 10101010ll

static const struct store_event events[] = {
	{ "cpu-clock", "nanoseconds", NS_PER_SAMPLE, NS_PER_SAMPLE },
	{ "runq", "nanoseconds", 0, 0 },
	{ "off-cpu", "nanoseconds", 0, 0 },
	{ "waker", "nanoseconds", 0, 0 },
};
enum { CPU, RUNQ, OFF, WAKER, EVENTS };

static const char *const flags[] = { "waits_saved" };
static char dir[64];

struct host {
	struct store_writer *w;
	uint32_t event[EVENTS];
	int64_t t;
	double used; /* CPUs */
	bool day;    /* the day before */
	bool usual;  /* that day, too, the service grew */
	bool saved;  /* waits are given up after 100 s, until the last 300 s */
	bool ids;    /* a database has new query ids in each window, and one that grows */
	bool full;   /* all CPUs are busy in the last 300 s */
};

static uint32_t push(struct host *h, uint32_t below, const char *function, const char *module,
		     const char *build)
{
	struct store_frame f = { .kind = FRAME_USER };
	uint32_t frame, stack;
	assert_int_equal(store_add_string(h->w, function, strlen(function), &f.function), 0);
	assert_int_equal(store_add_string(h->w, module, strlen(module), &f.module), 0);
	assert_int_equal(store_add_string(h->w, build, strlen(build), &f.build_id), 0);
	assert_int_equal(store_add_frame(h->w, &f, &frame), 0);
	assert_int_equal(store_add_stack(h->w, below, frame, &stack), 0);
	return stack;
}

static double noisy(double rate)
{
	double sum = 0;
	for (int i = 0; i < 12; i++)
		sum += drand48();
	return fmax(0, rate * (1 + (sum - 6) * 0.08));
}

/* What rows have beside their service. */
struct more {
	const char *tenant, *database, *parent, *waker, *query_id;
	bool lock; /* below the function, a mutex */
	const char *build;
};

/* Seconds per second of an event in this window. */
static void put(struct host *h, int event, const char *service, const char *function, double rate,
		const struct more *more)
{
	const char *const keys[] = { "service", "tenant",  "database",
				     "parent",	"by.comm", "query_id" },
			  *const values[] = { service,	    more->tenant, more->database,
					      more->parent, more->waker,  more->query_id };
	struct label labels[6];
	size_t n = 0;
	for (size_t i = 0; i < 6; i++)
		if (values[i])
			labels[n++] = (struct label){ .key = keys[i],
						      .key_len = (uint32_t)strlen(keys[i]),
						      .str = values[i],
						      .str_len = (uint32_t)strlen(values[i]),
						      .type = LABEL_STRING };
	double s = noisy(rate) * 10;
	uint64_t samples = event == CPU ? (uint64_t)(s * 1e9 / NS_PER_SAMPLE) : 100;
	char module[64];
	uint32_t set;
	if (!samples || rate <= 0)
		return;
	if (event == CPU)
		h->used += s / 10;
	snprintf(module, sizeof(module), "/usr/bin/%s", service);
	uint32_t stack = push(h, 0, function, module, more->build ? more->build : "aa");
	if (more->lock)
		stack = push(h, stack, "pthread_mutex_lock", "/usr/lib/libc.so.6", "cc");
	assert_int_equal(store_add_set(h->w, labels, n, &set), 0);
	assert_int_equal(
		store_add_row(h->w, set, stack, h->event[event], samples,
			      event == CPU ? samples * NS_PER_SAMPLE : (uint64_t)(s * 1e9)),
		0);
}

/* Threads wait for a mutex: each is woken by another that waited, but for one function's. */
static void convoy(struct host *h, double threads)
{
	const struct more lock = { .lock = true }, waker = { .waker = "cache" };
	put(h, OFF, "cache", "cache_get", threads, &lock);
	put(h, OFF, "cache", "cache_refresh", 0.02 * threads, &lock);
	put(h, WAKER, "cache", "cache_get", 0.85 * threads, &waker);
	put(h, WAKER, "cache", "cache_refresh", 0.15 * threads, &waker);
	put(h, WAKER, "cache", "[no stack]", 0.3, &waker);
}

#define IDS 40	/* of each window */
#define WIDE 64 /* values that make a key wide here */

static void queries(struct host *h, bool late)
{
	char id[32];
	for (int i = 0; i < IDS; i++) {
		snprintf(id, sizeof(id), "%lld-%d", (long long)(h->t / WINDOW), i);
		put(h, CPU, "db", "exec", 0.005, &(struct more){ .query_id = id });
	}
	put(h, CPU, "db", late ? "sort" : "exec", late ? 0.4 : 0.01,
	    &(struct more){ .query_id = "slow" });
}

static void window(struct host *h)
{
	bool late = !h->day && h->t >= END - 300 * SECOND,
	     burst = h->t >= END - 600 * SECOND && h->t < END - 580 * SECOND;
	bool recent = !h->day && h->t >= FROM;
	h->used = 0;
	const struct more none = { 0 }, a = { .tenant = "a" },
			  b = { .tenant = "b", .database = "shop", .build = recent ? "bb" : "aa" },
			  cron = { .parent = "nightly.sh" };
	bool reports = late || (h->day && h->usual);
	put(h, CPU, "steady", "serve", 0.3, &none);
	put(h, CPU, "web", "render", 0.1, &a);
	put(h, CPU, "web", reports ? "render_report" : "render", reports ? 0.8 : 0.1, &b);
	put(h, CPU, "cron", "compress", !h->day && burst ? 0.7 : 0, &cron);
	put(h, CPU, "leaver", "work", late ? 0 : 0.2, &none);
	put(h, CPU, "tiny", "work", late ? 0.02 : 0.002, &none);
	const double hog = !h->full ? 0 : late ? 1.6 : 0.25;
	put(h, CPU, "hog", "spin", hog, &(struct more){ .parent = "launcher" });
	bool saved = h->saved && h->t >= FROM - 800 * SECOND && h->t < END - 300 * SECOND;
	put(h, RUNQ, "steady", "serve", saved ? 0 : late ? 0.6 : 0.01, &none);
	put(h, RUNQ, "tiny", "work", saved ? 0 : late ? 0.3 : 0.01, &none);
	put(h, OFF, "steady", "serve", saved ? 0 : 2, &none);
	if (h->ids)
		queries(h, late);
	put(h, OFF, "newcomer", "serve", late ? 2 : 0, &none);
	convoy(h, saved ? 0 : !h->day && burst ? 5 : 0.01);
	uint64_t lost[2] = { 0 }, flagged[1] = { saved ? 990 : 0 };
	struct store_cpu_totals cpu[CPUS] = { { 0, 990, 990, lost, flagged },
					      { 1, 990, 990, lost, flagged } };
	struct store_totals t = { cpu, CPUS, 0, 0, 0 };
	struct err err = { 0 };
	if (store_commit_window(h->w, h->t, h->t + WINDOW, h->t + WINDOW - (END - 2 * DAY), &t,
				&err))
		fail_msg("%s", err.text);
}

static struct findings *find(struct host h, bool before, struct store **ret)
{
	struct store_options o;
	struct findings *f = NULL;
	struct err err = { 0 };
	struct store_meta meta = model_meta;
	meta.flagged_names = flags;
	store_options_default(&o);
	o.wide_values = WIDE;
	temp_dir(dir);
	srand48(7);
	if (store_writer_open_with(&h.w, dir, &meta, &o, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < EVENTS; i++)
		assert_int_equal(store_add_event(h.w, &events[i], &h.event[i]), 0);
	h.day = true;
	for (h.t = FROM - 900 * SECOND - DAY; before && h.t < END - DAY; h.t += WINDOW)
		window(&h);
	h.day = false;
	for (h.t = before ? FROM - 900 * SECOND : FROM; h.t < END; h.t += WINDOW)
		window(&h);
	store_writer_close(h.w);
	if (store_open(ret, dir, &err))
		fail_msg("%s", err.text);
	struct findings_spec spec = { .from_ns = FROM, .to_ns = END };
	if (query_findings(&f, *ret, &spec, &err))
		fail_msg("%s", err.text);
	return f;
}

static void done(struct findings *f, struct store *s)
{
	query_findings_free(f);
	store_close(s);
	remove_tree(dir);
}

static const struct finding *of(const struct findings *f, enum finding_kind kind, const char *value)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].kind == kind && f->v[i].value && !strcmp(f->v[i].value, value))
			return &f->v[i];
	fail_msg("no finding '%s' of %s among %zu", finding_names[kind], value, f->n);
	return NULL;
}

static void what_happened_is_found(void **state)
{
	struct store *s;
	(void)state;
	struct findings *f = find((struct host){ 0 }, true, &s);
	const struct finding *b = of(f, FINDING_MORE, "b"), *cron = of(f, FINDING_BURST, "cron");
	assert_true(fabs(b->now - 0.8) < 0.1 && fabs(b->before - 0.1) < 0.05 &&
		    fabs(b->day - 0.1) < 0.05);
	assert_true(llabs(b->since_ns - (END - 300 * SECOND)) <= 2 * f->step_ns);
	assert_string_equal(b->function, "render_report");
	assert_true(fabs(b->function_now - 0.8) < 0.1 && b->function_before == 0);
	assert_false(b->usual);
	assert_true(llabs(cron->since_ns - (END - 600 * SECOND)) <= f->step_ns &&
		    cron->span_ns <= 30 * SECOND);
	assert_string_equal(cron->function, "compress");
	assert_true(fabs(cron->function_now - 0.7) < 0.2 && cron->function_before == 0);
	assert_string_equal(cron->parent, "nightly.sh");
	assert_null(b->parent);
	assert_true(isfinite(of(f, FINDING_RUNQ, "steady")->now));
	assert_true(of(f, FINDING_LESS, "leaver")->now < 0.01);
	assert_string_equal(of(f, FINDING_BUILD, "/usr/bin/web")->build[0], "bb");
	assert_string_equal(of(f, FINDING_BUILD, "/usr/bin/web")->build[1], "aa");
	assert_int_equal(f->n, 6); /* and no other */
	assert_int_equal(f->n_cpus, CPUS);
	assert_true(f->has_before && f->has_day && f->has_waits && !f->bounded);
	done(f, s);
}

static bool has_place(const struct finding *f, const char *key, const char *value)
{
	for (size_t i = 0; i < f->n_places; i++)
		if (!strcmp(f->places[i].key, key) && !strcmp(f->places[i].value, value))
			return true;
	return false;
}

/* The growth of tenant b is that of its database and of most of its service. */
static void a_cause_is_told_once(void **state)
{
	struct store *s;
	(void)state;
	struct findings *f = find((struct host){ 0 }, true, &s);
	const struct finding *b = of(f, FINDING_MORE, "b");
	assert_string_equal(b->key, "tenant"); /* which has more values than the database */
	assert_int_equal(b->n_places, 2);
	assert_string_equal(b->places[0].value, "web"); /* who it is comes first */
	assert_true(has_place(b, "database", "shop"));
	const struct finding *runq = of(f, FINDING_RUNQ, "steady");
	assert_int_equal(runq->n_places, 1);
	assert_true(has_place(runq, "service", "tiny"));
	done(f, s);
}

/* Thousands of ids an hour: the one that takes more than before is told, with its service. */
static void one_query_id_is_found(void **state)
{
	struct store *s;
	(void)state;
	struct findings *f = find((struct host){ .ids = true }, true, &s);
	const struct finding *slow = of(f, FINDING_MORE, "slow");
	assert_true(store_is_wide(s, "query_id"));
	assert_string_equal(slow->key, "query_id");
	assert_true(fabs(slow->now - 0.4) < 0.1 && fabs(slow->before - 0.01) < 0.01 &&
		    fabs(slow->day - 0.01) < 0.01);
	assert_string_equal(slow->function, "sort");
	assert_true(has_place(slow, "service", "db"));
	assert_int_equal(f->n, 7); /* one more than without ids */
	assert_false(f->bounded);
	done(f, s);
}

static void a_convoy_is_told(void **state)
{
	struct store *s;
	(void)state;
	struct findings *f = find((struct host){ 0 }, true, &s);
	const struct finding *lock = of(f, FINDING_OFF, "cache");
	assert_string_equal(lock->wait, "lock");
	assert_true(fabs(lock->now - 5.1) < 1 && lock->before < 0.1 &&
		    lock->span_ns <= 30 * SECOND);
	assert_string_equal(lock->function, "cache_get");
	assert_string_equal(lock->holder, "cache_refresh");
	assert_string_equal(lock->holder_comm, "cache");
	assert_true(lock < of(f, FINDING_RUNQ, "steady")); /* a cause */
	done(f, s);
}

/* Where waits were given up nobody waited less, so nobody waits longer afterwards. */
static void unmeasured_waits_are_no_change(void **state)
{
	struct store *s;
	(void)state;
	struct findings *f = find((struct host){ .saved = true }, true, &s);
	for (size_t i = 0; i < f->n; i++)
		assert_int_not_equal(f->v[i].kind, FINDING_OFF);
	assert_true(isfinite(of(f, FINDING_RUNQ, "steady")->now)); /* which did change */
	assert_true(llabs(f->without_waits_ns - 600 * SECOND) < SECOND);
	done(f, s);
}

static void what_is_usual_comes_last(void **state)
{
	struct store *s;
	(void)state;
	struct findings *f = find((struct host){ .usual = true }, true, &s);
	assert_true(of(f, FINDING_MORE, "b")->usual);
	assert_false(f->v[0].usual);
	assert_true(f->v[f->n - 1].usual || f->v[f->n - 1].kind == FINDING_LESS);
	done(f, s);
}

/* Who waits most for a CPU is named. Who grows, but was there before, is not by who started it. */
static void a_full_host_is_told(void **state)
{
	struct store *s;
	(void)state;
	struct findings *f = find((struct host){ .full = true }, true, &s);
	const struct finding *full = of(f, FINDING_SATURATED, "steady");
	assert_string_equal(full->key, "service");
	assert_true(llabs(full->since_ns - (END - 300 * SECOND)) <= f->step_ns);
	assert_true(llabs(full->span_ns - 300 * SECOND) <= 2 * f->step_ns);
	assert_true(full->now > full->before && full->before > 0.7);
	const struct finding *hog = of(f, FINDING_MORE, "hog");
	assert_null(hog->parent);
	assert_string_equal(hog->function, "spin");
	assert_true(fabs(hog->function_now - 1.6) < 0.3 && fabs(hog->function_before - 0.25) < 0.1);
	assert_true(full < hog); /* comes first */
	done(f, s);
}

static void a_range_alone_has_findings(void **state)
{
	struct store *s;
	(void)state;
	struct findings *f = find((struct host){ 0 }, false, &s);
	const struct finding *b = of(f, FINDING_MORE, "b");
	assert_true(isnan(b->day) && !f->has_before && !f->has_day);
	done(f, s);
}

/* A selector and one more label: with braces or without, whatever bytes a value has. */
static void selectors_of_values(void **state)
{
	static const char *const v[][4] = {
		{ NULL, "k", "v", "{\"k\"=\"v\"}" },
		{ "", "k", "v", "{\"k\"=\"v\"}" },
		{ " {} ", "k", "v", "{\"k\"=\"v\"}" },
		{ "{ }", "k", "v", "{\"k\"=\"v\"}" },
		{ "a=\"b\"", "k", "v", "{a=\"b\",\"k\"=\"v\"}" },
		{ " {a=\"b\"}", "k", "v", "{a=\"b\",\"k\"=\"v\"}" },
		{ "{a=\"}\"} ", "k", "v", "{a=\"}\",\"k\"=\"v\"}" },
		{ NULL, "a b", "\"\\\n", "{\"a b\"=\"\\x22\\x5c\\x0a\"}" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct selector *sel = NULL;
		struct err err = { 0 };
		char *text = findings_where(v[i][0], v[i][1], v[i][2]);
		assert_string_equal(text, v[i][3]);
		assert_int_equal(selector_parse(&sel, text, NULL, &err), 0);
		selector_free(sel);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_happened_is_found),
		cmocka_unit_test(a_cause_is_told_once),
		cmocka_unit_test(one_query_id_is_found),
		cmocka_unit_test(a_convoy_is_told),
		cmocka_unit_test(unmeasured_waits_are_no_change),
		cmocka_unit_test(what_is_usual_comes_last),
		cmocka_unit_test(a_full_host_is_told),
		cmocka_unit_test(a_range_alone_has_findings),
		cmocka_unit_test(selectors_of_values),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
