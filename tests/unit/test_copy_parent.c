/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parent whose windows are gone, copied: its rows have the value of one key, and what all label
 * sets with it have in common. What a deletion does to each of them is written down here.
 */
#include "unit/copy_model.h"

enum fate {
	STAYS, /* with its stack, and the labels that all of its value have */
	TOLD,  /* without its stack: others of its value are removed */
	GOES,
};

static const struct {
	const char *put, *common;
	enum fate by_a_and_b, by_key; /* of which `matches` is asked below */
} rows[] = {
	{ "a=1\nb=2\nkey=the first\n", "a=1\nkey=the first\n", GOES, GOES },
	{ "a=1\nb=3\nkey=the first\n", "a=1\nkey=the first\n", TOLD, GOES },
	{ "a=1\nb=2\nkey=the second\n", "a=1\nb=2\nkey=the second\n", GOES, STAYS },
	{ "a=1\nkey=the third\n", "key=the third\n", STAYS, STAYS },
	{ "b=1\nkey=the third\n", "key=the third\n", STAYS, STAYS },
	{ "a=1\nb=2\nkey=the fourth\n", "key=the fourth\n", GOES, STAYS },
	{ "a=2\nb=1\nkey=the fourth\n", "key=the fourth\n", TOLD, STAYS },
	{ "a=2\nb=1\n", "b=1\n", STAYS, STAYS },
	{ "a=3\nb=1\n", "b=1\n", STAYS, STAYS },
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))
#define EVENTS 2

static char stack[] = "f (/bin/demo) 0 0\n";
static bool numbers; /* values of the key are numbers */

static const char *const names[][2] = {
	{ "key=the first\n", "query_id=-5\n" },
	{ "key=the second\n", "query_id=7\n" },
	{ "key=the third\n", "query_id=3000000000\n" },
	{ "key=the fourth\n", "query_id=12\n" },
};

/* Labels of a row; with a host where it has a name. Keys are in their order. */
static char *labels_of(const char *text, const char *host)
{
	const char *key = strstr(text, "key=");
	char out[100];
	size_t n = key ? (size_t)(key - text) : strlen(text);
	for (size_t i = 0; key && numbers && i < 4; i++)
		if (!strcmp(key, names[i][0])) {
			key = names[i][1];
			break;
		}
	snprintf(out, sizeof(out), "%.*s%s%s", (int)n, text, host, key ? key : "");
	return strdup(out);
}

/* One window with the rows, of each event; by the others its files are cut, but for its parents. */
static void make_parent(const char *dir)
{
	const struct store_totals none = { 0 };
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	o.wide_values = STORE_WIDE_VALUES;
	o.keep_ns[0] = o.keep_ns[1] = 12 * HOUR;
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
	for (int64_t i = 0; i < 6; i++) { /* files are of six hours */
		const int64_t t0 = T0 + 7 * i * HOUR;
		store_renew(w);
		store_renew_end(w);
		for (size_t k = 0; !i && k < EVENTS * ROWS; k++) {
			const struct model_row row = { labels_of(rows[k % ROWS].put, ""), stack,
						       (uint32_t)(k / ROWS), 10 + k, 5 * k };
			assert_int_equal(model_put_row(w, &row), 0);
			free(row.labels);
		}
		assert_int_equal(store_commit_window(w, t0, t0 + 10 * SECOND, 7 * i * HOUR + MINUTE,
						     &none, &err),
				 0);
	}
	store_writer_close(w);
}

/* The rows of the first window of a store are these, and are freed. */
static void check_first(const char *dir, struct model_window *want)
{
	struct store *s = open_store(dir);
	struct read_back b = { .s = s };
	struct model_window got = { .n = 0 };
	struct err err = { 0 };
	assert_int_equal(store_rows(s, 0, read_back_row, &b, &err), 0);
	for (size_t i = 0; i < b.n; i++)
		model_window_add(&got, b.rows[i]);
	free(b.rows);
	model_sort(want->rows, want->n);
	model_sort(got.rows, got.n);
	for (size_t i = 0; i < got.n && i < want->n; i++)
		if (model_row_cmp(&got.rows[i], &want->rows[i]))
			fail_msg("%s%snot\n%s%s", got.rows[i].labels, got.rows[i].stack,
				 want->rows[i].labels, want->rows[i].stack);
	assert_int_equal(got.n, want->n);
	for (size_t i = 0; i < got.n; i++) {
		assert_int_equal(got.rows[i].samples, want->rows[i].samples);
		assert_int_equal(got.rows[i].value, want->rows[i].value);
	}
	store_close(s);
	check_whole(dir);
	model_window_fini(&got);
	model_window_fini(want);
}

/* Row k of the copy; returns the samples that are gone. */
static uint64_t add_row(struct model_window *w, size_t k, enum fate fate, const char *host)
{
	const char *labels = fate == TOLD ? rows[k % ROWS].put : rows[k % ROWS].common;
	if (fate == GOES)
		return 10 + k;
	model_window_add(w, (struct model_row){ labels_of(labels, host),
						strdup(fate == TOLD ? "" : stack),
						(uint32_t)(k / ROWS), 10 + k, 5 * k });
	return 0;
}

static void merged(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct dirs d;
		struct model_window want = { .n = 0 };
		struct copy_result r;
		struct err err = { 0 };
		numbers = i;
		make_dirs(&d);
		make_parent(d.a);
		const char *const from[] = { d.a };
		if (store_merge(from, 1, d.out, NULL, &r, &err))
			fail_msg("%s", err.text);
		assert_in_range(r.coarse, 1, 5);
		for (size_t k = 0; k < EVENTS * ROWS; k++)
			add_row(&want, k, STAYS, "host=host\n");
		check_first(d.out, &want);
		remove_tree(d.base);
	}
}

static bool has(const char *text, const char *label)
{
	return strstr(text, label);
}

static int is_a_and_b(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx;
	char *text = model_labels_text(labels, n);
	*ret = has(text, "a=1\n") && has(text, "b=2\n");
	free(text);
	return 0;
}

static int is_key(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx;
	char *text = model_labels_text(labels, n);
	*ret = has(text, names[0][numbers]);
	free(text);
	return 0;
}

static int is_page_faults(void *ctx, const char *event, bool *ret)
{
	(void)ctx;
	*ret = !strcmp(event, "page-faults");
	return 0;
}

static void check_deletion(bool by_key, bool one_event)
{
	const char *const keys[2][2] = { { "a", "b" }, { numbers ? "query_id" : "key" } };
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = by_key ? is_key : is_a_and_b,
					    .event = one_event ? is_page_faults : NULL,
					    .keys = keys[by_key],
					    .n_keys = by_key ? 1 : 2 };
	struct dirs d;
	struct model_window want = { .n = 0 };
	struct copy_result r;
	struct err err = { 0 };
	uint64_t gone = 0;
	make_dirs(&d);
	make_parent(d.a);
	if (store_delete(d.a, &del, NULL, &r, &err))
		fail_msg("%s", err.text);
	for (size_t k = 0; k < EVENTS * ROWS; k++) {
		enum fate fate = by_key ? rows[k % ROWS].by_key : rows[k % ROWS].by_a_and_b;
		gone += add_row(&want, k, one_event && k < ROWS ? STAYS : fate, "");
	}
	assert_int_equal(r.removed_samples, gone);
	assert_int_equal(r.touched, 1);
	assert_int_equal(r.blind, 0);
	assert_in_range(r.coarse, 1, 5);
	check_first(d.a, &want);
	remove_tree(d.base);
}

static void deleted(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		numbers = i & 4;
		check_deletion(i & 1, i & 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merged),
		cmocka_unit_test(deleted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
