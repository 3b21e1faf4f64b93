/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that fail: each one of a store's life and of each way to read it. What is given back
 * is right or an error, what was acknowledged is there, and nothing crashes; under a sanitizer
 * nothing leaks either.
 */
#include "fault/alloc.h"
#include "fault/run.h"
#include "fault/scenario.h"

#include "query/query.h"
#include "store/damage.h"
#include "store/writer.h"

#define N_WINDOWS 36

static struct scenario scenario;
static char whole[80]; /* a store that was written without failures */

/* ---- writing ---- */

static size_t lost;

static const char *write_store(const char *dir)
{
	struct store_writer *w = NULL;
	struct err err = { 0 };
	bool kept[SCENARIO_MAX] = { false };
	for (size_t i = 0; i < N_WINDOWS; i++) {
		int rc = scenario_before(&w, dir, i, &err);
		if (!rc)
			rc = scenario_commit(&scenario, w, i, &err);
		kept[i] = !rc;
		lost += rc != 0;
	}
	store_writer_close(w);
	alloc_faults.on = false;
	const char *bad = scenario_judge(&scenario, dir, kept, kept, NULL);
	return bad ? bad : scenario_go_on(&scenario, dir, kept, kept, N_WINDOWS);
}

/* ---- reading ---- */

struct answer {
	uint64_t samples, n, fired;
};

static void any_finding(void *ctx, const struct store_finding *f)
{
	*(size_t *)ctx += f->kind == STORE_DAMAGED;
}

static int ask(struct store *s, const char *where, enum query_labels labels, struct answer *ret,
	       struct err *err)
{
	const char *const keys[] = { "tenant", "comm" };
	struct query_spec spec = { .where = where,
				   .from_ns = INT64_MIN,
				   .to_ns = INT64_MAX,
				   .idle = true,
				   .labels = labels,
				   .keys = keys,
				   .n_keys = labels == QUERY_KEYS ? 2 : 0 };
	struct query *q;
	struct query_table *t;
	const struct query_node *nodes;
	size_t n;
	int rc = query_open(&q, s, &spec, err);
	if (rc)
		return rc;
	*ret = (struct answer){ query_info(q)->samples, 0, query_info(q)->fired };
	rc = query_tree(q, &nodes, &n, err);
	if (!rc)
		rc = query_table(q, NULL, 0, &t, err);
	if (!rc) {
		/* Which of equal sets stay is chance */
		ret->n = query_info(q)->bounded && labels != QUERY_NO_LABELS ? 0 : n;
		query_table_free(t);
	}
	query_close(q);
	return rc;
}

static const struct {
	const char *where;
	enum query_labels labels;
	size_t bytes; /* budget */
} questions[] = {
	{ NULL, QUERY_NO_LABELS, 0 },
	{ "comm=~\"s.*\"", QUERY_KEYS, 0 },
	{ "tenant=\"t3\"", QUERY_ALL_LABELS, 0 },
	{ NULL, QUERY_NO_LABELS, 3000 },
	{ NULL, QUERY_KEYS, 3000 },
	{ NULL, QUERY_ALL_LABELS, 3000 },
};
#define N_QUESTIONS 6

static int ask_all(struct answer answers[N_QUESTIONS])
{
	struct store *s;
	struct err err = { 0 };
	int rc = store_open(&s, whole, &err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < N_QUESTIONS; i++) {
		store_limit(s, &(struct store_limits){ .bytes = questions[i].bytes });
		rc = ask(s, questions[i].where, questions[i].labels, &answers[i], &err);
	}
	store_close(s);
	return rc;
}

static const char *read_store(const char *dir)
{
	static struct answer want[N_QUESTIONS];
	struct answer got[N_QUESTIONS];
	(void)dir;
	if (!want[0].samples) { /* the first run has no failures */
		assert_int_equal(ask_all(want), 0);
		return want[0].samples ? NULL : "no samples";
	}
	int rc = ask_all(got);
	if (rc)
		return rc == -ENOMEM ? NULL : "an error that is not -ENOMEM";
	return memcmp(want, got, sizeof(got)) ? "a wrong answer" : NULL;
}

static const char *verify_store(const char *dir)
{
	struct err err = { 0 };
	size_t damaged = 0;
	(void)dir;
	int rc = store_verify(whole, any_finding, &damaged, &err);
	if (rc && rc != -ENOMEM)
		return "an error that is not -ENOMEM";
	return damaged ? "verify takes a lack of memory for damage" : NULL;
}

static int count_samples(void *ctx, const struct store_row *r)
{
	*(uint64_t *)ctx += r->samples;
	return 0;
}

/* Every window by itself, and what it holds. */
static const char *read_windows(const char *dir)
{
	static uint64_t want;
	uint64_t got = 0;
	struct store *s;
	struct err err = { 0 };
	(void)dir;
	int rc = store_open(&s, whole, &err);
	if (rc)
		return rc == -ENOMEM ? NULL : "an error that is not -ENOMEM";
	size_t n = store_n_windows(s);
	for (size_t i = 0; !rc && i < n; i++) {
		rc = store_window(s, i, &err) ? 0 : err.code;
		if (!rc)
			rc = store_rows(s, i, count_samples, &got, &err);
	}
	store_close(s);
	want = want ? want : got;
	if (rc)
		return rc == -ENOMEM ? NULL : "an error that is not -ENOMEM";
	/* no list without memory: store_n_windows says none */
	return !n ? NULL : got != want ? "a wrong sum" : NULL;
}

/* ---- the sweep ---- */

static struct {
	const char *name;
	const char *(*run)(const char *dir);
	size_t usual, full; /* one in so many */
	long more;
} paths[] = {
	{ "write, compact, cut", write_store, 61, 1, 0 },
	{ "the same, five in a row", write_store, 127, 1, 4 },
	{ "open, six questions", read_store, 13, 1, 0 },
	{ "open, windows", read_windows, 5, 1, 0 },
	{ "verify", verify_store, 17, 1, 0 },
};

struct sweep {
	size_t path, step, offset;
	long n;
	struct {
		size_t runs, bad, hit, lost;
		char first[900];
	} *sum;
};

static const char *once(size_t path, long at, const char *dir)
{
	alloc_faults = (struct alloc_faults){ .on = true, .at = at, .more = paths[path].more };
	const char *bad = paths[path].run(dir);
	alloc_faults.on = false;
	remove_tree(dir);
	return bad;
}

static void sweep_some(void *ctx, size_t k, size_t n)
{
	struct sweep *s = ctx;
	char base[64], dir[80];
	lost = 0;
	snprintf(dir, sizeof(dir), "%s/store", temp_dir(base));
	for (long at = 1 + (long)s->offset, i = 0; at <= s->n; at += (long)s->step, i++) {
		if ((size_t)i % n != k)
			continue;
		const char *bad = once(s->path, at, dir);
		s->sum[k].runs++;
		s->sum[k].hit += alloc_faults.hit > 0;
		if (bad && !s->sum[k].bad++)
			snprintf(s->sum[k].first, sizeof(s->sum[k].first), "at %ld: %.800s", at,
				 bad);
	}
	s->sum[k].lost = lost;
	remove_tree(base);
	if (s->sum[k].bad)
		_exit(0);
	exit(0); /* by exit, so that leaks are looked for */
}

static void every_allocation_fails(void **state)
{
	(void)state;
	char base[64], dir[80];
	const size_t part = part_of("allocations of a writer", 4);
	size_t bad = 0;
	for (size_t p = 0; p < sizeof(paths) / sizeof(paths[0]); p++) {
		struct sweep s = { .path = p, .step = run_step(paths[p].usual, paths[p].full) };
		if (paths[p].run == write_store)
			s.step *= part;
		size_t runs = 0, hit = 0, gone = 0;
		snprintf(dir, sizeof(dir), "%s/store", temp_dir(base));
		const char *first = once(p, 0, dir);
		if (first)
			fail_msg("%s, without a failure: %s", paths[p].name, first);
		remove_tree(base);
		s.n = alloc_faults.n;
		s.offset = run_offset(s.step);
		s.sum = run_shared(8 * sizeof(*s.sum));
		assert_int_equal(run_parallel(sweep_some, &s), 0);
		for (size_t k = 0; k < 8; k++) {
			runs += s.sum[k].runs;
			hit += s.sum[k].hit;
			gone += s.sum[k].lost;
			bad += s.sum[k].bad;
			if (s.sum[k].bad)
				print_message("  %zu bad, the first: %s\n", s.sum[k].bad,
					      s.sum[k].first);
		}
		munmap(s.sum, 8 * sizeof(*s.sum));
		print_message(
			"%s: %zu of %ld allocations failed, %zu windows lost, none of the others\n",
			paths[p].name, runs, s.n, gone);
		assert_true(hit > 10 && hit >= runs * 9 / 10);
	}
	assert_int_equal(bad, 0);
}

/* ---- lists that grow ---- */

/*
 * windows of a second: until their minute has a parent, the list of those that wait for one grows
 * at 17 and 33
 */
#define LATE 60

/*
 * Allocation `at` of the commits that make a list grow fails. What was kept is in the parent then.
 */
static bool grow_with(const char *dir, long at)
{
	struct store_options o = scenario_options;
	struct store_writer *w;
	struct store *s;
	struct store_cover c;
	struct err err = { 0 };
	uint64_t lost_n[2] = { 0 }, flagged[1] = { 0 }, kept = 0, want = 0, windows = 0,
		 samples = 0;
	struct store_cpu_totals cpu = { 0, 1, 1, lost_n, flagged };
	struct store_totals t = { &cpu, 1, 0, 0, 0 };
	o.grace_ns = 3600 * 1000000000ll;
	alloc_faults = (struct alloc_faults){ .at = at };
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
	for (int i = 0; i < LATE; i++) {
		/* tenant is a wide key of six values: windows wait for their postings, too */
		char labels[32];
		snprintf(labels, sizeof(labels), "tenant=t%d\n", i % 8);
		struct model_row row = { .labels = labels,
					 .stack = (char *)"main (/bin/x) 0 0\n",
					 .samples = 1u << i % 16 };
		int64_t t0 = 1700000040000000000 + i * 1000000000ll;
		assert_int_equal(model_put_row(w, &row), 0);
		alloc_faults.on = i == 16 || i == 32;
		int rc = store_commit_window(w, t0, t0 + 1000000000, (i + 1) * 1000000000ll, &t,
					     &err);
		alloc_faults.on = false;
		assert_true(!rc || rc == -ENOMEM);
		kept += !rc;
		want += rc ? 0 : row.samples;
	}
	assert_int_equal(store_compact(w, &err), 0);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++) {
		windows += c.blocks[i]->n_windows;
		assert_int_equal(store_block_folded(s, c.blocks[i], count_samples, &samples, &err),
				 0);
	}
	store_cover_free(&c);
	store_close(s);
	if (windows != kept || samples != want)
		fail_msg("allocation %ld: %" PRIu64 " windows were kept, parents hold %" PRIu64, at,
			 kept, windows);
	return alloc_faults.hit > 0;
}

static void lists_grow(void **state)
{
	(void)state;
	char base[64], dir[80];
	long at = 1;
	snprintf(dir, sizeof(dir), "%s/store", temp_dir(base));
	for (; grow_with(dir, at); at++)
		remove_tree(dir);
	print_message("%ld allocations failed\n", at - 1);
	assert_true(at > 20);
	remove_tree(base);
}

static int setup(void **state)
{
	static char base[64];
	*state = base;
	scenario_make(&scenario, N_WINDOWS + 1, 6);
	snprintf(whole, sizeof(whole), "%s/store", temp_dir(base));
	struct store_writer *w = NULL;
	struct err err = { 0 };
	for (size_t i = 0; i < N_WINDOWS; i++) {
		assert_int_equal(scenario_before(&w, whole, i, &err), 0);
		assert_int_equal(scenario_commit(&scenario, w, i, &err), 0);
	}
	store_writer_close(w);
	return 0;
}

static int teardown(void **state)
{
	remove_tree(*state);
	scenario_fini(&scenario);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_grow),
		cmocka_unit_test(every_allocation_fails),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
