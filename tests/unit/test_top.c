/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ascribe top shows, beside sums over the plain-text rows that went into a store; narrowed
 * selectors beside the parser.
 */
#include "unit/store_model.h"

#include "query/selector.h"
#include "store/writer.h"
#include "top/numbers.h"

#define N_WINDOWS 30

static int setup(void **state)
{
	*state = fixture_of(5, N_WINDOWS, 120);
	return 0;
}

/* ---- sums of text ---- */

struct sums {
	struct sum {
		char *text;
		uint64_t samples;
	} *v;
	size_t n;
};

static void sums_add(struct sums *s, const char *text, uint64_t samples)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->v[i].text, text)) {
			s->v[i].samples += samples;
			return;
		}
	s->v = realloc(s->v, (s->n + 1) * sizeof(*s->v));
	s->v[s->n++] = (struct sum){ strdup(text), samples };
}

static uint64_t sums_get(const struct sums *s, const char *text)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->v[i].text, text))
			return s->v[i].samples;
	return 0;
}

static void sums_fini(struct sums *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].text);
	free(s->v);
	*s = (struct sums){ 0 };
}

/* The functions of a stack, "name (module)", root first; text is cut up. */
static size_t functions(char *text, char *ret[16])
{
	size_t n = 0;
	for (char *p = strtok(text, "\n"); p; p = strtok(NULL, "\n")) {
		*(strchr(p, ')') + 1) = 0;
		ret[n++] = p;
	}
	return n;
}

static bool label_of(const char *labels, const char *key, char *out, size_t cap)
{
	size_t len = strlen(key);
	for (const char *p = labels; *p; p = strchr(p, '\n') + 1)
		if (!strncmp(p, key, len) && p[len] == '=') {
			snprintf(out, cap, "%.*s", (int)strcspn(p + len + 1, "\n"), p + len + 1);
			return true;
		}
	snprintf(out, cap, "(none)");
	return false;
}

/*
 * What the last `windows` windows have, of tasks that use CPU, with tenant (NULL: any; "": without
 * it).
 */
typedef void each_row(void *ctx, const struct model_row *r, char *fn[16], size_t n);

static void each(const struct fixture *f, size_t windows, const char *tenant, each_row *cb,
		 void *ctx)
{
	for (size_t i = N_WINDOWS - windows; i < N_WINDOWS; i++)
		for (size_t k = 0; k < f->m.w[i].n; k++) {
			const struct model_row *r = &f->m.w[i].rows[k];
			char value[64], *fn[16], *text = strdup(r->stack);
			bool has = label_of(r->labels, "tenant", value, sizeof(value));
			if (r->event == 0 && !model_is_idle(r) &&
			    (!tenant || (*tenant ? has && !strcmp(value, tenant) : !has)))
				cb(ctx, r, fn, functions(text, fn));
			free(text);
		}
}

static void open_view(struct top_view *v, const struct fixture *f, const char *key, size_t windows)
{
	struct err err = { 0 };
	static const char *dirs[1];
	dirs[0] = f->dir;
	*v = (struct top_view){ .dirs = dirs,
				.n_dirs = 1,
				.event = "cpu-clock",
				.span_ns = (int64_t)windows * 10000000000 };
	assert_int_equal(view_init(v, key, NULL, &err), 0);
	if (view_load(v, &err))
		fail_msg("%s", err.text);
}

static void sum_tenant(void *ctx, const struct model_row *r, char *fn[16], size_t n)
{
	char value[64];
	(void)fn, (void)n;
	label_of(r->labels, "tenant", value, sizeof(value));
	sums_add(ctx, value, r->samples);
}

static void values(void **state)
{
	struct fixture *f = *state;
	static const size_t spans[] = { 1, 6, N_WINDOWS };
	for (size_t i = 0; i < 3; i++) {
		struct sums want = { 0 };
		struct top_view v;
		uint64_t all = 0;
		each(f, spans[i], NULL, sum_tenant, &want);
		open_view(&v, f, "tenant", spans[i]);
		assert_int_equal(v.n_rows, want.n);
		for (size_t k = 0; k < v.n_rows; k++) {
			const struct top_row *r = &v.rows[k];
			double low, high, rate = view_rate(&v, r->samples);
			assert_int_equal(r->samples,
					 sums_get(&want, r->missing ? "(none)" : r->text));
			assert_true(!k || r->samples <= v.rows[k - 1].samples);
			view_interval(&v, r->samples, &low, &high);
			assert_true(low <= rate + 1e-9 && rate <= high + 1e-9);
			/* One sample stands for 10.1 ms; a span has 10 s a window. */
			assert_true(rate - (double)r->samples * 0.010101010 /
						    (10.0 * (double)spans[i]) <
				    1e-6);
			all += r->samples;
		}
		assert_int_equal(v.head.samples, all);
		assert_int_equal(v.head.n_cpus, 2);
		view_fini(&v);
		sums_fini(&want);
	}
}

struct function_sums {
	struct sums self, total;
};

static void sum_functions(void *ctx, const struct model_row *r, char *fn[16], size_t n)
{
	struct function_sums *s = ctx;
	if (n)
		sums_add(&s->self, fn[n - 1], r->samples);
	for (size_t i = 0; i < n; i++) {
		bool seen = false;
		for (size_t k = 0; k < i; k++)
			seen |= !strcmp(fn[k], fn[i]);
		if (!seen)
			sums_add(&s->total, fn[i], r->samples);
	}
}

static size_t row_of(const struct top_view *v, const char *text)
{
	for (size_t i = 0; i < v->n_rows; i++)
		if (!strcmp(v->rows[i].missing ? "(none)" : v->rows[i].text, text))
			return i;
	fail_msg("no row %s", text);
	return 0;
}

static void enter(struct top_view *v, const char *text)
{
	struct err err = { 0 };
	assert_true(view_enter(v, row_of(v, text)));
	if (view_load(v, &err))
		fail_msg("%s", err.text);
}

static void check_functions(const struct fixture *f, const struct top_view *v, const char *tenant)
{
	struct function_sums want = { 0 };
	char text[300];
	each(f, N_WINDOWS, tenant, sum_functions, &want);
	assert_int_equal(v->n_rows, want.total.n);
	for (size_t i = 0; i < v->n_rows; i++) {
		snprintf(text, sizeof(text), "%s (%s)", v->rows[i].text, v->rows[i].module);
		assert_int_equal(v->rows[i].self, sums_get(&want.self, text));
		assert_int_equal(v->rows[i].samples, sums_get(&want.total, text));
	}
	sums_fini(&want.self);
	sums_fini(&want.total);
}

/* Into a value, the missing one, and back. */
static void functions_of_values(void **state)
{
	struct fixture *f = *state;
	struct top_view v;
	struct err err = { 0 };
	open_view(&v, f, "tenant", N_WINDOWS);
	enter(&v, "t3");
	assert_string_equal(v.level[1].where, "{\"tenant\"=\"t3\"}");
	check_functions(f, &v, "t3");
	assert_true(view_leave(&v));
	assert_int_equal(view_load(&v, &err), 0);
	enter(&v, "(none)");
	check_functions(f, &v, "");
	assert_int_equal(view_regroup(&v, "comm"), 0); /* by another key, within it */
	assert_int_equal(view_load(&v, &err), 0);
	assert_string_equal(v.level[1].where, "{\"tenant\"=\"\"}");
	assert_true(v.n_rows == 3);
	assert_true(view_leave(&v));
	assert_false(view_leave(&v));
	view_fini(&v);
}

/* What has no row is no value that could be selected, also beside a value of that name. */
static void other_is_no_value(void **state)
{
	static const char *const keys[] = { "tenant", NULL };
	struct fixture *f = *state;
	for (int i = 0; i < 2; i++) {
		struct top_view v;
		open_view(&v, f, keys[i], N_WINDOWS);
		size_t n = v.table->n_rows;
		v.table->rows[n - 1].other = true;
		assert_int_equal(view_arrange(&v), 0);
		assert_int_equal(v.n_rows, n);
		for (size_t k = 0; k < v.n_rows; k++) {
			assert_int_equal(view_enter(&v, k), !v.rows[k].other);
			assert_int_equal(view_leave(&v), !v.rows[k].other);
		}
		view_fini(&v);
	}
}

struct call_sums {
	const char *function;
	bool callers;
	struct sums paths;
};

/* Each path that begins with the outermost call of the function. */
static void sum_calls(void *ctx, const struct model_row *r, char *fn[16], size_t n)
{
	struct call_sums *s = ctx;
	char path[2000] = "";
	size_t i = 0;
	while (i < n && strcmp(fn[i], s->function))
		i++;
	if (i == n)
		return;
	for (size_t at = i;; at += s->callers ? -1 : 1) {
		snprintf(path + strlen(path), sizeof(path) - strlen(path), "%s\n", fn[at]);
		sums_add(&s->paths, path, r->samples);
		if (s->callers ? !at : at + 1 == n)
			return;
	}
}

static void check_calls(const struct top_view *v, const struct sums *want)
{
	char **path = calloc(v->calls.n, sizeof(*path));
	assert_int_equal(v->calls.n, want->n);
	for (uint32_t i = 0; i < v->calls.n; i++) {
		const struct calls_node *n = &v->calls.v[i];
		char name[300];
		query_frame_name(v->store, n->frame, name, sizeof(name));
		if (asprintf(&path[i], "%s%s (%s)\n", i ? path[n->parent] : "", name,
			     store_string(v->store, store_frame(v->store, n->frame)->module,
					  NULL)) < 0)
			fail();
		assert_true(n->samples > 0);
		assert_int_equal(n->samples, sums_get(want, path[i]));
		assert_true(!n->next_sibling || v->calls.v[n->next_sibling].samples <= n->samples);
	}
	for (uint32_t i = 0; i < v->calls.n; i++)
		free(path[i]);
	free(path);
}

/* Every branch opened: every node is a row, once; closed: the first alone. */
static void check_branches(struct top_view *v)
{
	for (size_t i = 0; i < v->n_rows; i++)
		if (v->rows[i].has_children)
			assert_int_equal(view_open(v, i, true), 0);
	assert_int_equal(v->n_rows, v->calls.n);
	for (size_t i = 0; i < v->n_rows; i++)
		for (size_t k = 0; k < i; k++)
			assert_true(v->rows[i].node != v->rows[k].node);
	assert_int_equal(view_open(v, 0, false), 0);
	assert_int_equal(v->n_rows, 1);
	assert_int_equal(view_open(v, 0, true), 0);
	assert_int_equal(v->n_rows, v->calls.n);
}

static void calls(void **state)
{
	struct fixture *f = *state;
	static const char *const names[] = { "server::handle_read_1", "server::handle_3",
					     "libc.so.6+0x1000" };
	for (size_t i = 0; i < 3; i++) {
		struct top_view v;
		struct err err = { 0 };
		char function[300];
		open_view(&v, f, "tenant", N_WINDOWS);
		enter(&v, "t2");
		size_t row = row_of(&v, names[i]);
		snprintf(function, sizeof(function), "%s (%s)", names[i], v.rows[row].module);
		assert_true(view_enter(&v, row));
		for (int turn = 0; turn < 2; turn++) {
			struct call_sums want = { function, turn == 0, { 0 } };
			if (view_load(&v, &err))
				fail_msg("%s", err.text);
			each(f, N_WINDOWS, "t2", sum_calls, &want);
			assert_true(want.paths.n > 3);
			check_calls(&v, &want.paths);
			check_branches(&v);
			sums_fini(&want.paths);
			assert_true(view_turn(&v));
		}
		view_fini(&v);
	}
}

/*
 * The cursor stays with its row, wherever that goes; a frozen view asks for the same windows again.
 */
static void cursor_and_time(void **state)
{
	struct fixture *f = *state;
	struct top_view v;
	struct err err = { 0 };
	open_view(&v, f, NULL, 1);
	view_mark(&v, 5);
	char *name = strdup(v.rows[5].text);
	uint64_t id = v.rows[5].id;
	view_sort_next(&v); /* by total */
	assert_int_equal(view_arrange(&v), 0);
	assert_int_equal(v.rows[view_level(&v)->at].id, id);
	for (size_t i = 1; i < v.n_rows; i++)
		assert_true(v.rows[i].samples <= v.rows[i - 1].samples);
	view_sort_next(&v); /* by name */
	assert_int_equal(view_arrange(&v), 0);
	assert_string_equal(v.rows[view_level(&v)->at].text, name);
	for (size_t i = 1; i < v.n_rows; i++)
		assert_true(strcmp(v.rows[i - 1].text, v.rows[i].text) <= 0);
	snprintf(view_level(&v)->filter, TOP_FILTER_MAX, "READ_1");
	assert_int_equal(view_arrange(&v), 0);
	assert_true(v.n_rows && v.n_rows < v.head.matching);
	for (size_t i = 0; i < v.n_rows; i++)
		assert_non_null(strstr(v.rows[i].text, "read_1"));
	view_mark(&v, 1000);
	assert_int_equal(view_level(&v)->at, v.n_rows - 1);
	snprintf(view_level(&v)->filter, TOP_FILTER_MAX, "nowhere");
	assert_int_equal(view_arrange(&v), 0);
	assert_int_equal(v.n_rows, 0);
	assert_false(view_enter(&v, 0));
	v.frozen_ns = f->m.w[3].t1;
	assert_int_equal(view_load(&v, &err), 0);
	uint64_t third = 0;
	for (size_t k = 0; k < f->m.w[3].n; k++)
		third += f->m.w[3].rows[k].event == 0 && !model_is_idle(&f->m.w[3].rows[k])
				 ? f->m.w[3].rows[k].samples
				 : 0;
	assert_int_equal(v.head.samples, third);
	free(name);
	view_fini(&v);
}

static void keys_of_what_is_shown(void **state)
{
	struct fixture *f = *state;
	struct top_view v;
	struct top_keys k = { 0 };
	struct err err = { 0 };
	open_view(&v, f, "comm", N_WINDOWS);
	enter(&v, "sh");
	assert_int_equal(view_keys(&v, &k, &err), 0);
	bool comm = false;
	for (size_t i = 0; i < k.n; i++)
		if (!strcmp(k.v[i].key, "comm")) {
			comm = true;
			assert_int_equal(k.v[i].values, 1);
			assert_int_equal(k.v[i].samples, v.head.samples);
		}
	assert_true(comm && k.n == 4); /* comm, tenant, query_id, event */
	view_keys_fini(&k);
	view_fini(&v);
}

static void no_store(void **state)
{
	const char *const dirs[] = { "/nonexistent/store" };
	struct top_view v = { .dirs = dirs, .n_dirs = 1, .span_ns = 1 };
	struct err err = { 0 };
	(void)state;
	assert_int_equal(view_init(&v, NULL, NULL, &err), 0);
	assert_int_equal(view_load(&v, &err), -ENOENT);
	assert_int_equal(v.n_rows, 0);
	assert_int_equal(view_arrange(&v), 0);
	view_sort_next(&v);
	view_mark(&v, 3);
	assert_false(view_enter(&v, 0));
	view_fini(&v);
}

/*
 * What a recorder beside the screen writes into: the last so many seconds are there, what is much
 * older is not.
 */
static void recent_windows(void **state)
{
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	(void)state;
	o.windows_only = true;
	o.recent_ns = 200ll * 1000000000;
	struct fixture *f = fixture_new(9, &o, &w);
	for (size_t i = 0; i < 90; i++) {
		const char *const dirs[] = { f->dir };
		struct top_view v = {
			.dirs = dirs, .n_dirs = 1, .event = "cpu-clock", .span_ns = o.recent_ns / 2
		};
		uint64_t want = 0;
		assert_int_equal(model_commit(&f->m, w, 5, &err), 0);
		for (size_t k = i < 10 ? 0 : i - 9; k <= i; k++)
			for (size_t r = 0; r < f->m.w[k].n; r++)
				want += f->m.w[k].rows[r].event == 0 &&
							!model_is_idle(&f->m.w[k].rows[r])
						? f->m.w[k].rows[r].samples
						: 0;
		assert_int_equal(view_init(&v, NULL, NULL, &err), 0);
		if (view_load(&v, &err))
			fail_msg("%s", err.text);
		assert_int_equal(v.head.samples, want);
		/* Recent, a file, a minute, the one that is open */
		assert_true(store_n_windows(v.store) <= 20 + 10 + 6 + 1);
		view_fini(&v);
	}
	fixture_open(f, w);
	assert_true(store_n_windows(f->s) >= 20);
	void *fixture = f;
	fixture_teardown(&fixture);
}

/* ---- selectors ---- */

static void narrowed(void **state)
{
	struct model m = { .random = 77 };
	static const char *const before[] = { NULL,	     "",
					      "{}",	     "{a=\"1\"}",
					      " a=\"1\" , ", "{a=\"}\",b=~\"x{2}\",}" };
	(void)state;
	for (int i = 0; i < 3000; i++) {
		char value[24] = "";
		size_t n = model_random(&m, sizeof(value) - 1), len = 0;
		for (size_t k = 0; k < n; k++)
			value[len++] = (char)(1 + model_random(&m, 255));
		char *text = view_narrow(before[i % 6], "te nant", value);
		struct selector *s;
		struct err err = { 0 };
		bool match;
		const char *keys[8];
		if (selector_parse(&s, text, NULL, &err))
			fail_msg("%s: %s", text, err.text);
		assert_int_equal(selector_keys(s, keys, 8), i % 6 < 3 ? 1 : i % 6 < 5 ? 2 : 3);
		struct label l[3] = {
			{ .key = "a", .key_len = 1, .str = i % 6 == 5 ? "}" : "1", .str_len = 1 },
			{ .key = "b", .key_len = 1, .str = "xx", .str_len = 2 },
			{ .key = "te nant", .key_len = 7, .str = value, .str_len = (uint32_t)len }
		};
		assert_int_equal(selector_match(s, l, 3, &match, &err), 0);
		assert_true(match);
		l[2].str = "another value";
		l[2].str_len = 13;
		assert_int_equal(selector_match(s, l, 3, &match, &err), 0);
		assert_false(match);
		selector_free(s);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(functions_of_values),
		cmocka_unit_test(other_is_no_value),
		cmocka_unit_test(calls),
		cmocka_unit_test(cursor_and_time),
		cmocka_unit_test(keys_of_what_is_shown),
		cmocka_unit_test(no_store),
		cmocka_unit_test(recent_windows),
		cmocka_unit_test(narrowed),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
