/* SPDX-License-Identifier: Apache-2.0 */
/* Small tables by hand: the order of equal rows, texts, shorter names, rows counted elsewhere. */
#include "unit/store_model.h"

#include "query/query.h"

#define T0 1700000000000000000ll
#define WINDOW 10000000000ll

static struct store *store;
static char dir[64];

static void add(struct store_writer *w, const char *labels, const char *function, uint64_t n)
{
	struct model_row row = { .event = 0, .samples = n, .value = n * 10101010 };
	char stack[200];
	snprintf(stack, sizeof(stack), "main (/bin/a) 0 0\n%s", function);
	row.labels = (char *)(uintptr_t)labels;
	row.stack = stack;
	assert_int_equal(model_put_row(w, &row), 0);
}

static int setup(void **state)
{
	struct store_writer *w;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	add(w, "query_id=10\ntenant=b\n", "sort.isra.0 (/bin/a) 0 0\n", 5);
	add(w, "query_id=9\ntenant=b\n", "sort (/bin/a) 0 0\n", 5);
	add(w, "tenant=b\n", "sort (/bin/b) 0 0\n", 5);
	add(w, "query_id=-3\ntenant=a\n", "pool<int>::take(long) (/bin/a) 0 0\n", 7);
	add(w, "query_id=-20\ntenant=a\n", "pool<char>::take(int) (/bin/a) 0 0\n", 7);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	add(w, "tenant=c\n", "late (/bin/a) 0 0\n", 100);
	assert_int_equal(model_commit_at(w, 1, &err), 0);
	store_writer_close(w);
	store = open_store(dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	store_close(store);
	remove_tree(dir);
	return 0;
}

static struct query *ask(enum query_names names, const char *const *keys, size_t n_keys)
{
	const struct query_spec spec = { .names = names,
					 .from_ns = T0,
					 .to_ns = T0 + WINDOW,
					 .labels = n_keys ? QUERY_KEYS : QUERY_NO_LABELS,
					 .keys = keys,
					 .n_keys = n_keys };
	struct query *q;
	struct err err = { 0 };
	if (query_open(&q, store, &spec, &err))
		fail_msg("%s", err.text);
	assert_int_equal(query_info(q)->samples, 29);
	return q;
}

/* Rows by samples; equal ones by their values: none, then integers as numbers, else by bytes. */
static void order(void **state)
{
	static const char *const keys[] = { "tenant", "query_id" };
	static const char *const want[] = { "a,-20", "a,-3", "b,", "b,9", "b,10" };
	struct query *q = ask(QUERY_NAMES_FULL, keys, 2);
	struct query_table *t;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(query_table(q, keys, 2, &t, &err), 0);
	assert_int_equal(t->n_rows, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_string_equal(t->rows[i].text, want[i]);
		assert_int_equal(t->rows[i].samples, i < 2 ? 7 : 5);
		assert_int_equal(t->rows[i].present[1], i != 2);
		assert_false(t->rows[i].other);
	}
	query_table_free(t);
	query_close(q);
}

/* Values of one row each: integers by their value, as far as they are such, all else by bytes. */
static void order_of_values(void **state)
{
	static const char *const want[] = { "",
					    "-",
					    "-20",
					    "-3",
					    "0",
					    "00",
					    "7",
					    "9",
					    "10",
					    "9223372036854775807",
					    "9223372036854775808",
					    "a",
					    "a1" };
	enum { N = sizeof(want) / sizeof(want[0]) };
	static const char *const keys[] = { "k" };
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .labels = QUERY_KEYS,
					 .keys = keys,
					 .n_keys = 1 };
	(void)state;
	for (size_t shift = 0; shift < N; shift++) {
		struct store_writer *w;
		struct query_table *t;
		struct query *q;
		struct err err = { 0 };
		char own[64], text[40];
		assert_int_equal(store_writer_open_with(&w, temp_dir(own), &model_meta,
							&model_options, &err),
				 0);
		for (size_t i = 0; i < N; i++) { /* in another order each time */
			snprintf(text, sizeof(text), "k=%s\n", want[(i * 5 + shift) % N]);
			add(w, text, "f (/bin/a) 0 0\n", 1);
		}
		assert_int_equal(model_commit_at(w, 0, &err), 0);
		store_writer_close(w);
		struct store *s = open_store(own);
		assert_int_equal(query_open(&q, s, &spec, &err), 0);
		assert_int_equal(query_table(q, keys, 1, &t, &err), 0);
		assert_int_equal(t->n_rows, N);
		for (size_t i = 0; i < N; i++)
			assert_string_equal(t->rows[i].values[0], want[i]);
		query_table_free(t);
		query_close(q);
		store_close(s);
		remove_tree(own);
	}
}

/* What was cut may be of any function: each may have so much more. */
static void cut(void **state)
{
	const struct query_spec spec = { .from_ns = T0,
					 .to_ns = T0 + WINDOW,
					 .labels = QUERY_NO_LABELS };
	struct query_table *t;
	struct query *q;
	struct err err = { 0 };
	uint64_t rest = 0;
	size_t n;
	(void)state;
	store_limit(store, &(struct store_limits){ .bytes = 1 });
	assert_int_equal(query_open(&q, store, &spec, &err), 0);
	store_limit(store, &(struct store_limits){ 0 });
	const struct store_row *rows = query_rows(q, &n);
	for (size_t i = 0; i < n; i++)
		rest += query_row_is_other(q, &rows[i]) ? rows[i].samples : 0;
	assert_true(rest > 0 && query_info(q)->bounded);
	assert_int_equal(query_table(q, NULL, 0, &t, &err), 0);
	assert_true(t->approximate);
	assert_int_equal(t->bound, rest);
	for (size_t i = 0; i < t->n_rows; i++)
		assert_int_equal(t->rows[i].error, t->rows[i].other ? 0 : rest);
	query_table_free(t);
	query_close(q);
}

static void check_names(enum query_names names, const char *const *want, const uint64_t *self,
			size_t n)
{
	struct query *q = ask(names, NULL, 0);
	struct query_table *t;
	struct err err = { 0 };
	assert_int_equal(query_table(q, NULL, 0, &t, &err), 0);
	assert_int_equal(t->n_rows, n);
	for (size_t i = 0; i < n; i++) {
		char text[100];
		snprintf(text, sizeof(text), "%s %s", t->rows[i].text, t->rows[i].module);
		assert_string_equal(text, want[i]);
		assert_int_equal(t->rows[i].self, self[i]);
		assert_int_equal(t->rows[i].samples, i == n - 1 ? 29 : self[i]);
		assert_false(t->rows[i].inlined);
	}
	query_table_free(t);
	query_close(q);
}

/* Functions whose shorter names are the same are one, but not of two files. */
static void names(void **state)
{
	static const char *const full[] = { "pool<char>::take(int) /bin/a",
					    "pool<int>::take(long) /bin/a",
					    "sort /bin/a",
					    "sort /bin/b",
					    "sort.isra.0 /bin/a",
					    "main /bin/a" };
	static const char *const folded[] = { "sort /bin/a", "pool<char>::take(int) /bin/a",
					      "pool<int>::take(long) /bin/a", "sort /bin/b",
					      "main /bin/a" };
	static const char *const simple[] = { "pool::take /bin/a", "sort /bin/a", "sort /bin/b",
					      "main /bin/a" };
	(void)state;
	check_names(QUERY_NAMES_FULL, full, (uint64_t[]){ 7, 7, 5, 5, 5, 0 }, 6);
	check_names(QUERY_NAMES_FOLDED, folded, (uint64_t[]){ 10, 7, 7, 5, 0 }, 5);
	check_names(QUERY_NAMES_SIMPLE, simple, (uint64_t[]){ 14, 10, 5, 0 }, 4);
}

/* No function has more samples than there are by now, and none more of its own than in all. */
static void counted(void **state)
{
	struct query_function v[] = { { "small", "/bin/x", 1, 2, true },
				      { "grown", "/bin/x", 50, 60, false },
				      { "odd", "/bin/y", 9, 4, false } };
	const struct query_counted c = { v, 3, 10 };
	struct query *q = ask(QUERY_NAMES_FULL, NULL, 0);
	struct query_table *t;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(query_table_counted(q, &c, &t, &err), 0);
	assert_int_equal(t->n_rows, 3);
	assert_int_equal(t->n_left, 7);
	assert_string_equal(t->rows[0].text, "grown");
	assert_int_equal(t->rows[0].samples, 29);
	assert_int_equal(t->rows[0].self, 29);
	assert_string_equal(t->rows[1].text, "odd");
	assert_string_equal(t->rows[1].module, "/bin/y");
	assert_int_equal(t->rows[1].samples, 4);
	assert_int_equal(t->rows[1].self, 4);
	assert_string_equal(t->rows[2].text, "small");
	assert_int_equal(t->rows[2].samples, 2);
	assert_int_equal(t->rows[2].self, 1);
	assert_true(t->rows[2].inlined && !t->rows[1].inlined);
	double low, high;
	query_interval(2, 29, &low, &high);
	assert_true(t->rows[2].low == low && t->rows[2].high == high);
	query_table_free(t);
	query_close(q);
}

/* One block, whatever the range. */
static void block(void **state)
{
	static const char *const keys[] = { "tenant" };
	struct store_cover c;
	struct query *q;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(store_cover(store, T0 + WINDOW, T0 + WINDOW + 1, STORE_ALL_LABELS, NULL, 0,
				     &c, &err),
			 0);
	const struct query_spec spec = { .from_ns = T0,
					 .to_ns = T0 + 1,
					 .labels = QUERY_KEYS,
					 .keys = keys,
					 .n_keys = 1,
					 .block = c.blocks[0] };
	assert_int_equal(query_open(&q, store, &spec, &err), 0);
	assert_int_equal(query_info(q)->samples, 100);
	assert_int_equal(query_info(q)->blocks, 1);
	assert_int_equal(query_info(q)->coarse, 0);
	assert_int_equal(query_info(q)->from_ns, T0 + WINDOW);
	assert_int_equal(query_info(q)->to_ns, T0 + 2 * WINDOW);
	query_close(q);
	store_cover_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order), cmocka_unit_test(order_of_values), cmocka_unit_test(cut),
		cmocka_unit_test(names), cmocka_unit_test(counted),	    cmocka_unit_test(block),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
