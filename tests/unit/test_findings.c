/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings of a host that was made: what was put into it, and nothing else. Two days of windows; in
 * the last quarter of an hour one service grows, one has a burst, one waits, one goes away.
 */
#include "unit/store_model.h"

#include "query/findings.h"

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
};
enum { CPU, RUNQ, OFF };

static char dir[64];

struct host {
	struct store_writer *w;
	uint32_t event[3];
	int64_t t;
	double used; /* CPUs */
	bool day;    /* the day before */
	bool usual;  /* that day, too, the service grew */
};

static uint32_t stack_of(struct host *h, const char *function, const char *module,
			 const char *build)
{
	struct store_frame f = { .kind = FRAME_USER };
	uint32_t frame, stack;
	assert_int_equal(store_add_string(h->w, function, strlen(function), &f.function), 0);
	assert_int_equal(store_add_string(h->w, module, strlen(module), &f.module), 0);
	assert_int_equal(store_add_string(h->w, build, strlen(build), &f.build_id), 0);
	assert_int_equal(store_add_frame(h->w, &f, &frame), 0);
	assert_int_equal(store_add_stack(h->w, 0, frame, &stack), 0);
	return stack;
}

static double noisy(double rate)
{
	double sum = 0;
	for (int i = 0; i < 12; i++)
		sum += drand48();
	return fmax(0, rate * (1 + (sum - 6) * 0.08));
}

/* Seconds per second of an event in this window. */
static void put(struct host *h, int event, const char *service, const char *tenant,
		const char *function, const char *build, double rate)
{
	struct label labels[] = {
		{ .key = "service",
		  .key_len = 7,
		  .str = service,
		  .str_len = (uint32_t)strlen(service),
		  .type = LABEL_STRING },
		{ .key = "tenant",
		  .key_len = 6,
		  .str = tenant,
		  .str_len = (uint32_t)strlen(tenant),
		  .type = LABEL_STRING },
	};
	double s = noisy(rate) * 10;
	uint64_t samples = event == CPU ? (uint64_t)(s * 1e9 / NS_PER_SAMPLE) : 100;
	char module[64];
	uint32_t set;
	if (!samples || rate <= 0)
		return;
	if (event == CPU)
		h->used += s / 10;
	snprintf(module, sizeof(module), "/usr/bin/%s", service);
	assert_int_equal(store_add_set(h->w, labels, *tenant ? 2 : 1, &set), 0);
	assert_int_equal(
		store_add_row(h->w, set, stack_of(h, function, module, build), h->event[event],
			      samples,
			      event == CPU ? samples * NS_PER_SAMPLE : (uint64_t)(s * 1e9)),
		0);
}

static void window(struct host *h)
{
	bool late = !h->day && h->t >= END - 300 * SECOND,
	     burst = h->t >= END - 600 * SECOND && h->t < END - 580 * SECOND;
	bool recent = !h->day && h->t >= FROM;
	h->used = 0;
	put(h, CPU, "steady", "", "serve", "aa", 0.3);
	put(h, CPU, "web", "a", "render", "aa", 0.1);
	put(h, CPU, "web", "b", late || (h->day && h->usual) ? "render_report" : "render",
	    recent ? "bb" : "aa", late || (h->day && h->usual) ? 0.8 : 0.1);
	put(h, CPU, "cron", "", "compress", "aa", !h->day && burst ? 0.7 : 0);
	put(h, CPU, "leaver", "", "work", "aa", late ? 0 : 0.2);
	put(h, CPU, "tiny", "", "work", "aa", late ? 0.02 : 0.002);
	put(h, RUNQ, "steady", "", "serve", "aa", late ? 0.6 : 0.01);
	put(h, OFF, "steady", "", "serve", "aa", 2);
	uint64_t lost[2] = { 0 }, flagged[1] = { 0 };
	struct store_cpu_totals cpu[CPUS] = { { 0, 990, 990, lost, flagged },
					      { 1, 990, 990, lost, flagged } };
	struct store_totals t = { cpu, CPUS, 0, 0, 0 };
	struct err err = { 0 };
	if (store_commit_window(h->w, h->t, h->t + WINDOW, h->t + WINDOW - (END - 2 * DAY), &t,
				&err))
		fail_msg("%s", err.text);
}

static struct findings *find(bool usual, bool before, struct store **ret)
{
	struct store_options o;
	struct host h = { .usual = usual };
	struct findings *f = NULL;
	struct err err = { 0 };
	store_options_default(&o);
	temp_dir(dir);
	srand48(7);
	if (store_writer_open_with(&h.w, dir, &model_meta, &o, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < 3; i++)
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
	struct findings *f = find(false, true, &s);
	const struct finding *b = of(f, FINDING_MORE, "b"), *cron = of(f, FINDING_BURST, "cron");
	assert_true(fabs(b->now - 0.8) < 0.1 && fabs(b->before - 0.1) < 0.05 &&
		    fabs(b->day - 0.1) < 0.05);
	assert_true(llabs(b->since_ns - (END - 300 * SECOND)) <= 2 * f->step_ns);
	assert_string_equal(b->function, "render_report");
	assert_false(b->usual);
	assert_true(llabs(cron->since_ns - (END - 600 * SECOND)) <= f->step_ns &&
		    cron->span_ns <= 30 * SECOND);
	assert_string_equal(cron->function, "compress");
	assert_true(isfinite(of(f, FINDING_RUNQ, "steady")->now));
	assert_true(of(f, FINDING_LESS, "leaver")->now < 0.01);
	assert_string_equal(of(f, FINDING_BUILD, "/usr/bin/web")->build[0], "bb");
	assert_string_equal(of(f, FINDING_BUILD, "/usr/bin/web")->build[1], "aa");
	assert_int_equal(f->n, 6); /* and no other */
	assert_int_equal(f->n_cpus, CPUS);
	assert_true(f->has_before && f->has_day && f->has_waits && !f->bounded);
	done(f, s);
}

static void what_is_usual_comes_last(void **state)
{
	struct store *s;
	(void)state;
	struct findings *f = find(true, true, &s);
	assert_true(of(f, FINDING_MORE, "web")->usual);
	assert_false(f->v[0].usual);
	assert_true(f->v[f->n - 1].usual || f->v[f->n - 1].kind == FINDING_LESS);
	done(f, s);
}

static void a_range_alone_has_findings(void **state)
{
	struct store *s;
	(void)state;
	struct findings *f = find(false, false, &s);
	const struct finding *web = of(f, FINDING_MORE, "web");
	assert_true(isnan(web->day) && !f->has_before && !f->has_day);
	done(f, s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_happened_is_found),
		cmocka_unit_test(what_is_usual_comes_last),
		cmocka_unit_test(a_range_alone_has_findings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
