/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of exact rates: where they begin and end, how large they are, and what is just none. */
#include "findings_host.h"

static char dir[64];

static struct findings *find(struct store *s, int64_t from_ns, int64_t to_ns, size_t limit)
{
	static const char *const keys[] = { "service" };
	const struct findings_spec spec = {
		.from_ns = from_ns, .to_ns = to_ns, .keys = keys, .n_keys = 1, .limit = limit
	};
	struct findings *f = NULL;
	struct err err = { 0 };
	if (query_findings(&f, s, &spec, &err))
		fail_msg("%s", err.text);
	return f;
}

static struct findings *find_range(struct store *s)
{
	return find(s, window_ns(RANGE), window_ns(WINDOWS), 0);
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
	for (size_t i = 0; i < f->n; i++)
		print_message("%s %s\n", finding_names[f->v[i].kind],
			      f->v[i].value ? f->v[i].value : "");
	fail_msg("no finding '%s' of %s", finding_names[kind], value);
	return NULL;
}

/* From a window for some windows: thousandths of a CPU, or of a thread. */
struct told {
	enum finding_kind kind;
	const char *value;
	int since, windows;
	double now, before;
};

static void check(const struct findings *f, const struct told *want)
{
	const struct finding *x = of(f, want->kind, want->value);
	assert_string_equal(x->key, "service");
	assert_int_equal(x->since_ns, window_ns(want->since));
	assert_int_equal(x->span_ns, want->windows * WINDOW);
	if (!near(x->now, want->now / 1000, 1e-9) || !near(x->before, want->before / 1000, 1e-9))
		fail_msg("%s: %g before %g", x->value, x->now, x->before);
	assert_true(x->q >= 0 && x->q <= FINDINGS_RATE);
}

#define A "main /bin/a -\n"

/* One step up, down or for a moment in each service; some too small, some before the range. */
static void changes_of_cpu(void **state)
{
	static const struct part parts[] = {
		{ CPU, "service=more\n", A, 0, 45, 250 },
		{ CPU, "service=more\n", A, 45, 60, 500 },
		{ CPU, "service=less\n", A, 0, 40, 800 },
		{ CPU, "service=less\n", A, 40, 60, 200 },
		{ CPU, "service=burst\n", A, 0, 60, 125 },
		{ CPU, "service=burst\n", A, 38, 41, 875 }, /* beside what it has always */
		{ CPU, "service=late\n", A, 58, 60, 500 },
		{ CPU, "service=small\n", A, 0, 45, 100 },
		{ CPU, "service=small\n", A, 45, 60, 250 },
		{ CPU, "service=enough\n", A, 0, 45, 100 },
		{ CPU, "service=enough\n", A, 45, 60, 270 },
		{ CPU, "service=old\n", A, 0, 20, 100 },
		{ CPU, "service=old\n", A, 20, 60, 900 },
		{ CPU, "service=steady\n", A, 0, 60, 300 },
		{ CPU, "tenant=x\n", A, 45, 60, 900 }, /* of no service */
	};
	static const struct told want[] = {
		{ FINDING_MORE, "more", 45, 15, 500, 250 },
		{ FINDING_LESS, "less", 40, 20, 200, 800 },
		{ FINDING_BURST, "burst", 38, 3, 1000, 125 },
		{ FINDING_MORE, "late", 58, 2, 500, 0 },
		{ FINDING_MORE, "enough", 45, 15, 270, 100 },
	};
	struct store *s = host_make(dir, parts, sizeof(parts) / sizeof(parts[0]), 8);
	struct findings *f = find_range(s);
	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		check(f, &want[i]);
		assert_true(isnan(of(f, want[i].kind, want[i].value)->day));
	}
	assert_int_equal(f->n, sizeof(want) / sizeof(want[0]));
	assert_int_equal(f->n_all, f->n);
	assert_int_equal(f->n_tested, 8); /* services; none of them waits */
	assert_int_equal(f->n_cpus, 8);
	assert_int_equal(f->step_ns, WINDOW);
	assert_int_equal(f->before_ns, window_ns(0));
	assert_true(f->has_before && !f->has_day && f->has_waits && !f->bounded);
	/* In order of their size, less last; a limit takes the first ones */
	struct findings *first = find(s, window_ns(RANGE), window_ns(WINDOWS), 2);
	assert_int_equal(first->n, 2);
	assert_int_equal(first->n_all, f->n);
	for (size_t i = 1; i < f->n; i++) {
		const struct finding *a = &f->v[i - 1], *b = &f->v[i];
		double x = fabs(a->now - a->before) * (double)a->span_ns,
		       y = fabs(b->now - b->before) * (double)b->span_ns;
		assert_true(b->kind == FINDING_LESS || x >= y);
		assert_true(a->kind != FINDING_LESS);
	}
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(first->v[i].value, f->v[i].value);
	query_findings_free(first);
	done(f, s);
}

/* The least change is a fiftieth of the CPUs, up to half a CPU. */
static void least_change(void **state)
{
	static const struct part parts[] = {
		{ CPU, "service=a\n", A, 0, 45, 100 },	{ CPU, "service=a\n", A, 45, 60, 290 },
		{ CPU, "service=b\n", A, 0, 45, 100 },	{ CPU, "service=b\n", A, 45, 60, 310 },
		{ CPU, "service=c\n", A, 0, 45, 100 },	{ CPU, "service=c\n", A, 45, 60, 590 },
		{ CPU, "service=d\n", A, 0, 45, 100 },	{ CPU, "service=d\n", A, 45, 60, 610 },
		{ CPU, "service=e\n", A, 33, 34, 240 }, { CPU, "service=f\n", A, 34, 35, 310 },
		{ CPU, "service=g\n", A, 35, 36, 510 },
	};
	static const struct {
		unsigned cpus;
		const char *told; /* services */
	} want[] = { { 1, "abcdfg" }, { 10, "bcdfg" }, { 25, "dg" }, { 100, "dg" } };
	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct store *s =
			host_make(dir, parts, sizeof(parts) / sizeof(parts[0]), want[i].cpus);
		struct findings *f = find_range(s);
		size_t n = 0;
		for (size_t k = 0; k < f->n; k++) {
			if (f->v[k].kind == FINDING_SATURATED)
				continue;
			if (!strchr(want[i].told, *f->v[k].value))
				fail_msg("%u CPUs: %s", want[i].cpus, f->v[k].value);
			n++;
		}
		assert_int_equal(n, strlen(want[i].told));
		done(f, s);
	}
}

/* ---- waits ---- */

#define LOCK "get /bin/a -\npthread_mutex_lock /usr/lib/libc.so.6 -\n"
#define NETWORK "fetch /bin/a -\nsock_recvmsg [kernel] -\n"
#define IDLE "loop /bin/a -\n__x64_sys_epoll_wait [kernel] -\n"
#define SLEEP "nap /bin/a -\n__x64_sys_nanosleep [kernel] -\n"
#define CHILD "shell /bin/a -\n__x64_sys_wait4 [kernel] -\n"
#define UNKNOWN "[no_stack] [kernel] -\n"

static void changes_of_waits(void **state)
{
	static const struct part parts[] = {
		{ CPU, "service=any\n", A, 0, 60, 100 },
		{ RUNQ, "service=queue\n", A, 0, 45, 200 },
		{ RUNQ, "service=queue\n", A, 45, 60, 310 },
		{ RUNQ, "service=short\n", A, 0, 45, 200 },
		{ RUNQ, "service=short\n", A, 45, 60, 290 },
		{ RUNQ, "service=moment\n", A, 0, 60, 100 },
		{ RUNQ, "service=moment\n", A, 34, 36, 900 },
		{ RUNQ, "service=sooner\n", A, 0, 45, 500 },
		{ OFF, "service=lock\n", LOCK, 0, 45, 200 },
		{ OFF, "service=lock\n", LOCK, 45, 60, 600 },
		{ OFF, "service=lock\n", NETWORK, 0, 60, 300 },
		{ OFF, "service=net\n", NETWORK, 0, 45, 200 },
		{ OFF, "service=net\n", NETWORK, 45, 60, 500 },
		{ OFF, "service=convoy\n", LOCK, 0, 60, 100 },
		{ OFF, "service=convoy\n", LOCK, 34, 36, 2900 },
		{ OFF, "service=packet\n", NETWORK, 0, 60, 100 },
		{ OFF, "service=packet\n", NETWORK, 34, 36, 2900 },
		{ OFF, "service=ready\n", LOCK, 0, 45, 900 },
		{ OFF, "service=idler\n", IDLE, 0, 45, 200 },
		{ OFF, "service=idler\n", IDLE, 45, 60, 900 },
		{ OFF, "service=sleeper\n", SLEEP, 0, 45, 200 },
		{ OFF, "service=sleeper\n", SLEEP, 45, 60, 900 },
		{ OFF, "service=parent\n", CHILD, 0, 45, 200 },
		{ OFF, "service=parent\n", CHILD, 45, 60, 900 },
		{ OFF, "service=nothing\n", UNKNOWN, 0, 45, 200 },
		{ OFF, "service=nothing\n", UNKNOWN, 45, 60, 900 },
		/* Whoever is new waits, too: it was there two steps before, or one */
		{ OFF, "service=there\n", LOCK, 43, 44, 10 },
		{ OFF, "service=there\n", NETWORK, 45, 60, 900 },
		{ OFF, "service=new\n", LOCK, 44, 45, 10 },
		{ OFF, "service=new\n", NETWORK, 45, 60, 900 },
	};
	static const struct told want[] = {
		{ FINDING_RUNQ, "queue", 45, 15, 310, 200 },
		{ FINDING_OFF, "lock", 45, 15, 600, 200 },
		{ FINDING_OFF, "net", 45, 15, 500, 200 },
		{ FINDING_OFF, "convoy", 34, 2, 3000, 100 },
		{ FINDING_OFF, "there", 45, 15, 900, 0 },
	};
	struct store *s = host_make(dir, parts, sizeof(parts) / sizeof(parts[0]), 2);
	struct findings *f = find_range(s);
	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		check(f, &want[i]);
	assert_int_equal(f->n, sizeof(want) / sizeof(want[0]));
	const struct finding *lock = of(f, FINDING_OFF, "lock"), *net = of(f, FINDING_OFF, "net");
	assert_string_equal(lock->wait, "lock");
	assert_string_equal(lock->function, "get");
	assert_string_equal(lock->module, "/bin/a");
	assert_true(near(lock->function_now, 0.6, 1e-9) && near(lock->function_before, 0.2, 1e-9));
	assert_string_equal(net->wait, "network");
	assert_string_equal(net->function, "fetch");
	assert_null(of(f, FINDING_RUNQ, "queue")->wait);
	/* A lock is a cause: it comes before who waits for a CPU, and that before other waits */
	assert_true(lock < of(f, FINDING_RUNQ, "queue") && of(f, FINDING_RUNQ, "queue") < net);
	done(f, s);
}

/* ---- the day before ---- */

static void usual(void **state)
{
	static const struct part parts[] = {
		{ CPU, "service=more\n", A, 0, 45, 250 },
		{ CPU, "service=more\n", A, 45, 60, 500 },
		{ CPU, "service=more\n", A, DAY_BEFORE + 45, DAY_BEFORE + 60, 400 },
		{ CPU, "service=rare\n", A, 0, 45, 250 },
		{ CPU, "service=rare\n", A, 45, 60, 500 },
		{ CPU, "service=rare\n", A, DAY_BEFORE + 45, DAY_BEFORE + 60, 399 },
		{ CPU, "service=rare\n", A, DAY_BEFORE + 0, DAY_BEFORE + 45, 900 },
		{ CPU, "service=less\n", A, 0, 45, 1000 },
		{ CPU, "service=less\n", A, 45, 60, 500 },
		{ CPU, "service=less\n", A, DAY_BEFORE + 45, DAY_BEFORE + 60, 625 },
		{ CPU, "service=gone\n", A, 0, 45, 1000 },
		{ CPU, "service=gone\n", A, 45, 60, 500 },
		{ CPU, "service=gone\n", A, DAY_BEFORE + 45, DAY_BEFORE + 60, 626 },
		{ RUNQ, "service=queue\n", A, 0, 45, 200 },
		{ RUNQ, "service=queue\n", A, 45, 60, 500 },
		{ RUNQ, "service=queue\n", A, DAY_BEFORE + 45, DAY_BEFORE + 60, 450 },
		{ OFF, "service=lock\n", LOCK, 0, 45, 200 },
		{ OFF, "service=lock\n", LOCK, 45, 60, 600 },
		{ OFF, "service=lock\n", NETWORK, DAY_BEFORE + 45, DAY_BEFORE + 60, 900 },
		{ OFF, "service=lock\n", LOCK, DAY_BEFORE + 45, DAY_BEFORE + 60, 300 },
		{ OFF, "service=net\n", NETWORK, 0, 45, 200 },
		{ OFF, "service=net\n", NETWORK, 45, 60, 600 },
	};
	static const struct {
		enum finding_kind kind;
		const char *value;
		double day;
		bool usual;
	} want[] = {
		{ FINDING_MORE, "more", 400, true },  { FINDING_MORE, "rare", 399, false },
		{ FINDING_LESS, "less", 625, true },  { FINDING_LESS, "gone", 626, false },
		{ FINDING_RUNQ, "queue", 450, true }, { FINDING_OFF, "lock", 300, false },
		{ FINDING_OFF, "net", 0, false },
	};
	struct store *s = host_make(dir, parts, sizeof(parts) / sizeof(parts[0]), 8);
	struct findings *f = find_range(s);
	bool last = false;
	(void)state;
	assert_true(f->has_day);
	assert_int_equal(f->n, sizeof(want) / sizeof(want[0]));
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		const struct finding *x = of(f, want[i].kind, want[i].value);
		assert_true(near(x->day, want[i].day / 1000, 1e-9));
		assert_int_equal(x->usual, want[i].usual);
	}
	for (size_t i = 0; i < f->n; i++) { /* usual ones are the last */
		assert_true(f->v[i].usual || !last);
		last = f->v[i].usual;
	}
	done(f, s);
}

/* ---- all CPUs ---- */

/* At 95% of two CPUs in a tenth of the range: just, and just not. */
static void saturated(void **state)
{
	static const struct {
		unsigned permille, windows;
		bool told;
	} cases[] = { { 950, 3, true }, { 949, 3, false }, { 950, 2, false }, { 1000, 10, true } };
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const unsigned p = cases[i].permille, n = cases[i].windows;
		const struct part parts[] = {
			{ CPU, "service=a\n", A, 0, 30, 100 },
			{ CPU, "service=a\n", A, 30, 50, 400 },
			{ CPU, "service=a\n", A, 50, 50 + n, p },
			{ CPU, "service=b\n", A, 50, 50 + n, 950 },
			{ RUNQ, "service=a\n", A, 0, 60, 50 },
			/* longest in the range, not before it */
			{ RUNQ, "service=b\n", A, 30, 60, 70 },
			{ RUNQ, "service=a\n", A, 0, 20, 60 },
			{ RUNQ, "tenant=x\n", A, 0, 60, 90 },
		};
		struct store *s = host_make(dir, parts, sizeof(parts) / sizeof(parts[0]), 2);
		struct findings *f = find_range(s);
		size_t told = 0;
		for (size_t k = 0; k < f->n; k++)
			told += f->v[k].kind == FINDING_SATURATED;
		assert_int_equal(told, cases[i].told);
		if (told) {
			const struct finding *x = of(f, FINDING_SATURATED, "b");
			assert_string_equal(x->key, "service");
			assert_int_equal(x->since_ns, window_ns(50));
			assert_int_equal(x->span_ns, n * WINDOW);
			assert_true(near(x->now, (20 * 400 + n * (p + 950.0)) / 30000, 1e-9));
			assert_true(near(x->before, 0.1, 1e-9) && isnan(x->day));
			assert_ptr_equal(x, f->v); /* comes first */
		}
		done(f, s);
	}
}

/* Changes of one size stand in order of their values. A store without CPU time has none. */
static void ties(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	struct part parts[8];
	char labels[4][20];
	(void)state;
	for (unsigned i = 0; i < 4; i++) { /* put in as c, a, d, b */
		snprintf(labels[i], sizeof(labels[i]), "service=%s\n", names[(2 + 3 * i) % 4]);
		parts[2 * i] = (struct part){ CPU, labels[i], A, 0, 45, 250 };
		parts[2 * i + 1] = (struct part){ CPU, labels[i], A, 45, 60, 750 };
	}
	struct store *s = host_make(dir, parts, 8, 8);
	struct findings *f = find_range(s);
	assert_int_equal(f->n, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_string_equal(f->v[i].value, names[i]);
	done(f, s);
	const struct findings_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	const struct store_event faults = { "page-faults", "count", 0, 1 };
	struct store_writer *w;
	struct err err = { 0 };
	uint32_t id;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	assert_int_equal(store_add_event(w, &faults, &id), 0);
	assert_int_equal(store_add_row(w, 0, 0, id, 5, 5), 0);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	s = open_store(dir);
	f = NULL;
	assert_int_equal(query_findings(&f, s, &spec, &err), -EINVAL);
	assert_non_null(strstr(err.text, "CPU time"));
	assert_null(f);
	store_close(s);
	remove_tree(dir);
}

/* ---- the range ---- */

/* In seconds from the first window on, which are 600. */
static void ranges(void **state)
{
	static const int64_t open = INT64_MIN;
	static const struct {
		int64_t from, to, want_from, want_to, before, step;
	} cases[] = {
		{ 300, 600, 300, 600, 0, 10 },	       { open, INT64_MAX, 0, 600, -600, 10 },
		{ open, 590, 0, 590, -590, 10 },       { -4, 600, -20, 600, -640, 20 },
		{ 5, 600, 0, 600, -600, 10 },	       { 300, 601, 300, 600, 0, 10 },
		{ 300, 595, 300, 595, 5, 10 },	       { -1200, 600, -1220, 600, -3040, 30 },
		{ -1201, 600, -1240, 600, -3080, 40 },
	};
	static const struct part parts[] = { { CPU, "service=a\n", A, 0, 60, 100 } };
	struct store *s = host_make(dir, parts, 1, 1);
	struct findings *f = NULL;
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t from = cases[i].from == open ? open : BEGIN + cases[i].from * SECOND,
			to = cases[i].to == INT64_MAX ? INT64_MAX : BEGIN + cases[i].to * SECOND;
		f = find(s, from, to, 0);
		assert_int_equal((f->from_ns - BEGIN) / SECOND, cases[i].want_from);
		assert_int_equal((f->to_ns - BEGIN) / SECOND, cases[i].want_to);
		assert_int_equal((f->before_ns - BEGIN) / SECOND, cases[i].before);
		assert_int_equal(f->step_ns / SECOND, cases[i].step);
		assert_int_equal(f->has_before, cases[i].from == 300);
		assert_int_equal(f->n, 0);
		query_findings_free(f);
	}
	f = find(s, window_ns(70), window_ns(80), 0);
	assert_int_equal(f->from_ns, f->to_ns);
	assert_int_equal(f->n_tested, 0);
	done(f, s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes_of_cpu),
		cmocka_unit_test(least_change),
		cmocka_unit_test(changes_of_waits),
		cmocka_unit_test(usual),
		cmocka_unit_test(saturated),
		cmocka_unit_test(ranges),
		cmocka_unit_test(ties),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
