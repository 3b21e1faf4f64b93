/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of findings: which of them are one, where they are in the code, which builds are
 * new. The findings are given; the samples behind them have exact rates.
 */
#include "findings_host.h"

static char dir[64];

#define A "main /bin/a -\n"
#define SORT "main /bin/a -\nreport /bin/a -\nsort /bin/a -\n"
#define COPY "main /bin/a -\nreport /bin/a -\ncopy /bin/a -\n"

/* A finding by hand: windows, and thousandths. */
static struct finding by_hand(enum finding_kind kind, const char *key, const char *value, int since,
			      int windows, int now, int before)
{
	return (struct finding){ .kind = kind,
				 .key = key,
				 .value = value,
				 .since_ns = window_ns(since),
				 .span_ns = windows * WINDOW,
				 .now = now / 1000.0,
				 .before = before / 1000.0 };
}

static const struct findings_spec everything;
static struct err error;

/* A search of which v[n] was found; v is borrowed. */
static struct looking search(struct store *s, struct finding *v, size_t n)
{
	return (struct looking){ .store = s,
				 .spec = &everything,
				 .err = &error,
				 .from_ns = window_ns(RANGE),
				 .to_ns = window_ns(WINDOWS),
				 .before_ns = window_ns(0),
				 .step_ns = WINDOW,
				 .cpu_event = "cpu-clock",
				 .has_wakers = true,
				 .keys = { "service" },
				 .n_keys = 1,
				 .v = v,
				 .n = n };
}

static void search_fini(struct looking *l)
{
	for (size_t i = 0; i < l->n_texts; i++)
		free(l->texts[i]);
	free(l->texts);
}

/* ---- which are one ---- */

static const struct part shared[] = {
	{ CPU, "database=d\nservice=web\ntenant=b\n", A, 0, 45, 250 },
	{ CPU, "database=d\nservice=web\ntenant=b\n", A, 45, 60, 750 },
	{ CPU, "database=d\nservice=web\ntenant=a\n", A, 0, 60, 250 },
	{ CPU, "service=old\ntenant=z\n", A, 0, 45, 800 },
	{ CPU, "service=old\ntenant=z\n", A, 45, 60, 100 },
	{ CPU, "service=old\n", A, 0, 60, 50 },
	/* Of one tenant there is nothing besides: each tells as much as the other */
	{ CPU, "service=alone\ntenant=t\n", A, 0, 45, 100 },
	{ CPU, "service=alone\ntenant=t\n", A, 45, 60, 600 },
	{ CPU, "service=pair\ntenant=p\n", A, 0, 45, 100 },
	{ CPU, "service=pair\ntenant=p\n", A, 45, 60, 600 },
	{ CPU, "service=pair\ntenant=q\n", A, 0, 1, 10 },
};

enum told { BOTH, THE_SERVICE, THE_TENANT };

/* Of a service and a tenant: windows since, how many, thousandths now and before. */
static const struct {
	const char *name;
	enum finding_kind kind[2];
	const char *service, *tenant;
	int a[4], b[4];
	enum told told;
} pairs[] = {
	{ "one growth",
	  { FINDING_MORE, FINDING_MORE },
	  "web",
	  "b",
	  { 45, 15, 1000, 500 },
	  { 45, 15, 750, 250 },
	  THE_TENANT },
	{ "growth and burst",
	  { FINDING_BURST, FINDING_MORE },
	  "web",
	  "b",
	  { 45, 15, 1000, 500 },
	  { 45, 15, 750, 250 },
	  THE_TENANT },
	{ "growth and less",
	  { FINDING_MORE, FINDING_LESS },
	  "web",
	  "b",
	  { 45, 15, 1000, 500 },
	  { 45, 15, 750, 250 },
	  BOTH },
	{ "growth and waits",
	  { FINDING_MORE, FINDING_RUNQ },
	  "web",
	  "b",
	  { 45, 15, 1000, 500 },
	  { 45, 15, 750, 250 },
	  BOTH },
	{ "two steps later",
	  { FINDING_MORE, FINDING_MORE },
	  "web",
	  "b",
	  { 45, 15, 1000, 500 },
	  { 47, 13, 750, 250 },
	  THE_TENANT },
	{ "three steps later",
	  { FINDING_MORE, FINDING_MORE },
	  "web",
	  "b",
	  { 45, 15, 1000, 500 },
	  { 48, 12, 750, 250 },
	  BOTH },
	{ "two steps longer",
	  { FINDING_BURST, FINDING_BURST },
	  "web",
	  "b",
	  { 45, 10, 1000, 500 },
	  { 45, 12, 750, 250 },
	  THE_TENANT },
	{ "three steps longer",
	  { FINDING_BURST, FINDING_BURST },
	  "web",
	  "b",
	  { 45, 10, 1000, 500 },
	  { 45, 13, 750, 250 },
	  BOTH },
	{ "three quarters of the growth",
	  { FINDING_MORE, FINDING_MORE },
	  "web",
	  "b",
	  { 45, 15, 1000, 500 },
	  { 45, 15, 625, 250 },
	  THE_TENANT },
	{ "less than that",
	  { FINDING_MORE, FINDING_MORE },
	  "web",
	  "b",
	  { 45, 15, 1000, 500 },
	  { 45, 15, 624, 250 },
	  BOTH },
	{ "three quarters of the samples",
	  { FINDING_MORE, FINDING_MORE },
	  "web",
	  "b",
	  { 45, 15, 1500, 500 },
	  { 45, 15, 1250, 250 },
	  THE_TENANT },
	{ "fewer of them",
	  { FINDING_MORE, FINDING_MORE },
	  "web",
	  "b",
	  { 45, 15, 1501, 500 },
	  { 45, 15, 1250, 250 },
	  BOTH },
	{ "of others",
	  { FINDING_MORE, FINDING_MORE },
	  "web",
	  "z",
	  { 45, 15, 1000, 500 },
	  { 45, 15, 750, 250 },
	  BOTH },
	/* What is less now had its samples before */
	{ "one loss",
	  { FINDING_LESS, FINDING_LESS },
	  "old",
	  "z",
	  { 45, 15, 150, 850 },
	  { 45, 15, 100, 800 },
	  THE_TENANT },
	{ "as narrow, one value",
	  { FINDING_MORE, FINDING_MORE },
	  "alone",
	  "t",
	  { 45, 15, 600, 100 },
	  { 45, 15, 600, 100 },
	  THE_SERVICE },
	{ "as narrow, two values",
	  { FINDING_MORE, FINDING_MORE },
	  "pair",
	  "p",
	  { 45, 15, 600, 100 },
	  { 45, 15, 600, 100 },
	  THE_TENANT },
	{ "a twentieth more",
	  { FINDING_MORE, FINDING_MORE },
	  "alone",
	  "t",
	  { 45, 15, 625, 110 },
	  { 45, 15, 600, 100 },
	  THE_SERVICE },
	{ "more than that",
	  { FINDING_MORE, FINDING_MORE },
	  "alone",
	  "t",
	  { 45, 15, 630, 110 },
	  { 45, 15, 600, 100 },
	  THE_TENANT },
	{ "wider, many values",
	  { FINDING_MORE, FINDING_MORE },
	  "pair",
	  "p",
	  { 45, 15, 600, 100 },
	  { 45, 15, 630, 110 },
	  THE_SERVICE },
};

static void pairs_are_one(void **state)
{
	struct store *s = host_make(dir, shared, sizeof(shared) / sizeof(shared[0]), 2);
	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		const int *a = pairs[i].a, *b = pairs[i].b;
		struct finding v[2] = { by_hand(pairs[i].kind[0], "service", pairs[i].service, a[0],
						a[1], a[2], a[3]),
					by_hand(pairs[i].kind[1], "tenant", pairs[i].tenant, b[0],
						b[1], b[2], b[3]) };
		struct looking l = search(s, v, 2);
		bool first = pairs[i].told == THE_SERVICE;
		if (findings_merge(&l))
			fail_msg("%s", error.text);
		if (l.n != (pairs[i].told == BOTH ? 2 : 1))
			fail_msg("%s: %zu", pairs[i].name, l.n);
		if (l.n == 2) {
			assert_int_equal(v[0].n_places + v[1].n_places, 0);
			continue;
		}
		if (strcmp(v[0].key, first ? "service" : "tenant"))
			fail_msg("%s: %s", pairs[i].name, v[0].key);
		assert_int_equal(v[0].n_places, 1);
		assert_string_equal(v[0].places[0].key, first ? "tenant" : "service");
		assert_string_equal(v[0].places[0].value,
				    first ? pairs[i].tenant : pairs[i].service);
		assert_true(near(v[0].now, (first ? a : b)[2] / 1000.0, 1e-12));
	}
	/* The samples of the tenant are a rate of 0.75: half a sample too few, of all 15 windows */
	struct finding few[2] = { by_hand(FINDING_MORE, "service", "web", 45, 15, 1500, 500),
				  by_hand(FINDING_MORE, "tenant", "b", 45, 15, 1250, 250) };
	few[0].now += 0.5 * 0.01 / 150 / 0.75;
	struct looking half = search(s, few, 2);
	assert_int_equal(findings_merge(&half), 0);
	assert_int_equal(half.n, 2);
	/* Of one key nothing is merged, however alike */
	struct finding same[2] = { by_hand(FINDING_MORE, "service", "web", 45, 15, 1000, 500),
				   by_hand(FINDING_MORE, "service", "web", 45, 15, 1000, 500) };
	struct looking l = search(s, same, 2);
	assert_int_equal(findings_merge(&l), 0);
	assert_int_equal(l.n, 2);
	/* A narrower one that comes later has the places of what it is told for */
	struct finding three[3] = { by_hand(FINDING_MORE, "database", "d", 45, 15, 1000, 500),
				    by_hand(FINDING_MORE, "service", "web", 45, 15, 1000, 500),
				    by_hand(FINDING_MORE, "tenant", "b", 45, 15, 750, 250) };
	l = search(s, three, 3);
	assert_int_equal(findings_merge(&l), 0);
	assert_int_equal(l.n, 1);
	assert_string_equal(three[0].key, "tenant");
	assert_int_equal(three[0].n_places, 2);
	assert_string_equal(three[0].places[0].key, "service");
	assert_string_equal(three[0].places[1].key, "database");
	store_close(s);
	remove_tree(dir);
}

/* Many labels with the same samples: the first eight are named, that of who it is before others. */
static void many_places(void **state)
{
	static const char *const keys[] = { "k0", "k1", "k2", "k3", "k4",     "k5",
					    "k6", "k7", "k8", "k9", "service" };
	enum { KEYS = sizeof(keys) / sizeof(keys[0]) };
	char labels[200] = "";
	struct finding v[KEYS];
	(void)state;
	for (size_t i = 0; i < KEYS; i++)
		snprintf(labels + strlen(labels), sizeof(labels) - strlen(labels), "%s=v\n",
			 keys[i]);
	const struct part parts[] = { { CPU, labels, A, 45, 60, 500 } };
	struct store *s = host_make(dir, parts, 1, 2);
	for (size_t at = 0; at < KEYS; at++) { /* the service comes as the one after the other */
		for (size_t i = 0, k = 0; i < KEYS; i++)
			v[i] = by_hand(FINDING_MORE, i == at ? "service" : keys[k++], "v", 45, 15,
				       500, 0);
		struct looking l = search(s, v, KEYS);
		assert_int_equal(findings_merge(&l), 0);
		assert_int_equal(l.n, 1);
		assert_string_equal(v[0].key, at ? "k0" : "service");
		assert_int_equal(v[0].n_places, KEYS - 1);
		bool named = at && at <= FINDING_PLACES;
		for (size_t i = 0; i < FINDING_PLACES; i++) {
			char want[8];
			snprintf(want, sizeof(want), "k%zu", at && named ? i : at ? i + 1 : i);
			assert_string_equal(v[0].places[i].key, named && !i ? "service" : want);
			assert_string_equal(v[0].places[i].value, "v");
		}
	}
	store_close(s);
	remove_tree(dir);
}

/* Whoever waits while another one waits more is told with that one. */
static void waiters(void **state)
{
	struct store *s = host_make(dir, shared, 1, 2);
	struct finding v[] = {
		by_hand(FINDING_RUNQ, "service", "before", 30, 10, 500, 400),
		by_hand(FINDING_RUNQ, "service", "most", 40, 10, 900, 100),
		by_hand(FINDING_MORE, "service", "cpu", 40, 10, 900, 100),
		by_hand(FINDING_RUNQ, "service", "end", 49, 11, 500, 100),
		by_hand(FINDING_RUNQ, "service", "after", 50, 10, 300, 100),
		by_hand(FINDING_RUNQ, "service", "all", 31, 29, 200, 100),
		by_hand(FINDING_OFF, "service", "off", 40, 10, 900, 100),
		by_hand(FINDING_RUNQ, "service", "long", 10, 20, 1000, 960),
	};
	static const char *const left[] = { "before", "most", "cpu", "after", "off", "long" };
	struct looking l = search(s, v, sizeof(v) / sizeof(v[0]));
	(void)state;
	assert_int_equal(findings_merge(&l), 0);
	assert_int_equal(l.n, 6);
	for (size_t i = 0; i < 6; i++) {
		assert_string_equal(l.v[i].value, left[i]);
		assert_int_equal(l.v[i].n_places, i == 1 ? 2 : 0);
	}
	assert_string_equal(l.v[1].places[0].value, "end");
	assert_string_equal(l.v[1].places[1].value, "all");
	store_close(s);
	remove_tree(dir);
}

/* ---- the code behind them ---- */

static void functions(void **state)
{
	static const struct part parts[] = {
		{ CPU, "service=deep\n", A, 0, 60, 250 },
		{ CPU, "service=deep\n", SORT, 45, 60, 300 },
		{ CPU, "service=deep\n", COPY, 45, 60, 200 },
		/* Half of it is not more than half: where both are */
		{ CPU, "service=even\n", SORT, 0, 45, 100 },
		{ CPU, "service=even\n", SORT, 45, 60, 300 },
		{ CPU, "service=even\n", COPY, 45, 60, 200 },
		{ CPU, "service=system\n", "main /bin/a -\nwrite [kernel] -\n", 45, 60, 500 },
		{ CPU, "service=idle\n", "irq [kernel] -\n", 45, 60, 500 },
	};
	static const struct {
		const char *service, *function;
		int now, before, function_now, function_before;
	} want[] = {
		{ "deep", "sort", 750, 250, 300, 0 },
		{ "even", "report", 500, 100, 500, 100 },
		{ "system", "main", 500, 0, 500, 0 },
		{ "idle", NULL, 500, 0, 0, 0 },
	};
	struct store *s = host_make(dir, parts, sizeof(parts) / sizeof(parts[0]), 2);
	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct finding f = by_hand(FINDING_MORE, "service", want[i].service, 45, 15,
					   want[i].now, want[i].before);
		struct looking l = search(s, &f, 1);
		if (findings_explain(&l))
			fail_msg("%s", error.text);
		assert_int_equal(!f.function, !want[i].function);
		if (f.function) {
			assert_string_equal(f.function, want[i].function);
			assert_string_equal(f.module, "/bin/a");
		}
		assert_true(near(f.function_now, want[i].function_now / 1000.0, 1e-9));
		assert_true(near(f.function_before, want[i].function_before / 1000.0, 1e-9));
		assert_null(f.parent);
		search_fini(&l);
	}
	store_close(s);
	remove_tree(dir);
}

/* Of who is new: the program with more than half of it, and who started that. */
static void parents(void **state)
{
	static const struct part parts[] = {
		{ CPU, "comm=job\nparent=cron\nservice=own\n", A, 45, 60, 501 },
		{ CPU, "comm=job\nparent=make\nservice=own\n", A, 45, 60, 499 },
		{ CPU, "comm=job\nparent=cron\nservice=half\n", A, 45, 60, 500 },
		{ CPU, "comm=job\nparent=make\nservice=half\n", A, 45, 60, 500 },
		{ CPU, "comm=job\nparent=cron\nservice=job\n", A, 45, 60, 1000 },
		{ CPU, "comm=job\nparent=self\nservice=self\n", A, 45, 60, 1000 },
		{ CPU, "comm=job\nservice=orphan\n", A, 45, 60, 1000 },
	};
	static const struct {
		const char *key, *service;
		int before;
		const char *comm, *parent;
	} want[] = {
		{ "service", "own", 0, "job", "cron" }, { "service", "own", 99, "job", "cron" },
		{ "service", "own", 100, NULL, NULL },	{ "service", "half", 0, NULL, NULL },
		{ "service", "job", 0, NULL, "cron" },	{ "service", "self", 0, NULL, NULL },
		{ "service", "orphan", 0, NULL, NULL }, { "comm", "job", 0, NULL, NULL },
	};
	struct store *s = host_make(dir, parts, sizeof(parts) / sizeof(parts[0]), 2);
	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct finding f = by_hand(i % 2 ? FINDING_BURST : FINDING_MORE, want[i].key,
					   want[i].service, 45, 15, 1000, want[i].before);
		struct looking l = search(s, &f, 1);
		if (findings_explain(&l))
			fail_msg("%s", error.text);
		assert_string_equal(f.function, "main");
		assert_string_equal(f.comm ? f.comm : "", want[i].comm ? want[i].comm : "");
		assert_string_equal(f.parent ? f.parent : "", want[i].parent ? want[i].parent : "");
		search_fini(&l);
	}
	/* The first six that have something behind them; others do not count */
	struct finding v[10];
	for (size_t i = 0; i < 10; i++)
		v[i] = by_hand(i == 1	? FINDING_RUNQ
			       : i == 3 ? FINDING_LESS
					: FINDING_MORE,
			       "service", "own", 45, 15, 1000, 0);
	struct looking l = search(s, v, 10);
	assert_int_equal(findings_explain(&l), 0);
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(v[i].function != NULL, i != 1 && i != 3 && i < 8);
	search_fini(&l);
	store_close(s);
	remove_tree(dir);
}

#define LOCK(in) in " /bin/a -\npthread_mutex_lock /usr/lib/libc.so.6 -\n"

/* Where the program waits most in that class, and who held the lock meanwhile. */
static void waits(void **state)
{
	static const struct part parts[] = {
		{ OFF, "service=s\n", LOCK("get"), 0, 45, 100 },
		{ OFF, "service=s\n", LOCK("get"), 45, 60, 600 },
		{ OFF, "service=s\n", LOCK("put"), 45, 60, 300 },
		{ OFF, "service=s\n", "recv /bin/a -\nsock_recvmsg [kernel] -\n", 45, 60, 900 },
		{ OFF, "service=other\n", LOCK("other"), 0, 60, 2000 },
		{ WAKER, "by.comm=w\nservice=s\n", "get /bin/a -\n", 45, 60, 500 },
		{ WAKER, "by.comm=hog\nservice=s\n", "flush /bin/a -\n", 45, 60, 400 },
		/* before, it was somebody else */
		{ WAKER, "by.comm=w\nservice=s\n", "early /bin/a -\n", 0, 45, 900 },
	};
	static const struct {
		const char *wait, *function;
		int now, before;
		bool wakers, holder;
	} want[] = {
		{ "lock", "get", 600, 100, true, true },
		{ "lock", "get", 600, 100, false, false },
		{ "network", "recv", 900, 0, true, false },
		{ "pipe", NULL, 0, 0, true, false },
	};
	struct store *s = host_make(dir, parts, sizeof(parts) / sizeof(parts[0]), 2);
	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct finding f = by_hand(FINDING_OFF, "service", "s", 45, 15, 900, 100);
		struct looking l = search(s, &f, 1);
		f.wait = want[i].wait;
		l.has_wakers = want[i].wakers;
		if (findings_explain(&l))
			fail_msg("%s", error.text);
		assert_string_equal(f.function ? f.function : "",
				    want[i].function ? want[i].function : "");
		assert_true(near(f.function_now, want[i].now / 1000.0, 1e-9));
		assert_true(near(f.function_before, want[i].before / 1000.0, 1e-9));
		assert_string_equal(f.holder ? f.holder : "", want[i].holder ? "flush" : "");
		assert_string_equal(f.holder_comm ? f.holder_comm : "",
				    want[i].holder ? "hog" : "");
		search_fini(&l);
	}
	store_close(s);
	remove_tree(dir);
}

/* ---- builds ---- */

static void builds(void **state)
{
	enum { FILES = 12 };
	struct part parts[2 * FILES + 8];
	char text[FILES][2][40];
	size_t n = 0;
	(void)state;
	for (int i = 0; i < FILES; i++) {
		snprintf(text[i][0], sizeof(text[i][0]), "f /bin/x%02d old\n", i);
		snprintf(text[i][1], sizeof(text[i][1]), "f /bin/x%02d new\n", i);
	}
	static const struct part own[] = {
		{ CPU, "", "f /bin/same aa\n", 0, 60, 100 },
		{ CPU, "", "f /bin/added aa\n", 40, 60, 100 },
		{ CPU, "", "f /bin/back bb\n", 0, 60, 100 },
		{ CPU, "", "f /bin/back aa\n", 0, 30, 100 },
		{ CPU, "", "f anonymous aa\n", 0, 30, 100 },
		{ CPU, "", "f anonymous bb\n", 30, 60, 100 },
		{ CPU, "", "f /bin/a aa\ng /lib/b.so 11\n", 0, 30, 100 },
		{ CPU, "", "f /bin/a bb\ng /lib/b.so 22\n", 30, 60, 100 },
	};
	for (size_t i = 0; i < 8; i++)
		parts[n++] = own[i];
	struct store *s = host_make(dir, parts, n, 2);
	struct looking l = search(s, NULL, 0);
	if (findings_builds(&l))
		fail_msg("%s", error.text);
	assert_int_equal(l.n, 2);
	for (size_t i = 0; i < 2; i++) {
		bool a = !strcmp(l.v[i].value, "/bin/a");
		assert_int_equal(l.v[i].kind, FINDING_BUILD);
		assert_true(a || !strcmp(l.v[i].value, "/lib/b.so"));
		assert_string_equal(l.v[i].build[0], a ? "bb" : "22");
		assert_string_equal(l.v[i].build[1], a ? "aa" : "11");
		assert_true(isnan(l.v[i].now) && isnan(l.v[i].before) && isnan(l.v[i].day));
		assert_null(l.v[i].key);
	}
	search_fini(&l);
	free(l.v);
	store_close(s);
	remove_tree(dir);
	/* Eight are told; a file with two new builds once */
	for (int i = 0; i < FILES; i++) {
		parts[n++] = (struct part){ CPU, "", text[i][0], 0, 30, 100 };
		parts[n++] = (struct part){ CPU, "", text[i][1], 30, 60, 100 };
	}
	parts[n - 2 * FILES - 1] = (struct part){ CPU, "", "f /bin/a cc\n", 30, 60, 100 };
	s = host_make(dir, parts, n, 2);
	l = search(s, NULL, 0);
	assert_int_equal(findings_builds(&l), 0);
	assert_int_equal(l.n, 8);
	for (size_t i = 0; i < 8; i++)
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(l.v[i].value, l.v[k].value);
	search_fini(&l);
	free(l.v);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pairs_are_one), cmocka_unit_test(many_places),
		cmocka_unit_test(waiters),	 cmocka_unit_test(functions),
		cmocka_unit_test(parents),	 cmocka_unit_test(waits),
		cmocka_unit_test(builds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
