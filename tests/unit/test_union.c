/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three stores read as one, beside a sum of the plain-text rows. Two are of one host; there are
 * windows that begin at other times, events and counters in another order, rows with a label `host`
 * of their own.
 */
#include "unit/store_model.h"

#include "query/query.h"
#include "store/writer.h"

#define SECOND 1000000000ll
#define T0 1700000000000000000ll
#define N_SOURCES 3
#define N_WINDOWS 130
#define MOST 4096 /* keys of a sum */

struct source {
	struct model m;
	char dir[64];
	const char *host;
	int64_t begin;
};

static struct source sources[N_SOURCES] = {
	{ .m.random = 1, .host = "alpha", .begin = T0 },
	{ .m.random = 2, .host = "beta", .begin = T0 + 3700000000 },
	{ .m.random = 3, .host = "alpha", .begin = T0 + 300 * SECOND + 1 },
};
static struct store *all;

static const char *const other_lost[] = { "rows_full", "ring_full", "not_run" };
static const char *const other_flagged[] = { "truncated", "idle" };

static struct store_writer *create(const struct source *s, bool other)
{
	struct store_meta meta = model_meta;
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	uint32_t id;
	meta.host = s->host;
	if (other) {
		meta.lost_names = other_lost;
		meta.n_lost = 3;
		meta.flagged_names = other_flagged;
		meta.n_flagged = 2;
	}
	if (store_writer_open_with(&w, s->dir, &meta, &o, &err))
		fail_msg("%s", err.text);
	for (int i = 2; other && i >= 0; i--)
		assert_int_equal(store_add_event(w, &model_events[i], &id), 0);
	return w;
}

/* Some rows of the second store have a host: of another name, or of a store's. */
static void name_hosts(struct model_window *w)
{
	for (size_t i = 0; i < w->n; i += 7) {
		char *text;
		assert_true(asprintf(&text, "%shost=%s\n", w->rows[i].labels,
				     i % 2 ? "alpha" : "gamma") > 0);
		free(w->rows[i].labels);
		w->rows[i].labels = text;
	}
}

static void write_source(struct source *s, bool other)
{
	struct err err = { 0 };
	temp_dir(s->dir);
	struct store_writer *w = create(s, other);
	for (size_t i = 0; i < N_WINDOWS; i++) {
		struct model_window *to = &s->m.w[s->m.n++];
		uint64_t lost[3] = { i, 1, 2 }, flagged[2] = { 3, 4 };
		struct store_cpu_totals cpu = { 0, 1003 + i, 1000, lost, flagged };
		struct store_totals t = { &cpu, 1, 0, 0, 0 };
		to->t0 = s->begin + (int64_t)i * 10 * SECOND;
		to->t1 = to->t0 + 10 * SECOND;
		model_fill(&s->m, NULL, to, 40);
		if (other)
			name_hosts(to);
		for (size_t k = 0; k < to->n; k++)
			assert_int_equal(model_put_row(w, &to->rows[k]), 0);
		if (store_commit_window(w, to->t0, to->t1, MODEL_BOOT(i), &t, &err))
			fail_msg("%s", err.text);
	}
	assert_int_equal(store_compact(w, &err), 0);
	store_writer_close(w);
}

static int setup(void **state)
{
	const char *dirs[N_SOURCES];
	struct err err = { 0 };
	(void)state;
	for (size_t i = 0; i < N_SOURCES; i++) {
		write_source(&sources[i], i == 1);
		dirs[i] = sources[i].dir;
	}
	if (store_open_all(&all, dirs, N_SOURCES, &err))
		fail_msg("%s", err.text);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	store_close(all);
	for (size_t i = 0; i < N_SOURCES; i++) {
		remove_tree(sources[i].dir);
		model_fini(&sources[i].m);
	}
	return 0;
}

/* ---- sums by text ---- */

struct sums {
	char *text[MOST];
	uint64_t samples[MOST];
	size_t n;
};

static void sums_add(struct sums *s, const char *text, uint64_t samples)
{
	size_t i = 0;
	while (i < s->n && strcmp(s->text[i], text))
		i++;
	assert_true(i < MOST);
	if (i == s->n) {
		s->text[s->n] = strdup(text);
		s->samples[s->n++] = 0;
	}
	s->samples[i] += samples;
}

static void sums_fini(struct sums *s)
{
	while (s->n)
		free(s->text[--s->n]);
}

static void check_same(const struct sums *got, const struct sums *want)
{
	assert_int_equal(got->n, want->n);
	for (size_t i = 0; i < want->n; i++) {
		size_t k = 0;
		while (k < got->n && strcmp(got->text[k], want->text[i]))
			k++;
		if (k == got->n)
			fail_msg("nothing has '%s'", want->text[i]);
		assert_int_equal(got->samples[k], want->samples[i]);
	}
}

/* ---- brute force ---- */

struct asked {
	const char *where; /* of the query */
	/* The same: its host; a line of its labels; NULL: any */
	const char *host, *label;
	const char *keys[2];
	size_t n_keys;
	int64_t from, to;
};

/* "key=value\n" of the labels of a row with its host, in `out`; false: it has no such label. */
static bool line_of(const struct source *s, const struct model_row *r, const char *key, char *out)
{
	size_t len = strlen(key);
	const char *p = r->labels;
	while (*p && (strncmp(p, key, len) || p[len] != '='))
		p = strchr(p, '\n') + 1;
	if (*p)
		sprintf(out, "%.*s\n", (int)strcspn(p, "\n"), p);
	else if (!strcmp(key, "host"))
		sprintf(out, "host=%s\n", s->host);
	else
		*out = '\0';
	return *out;
}

static bool matches(const struct source *s, const struct model_row *r, const struct asked *a)
{
	char line[100], want[100];
	if (r->event)
		return false;
	if (a->host) {
		sprintf(want, "host=%s\n", a->host);
		line_of(s, r, "host", line);
		if (strcmp(line, want))
			return false;
	}
	return !a->label || strstr(r->labels, a->label);
}

/* The greater part of the window is in the range. */
static bool in_range(const struct model_window *w, const struct asked *a)
{
	int64_t middle = w->t0 + (w->t1 - w->t0) / 2;
	return middle > a->from && middle <= a->to;
}

static void brute(const struct asked *a, bool stacks, struct sums *ret)
{
	for (size_t i = 0; i < N_SOURCES; i++)
		for (size_t k = 0; k < sources[i].m.n; k++) {
			const struct model_window *w = &sources[i].m.w[k];
			for (size_t r = 0; r < w->n && in_range(w, a); r++) {
				char text[400] = "";
				if (!matches(&sources[i], &w->rows[r], a))
					continue;
				for (size_t j = 0; j < a->n_keys; j++) {
					char line[100];
					if (line_of(&sources[i], &w->rows[r], a->keys[j], line))
						strcat(text, line);
				}
				sums_add(ret, stacks ? w->rows[r].stack : text, w->rows[r].samples);
			}
		}
}

static struct query *ask(const struct asked *a, enum query_labels labels)
{
	const struct query_spec spec = { .where = a->where,
					 .from_ns = a->from,
					 .to_ns = a->to,
					 .event = "cpu-clock",
					 .idle = true,
					 .labels = labels,
					 .keys = a->keys,
					 .n_keys = a->n_keys };
	struct query *q;
	struct err err = { 0 };
	if (query_open(&q, all, &spec, &err))
		fail_msg("%s", err.text);
	return q;
}

/* The keys in question of a set; a query also keeps those of its selector. */
static char *keys_text(const struct query *q, uint32_t set, const struct asked *a)
{
	const struct label *l;
	struct label kept[2];
	size_t n = query_set(q, set, &l), n_kept = 0;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < a->n_keys; k++)
			if (l[i].key_len == strlen(a->keys[k]) &&
			    !memcmp(l[i].key, a->keys[k], l[i].key_len))
				kept[n_kept++] = l[i];
	return model_labels_text(kept, n_kept);
}

static void check(const struct asked *a, enum query_labels labels)
{
	struct sums got = { .n = 0 }, want = { .n = 0 };
	bool stacks = labels == QUERY_NO_LABELS;
	struct query *q = ask(a, labels);
	size_t n;
	const struct store_row *rows = query_rows(q, &n);
	for (size_t i = 0; i < n; i++) {
		char *text = stacks ? store_stack_text(all, rows[i].stack)
				    : keys_text(q, rows[i].set, a);
		sums_add(&got, text, rows[i].samples);
		free(text);
	}
	brute(a, stacks, &want);
	check_same(&got, &want);
	query_close(q);
	sums_fini(&got);
	sums_fini(&want);
}

/* Keys in the order of their bytes, as labels are. */
static const struct asked questions[] = {
	{ "", NULL, NULL, { "host" }, 1, INT64_MIN, INT64_MAX },
	{ "", NULL, NULL, { "comm" }, 1, INT64_MIN, INT64_MAX },
	{ "", NULL, NULL, { "host", "tenant" }, 2, INT64_MIN, INT64_MAX },
	{ "{tenant=\"t1\"}", NULL, "tenant=t1\n", { "host" }, 1, INT64_MIN, INT64_MAX },
	{ "{host=\"beta\"}", "beta", NULL, { "tenant" }, 1, INT64_MIN, INT64_MAX },
	{ "{host=\"alpha\"}", "alpha", NULL, { "comm", "host" }, 2, INT64_MIN, INT64_MAX },
	{ "{host=\"gamma\"}", "gamma", NULL, { "host" }, 1, INT64_MIN, INT64_MAX },
	{ "{host=\"alpha\",tenant=\"t2\"}",
	  "alpha",
	  "tenant=t2\n",
	  { "query_id" },
	  1,
	  INT64_MIN,
	  INT64_MAX },
	{ "{host=\"nobody\"}", "nobody", NULL, { "comm" }, 1, INT64_MIN, INT64_MAX },
};
#define N_QUESTIONS (sizeof(questions) / sizeof(questions[0]))

static void test_sums(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_QUESTIONS; i++) {
		check(&questions[i], QUERY_KEYS);
		check(&questions[i], QUERY_KEYS_STACKS);
		check(&questions[i], QUERY_NO_LABELS);
	}
}

static void test_ranges(void **state)
{
	struct model draw = { .random = 9 };
	(void)state;
	for (int i = 0; i < 60; i++) {
		struct asked a = questions[model_random(&draw, N_QUESTIONS)];
		a.from = T0 + (int64_t)model_random(&draw, 1200) * SECOND +
			 model_random(&draw, 1000000);
		a.to = a.from + (int64_t)(40 + model_random(&draw, 600)) * SECOND +
		       model_random(&draw, 1000000);
		check(&a, QUERY_KEYS);
		check(&a, QUERY_NO_LABELS);
	}
}

static uint64_t counter(const struct query *q, const char *name, bool lost)
{
	const struct store_meta *m = store_meta(all);
	for (size_t i = 0; i < (lost ? m->n_lost : m->n_flagged); i++)
		if (!strcmp((lost ? m->lost_names : m->flagged_names)[i], name))
			return lost ? query_info(q)->lost[i] : query_info(q)->flagged[i];
	fail_msg("no counter %s", name);
	return 0;
}

static void test_counters(void **state)
{
	const uint64_t n = N_WINDOWS, numbers = n * (n - 1) / 2;
	struct query *q = ask(&questions[0], QUERY_TOTALS);
	const struct query_info *info = query_info(q);
	(void)state;
	assert_string_equal(store_meta(all)->host, "alpha, beta");
	assert_int_equal(info->windows, 3 * n);
	assert_true(info->blocks < n / 2); /* parents are read */
	assert_int_equal(info->fired, 3 * (1003 * n + numbers));
	assert_int_equal(info->stored, 3 * 1000 * n);
	assert_int_equal(counter(q, "not_run", true), 2 * numbers + 2 * n);
	assert_int_equal(counter(q, "rows_full", true), 2 * n + numbers);
	assert_int_equal(counter(q, "ring_full", true), n);
	assert_int_equal(counter(q, "idle", false), 2 * 3 * n + 4 * n);
	assert_int_equal(counter(q, "truncated", false), 3 * n);
	query_close(q);
}

/* The budget is one for all stores: what is cut is summed, and nothing is lost. */
static void test_budget(void **state)
{
	const struct asked a = { "", NULL, NULL, { "host", "query_id" }, 2, INT64_MIN, INT64_MAX };
	struct sums want = { .n = 0 };
	uint64_t sum = 0;
	(void)state;
	brute(&a, false, &want);
	for (size_t i = 0; i < want.n; i++)
		sum += want.samples[i];
	store_limit(all, &(struct store_limits){ .bytes = 64 << 10, .symbols = 64 << 10 });
	struct query *q = ask(&a, QUERY_KEYS_STACKS);
	assert_true(query_info(q)->bounded);
	assert_int_equal(query_info(q)->samples, sum);
	query_close(q);
	store_limit(all, &(struct store_limits){ .bytes = 0 });
	sums_fini(&want);
}

/* A store of which retention has cut most windows; ret: its samples of the first event. */
static void write_cut(const char *dir, uint64_t *ret)
{
	struct store_meta meta = model_meta;
	struct store_options o = model_options;
	struct store_writer *w;
	struct model m = { .random = 8 };
	struct err err = { 0 };
	meta.host = "delta";
	o.symbols_memory = 1; /* each window has a file */
	o.keep_ns[0] = o.keep_ns[1] = 3600 * SECOND;
	if (store_writer_open_with(&w, dir, &meta, &o, &err))
		fail_msg("%s", err.text);
	*ret = 0;
	for (int64_t i = 0; i < 100; i++) {
		struct model_window win = { 0 };
		uint64_t none[2] = { 0 };
		struct store_cpu_totals cpu = { 0, 1000, 1000, none, none };
		struct store_totals t = { &cpu, 1, 0, 0, 0 };
		store_renew(w);
		store_renew_end(w);
		model_fill(&m, w, &win, 10);
		for (size_t k = 0; k < win.n; k++)
			*ret += win.rows[k].event ? 0 : win.rows[k].samples;
		model_window_fini(&win);
		if (store_commit_window(w, T0 + i * 300 * SECOND, T0 + (i * 300 + 10) * SECOND,
					(i * 300 + 10) * SECOND, &t, &err))
			fail_msg("%s", err.text);
	}
	store_writer_close(w);
}

/* Where labels are gone with their windows the host is not. */
static void test_labels_gone(void **state)
{
	const struct asked a = { "", NULL, NULL, { "host" }, 1, INT64_MIN, INT64_MAX };
	static const enum query_labels kinds[] = { QUERY_ALL_LABELS, QUERY_KEYS_STACKS,
						   QUERY_KEYS };
	const char *dirs[2] = { sources[1].dir };
	struct store *before = all;
	struct sums want = { .n = 0 };
	struct err err = { 0 };
	char dir[64];
	uint64_t samples;
	(void)state;
	write_cut(dirs[1] = temp_dir(dir), &samples);
	if (store_open_all(&all, dirs, 2, &err))
		fail_msg("%s", err.text);
	sums_add(&want, "host=delta\n", samples);
	for (size_t k = 0; k < sources[1].m.n; k++)
		for (size_t r = 0; r < sources[1].m.w[k].n; r++) {
			char line[100];
			line_of(&sources[1], &sources[1].m.w[k].rows[r], "host", line);
			if (!sources[1].m.w[k].rows[r].event)
				sums_add(&want, line, sources[1].m.w[k].rows[r].samples);
		}
	for (size_t i = 0; i < 3; i++) {
		struct sums got = { .n = 0 };
		struct query *q = ask(&a, kinds[i]);
		size_t n;
		const struct store_row *rows = query_rows(q, &n);
		assert_true(i || query_info(q)->coarse > 0);
		for (size_t k = 0; k < n; k++) {
			char *text = keys_text(q, rows[k].set, &a);
			sums_add(&got, text, rows[k].samples);
			free(text);
		}
		check_same(&got, &want);
		query_close(q);
		sums_fini(&got);
	}
	store_close(all);
	all = before;
	sums_fini(&want);
	remove_tree(dir);
}

static void test_keys(void **state)
{
	struct err err = { 0 };
	bool has = false;
	(void)state;
	assert_int_equal(store_has_key(all, "host", &has, &err), 0);
	assert_true(has);
	assert_int_equal(store_has_key(all, "no_such_key", &has, &err), 0);
	assert_false(has);
	assert_true(store_is_wide(all, "query_id"));
	assert_false(store_is_wide(all, "host"));
}

static void test_opening(void **state)
{
	const char *dirs[STORE_UNION_MAX + 1] = { sources[0].dir, "/nonexistent" };
	struct store *s = NULL;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(store_open_all(&s, dirs, 2, &err), -ENOENT);
	assert_null(s);
	assert_int_equal(store_open_all(&s, dirs, STORE_UNION_MAX + 1, &err), -E2BIG);
	assert_int_equal(store_open_all(&s, dirs, 1, &err), 0);
	assert_string_equal(store_meta(s)->host, "alpha");
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),	    cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_counters),    cmocka_unit_test(test_budget),
		cmocka_unit_test(test_keys),	    cmocka_unit_test(test_opening),
		cmocka_unit_test(test_labels_gone),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
