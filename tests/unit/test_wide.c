/* SPDX-License-Identifier: Apache-2.0 */
/* Which label keys are wide: by their distinct values in an hour, however often each comes. */
#include "store/store.h"
#include "store/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOWS 12
#define MOST 60 /* values of a key that is not wide */

/* One row for each value of a key. */
static void add_values(struct store_writer *w, uint32_t event, const char *key, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char value[16];
		uint32_t set;
		snprintf(value, sizeof(value), "v%u", i);
		const struct label l = { .key = key,
					 .key_len = (uint32_t)strlen(key),
					 .str = value,
					 .str_len = (uint32_t)strlen(value),
					 .type = LABEL_STRING };
		assert_int_equal(store_add_set(w, &l, 1, &set), 0);
		assert_int_equal(store_add_row(w, set, 0, event, 1, 1), 0);
	}
}

/* How many values the file says that a wide key has; 0: it is not wide. */
static uint32_t values_of(const struct store *s, const char *key)
{
	struct store_wide_key k;
	for (size_t i = 0; store_wide_key(s, i, &k); i++)
		if (!strcmp(k.key, key))
			return k.values;
	return 0;
}

/* Write windows that `fill` fills, and open the store. dir: a pattern of mkdtemp. */
static struct store *written(char *dir, const struct store_options *o,
			     void (*fill)(struct store_writer *w, uint32_t event, unsigned window))
{
	char path[64];
	const struct store_meta meta = { .host = "h", .os = "o", .what = "w", .created_ns = 1 };
	const struct store_event e = { .name = "cpu-clock", .unit = "nanoseconds" };
	struct store_totals totals = { 0 };
	struct err err = { 0 };
	struct store_writer *w;
	struct store *s;
	uint32_t event;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	assert_int_equal(store_writer_open_with(&w, path, &meta, o, &err), 0);
	for (unsigned i = 0; i < WINDOWS; i++) {
		assert_int_equal(store_add_event(w, &e, &event), 0);
		fill(w, event, i);
		assert_int_equal(
			store_commit_window(w, 1000 * i, 1000 * (i + 1), 1000 * i, &totals, &err),
			0);
	}
	store_writer_close(w);
	assert_int_equal(store_open(&s, path, &err), 0);
	return s;
}

static void remove_store(struct store *s, const char *dir)
{
	char command[80];
	store_close(s);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

static void fill_values(struct store_writer *w, uint32_t event, unsigned window)
{
	add_values(w, event, "many", MOST + 1);
	add_values(w, event, "few", 40);
	add_values(w, event, "edge", MOST);
	add_values(w, event, "huge", window ? 0 : 8 * MOST + 7);
	add_values(w, event, "once", window ? 0 : MOST + 1);
}

static void test_values_count_once(void **state)
{
	(void)state;
	char dir[] = "/tmp/test_wide.XXXXXX";
	struct store_options o;
	store_options_default(&o);
	o.wide_values = MOST;
	struct store *s = written(dir, &o, fill_values);
	assert_false(store_is_wide(s, "few"));
	assert_false(store_is_wide(s, "edge"));
	assert_true(store_is_wide(s, "many"));
	assert_int_equal(values_of(s, "many"), MOST + 1);
	assert_int_equal(values_of(s, "huge"), 8 * MOST); /* counted no further */
	assert_int_equal(values_of(s, "edge"), 0);
	assert_int_equal(values_of(s, "once"), MOST + 1);
	remove_store(s, dir);
}

static void fill_sets(struct store_writer *w, uint32_t event, unsigned window)
{
	(void)window;
	add_values(w, event, "first", 30);
	add_values(w, event, "second", 20);
}

/* Too many sets make a key wide once: the next key has to wait for as many new ones. */
static void test_sets_are_counted_once(void **state)
{
	(void)state;
	char dir[] = "/tmp/test_wide.XXXXXX";
	struct store_options o;
	store_options_default(&o);
	o.wide_sets = 40;
	struct store *s = written(dir, &o, fill_sets);
	assert_true(store_is_wide(s, "first"));
	assert_false(store_is_wide(s, "second"));
	remove_store(s, dir);
}

/* Whether the key is wide in the newest file. */
static bool is_wide_now(const struct store *s, const char *key)
{
	struct store_wide_key k;
	for (size_t i = 0; store_wide_key(s, i, &k); i++)
		if (!strcmp(k.key, key) && k.to_ns == INT64_MAX)
			return true;
	return false;
}

/* Files end every six hours: one begins without the keys that had half as many values before. */
static void test_settled_with_a_file(void **state)
{
	static const struct {
		int64_t hour;
		unsigned few, half, more;
	} windows[] = { { 0, MOST + 1, MOST + 1, MOST + 1 },
			{ 2, 0, 0, 0 },
			{ 7, 2, MOST / 2, MOST / 2 + 1 },
			{ 9, 0, 0, 0 },
			{ 13, 1, 1, 1 } };
	const int64_t hour = 3600 * 1000000000ll;
	const struct store_meta meta = { .host = "h", .os = "o", .what = "w", .created_ns = 1 };
	const struct store_event e = { .name = "cpu-clock", .unit = "nanoseconds" };
	const struct store_totals totals = { 0 };
	char dir[] = "/tmp/test_wide.XXXXXX", path[64];
	struct store_options o;
	struct store_writer *w;
	struct store *s;
	struct err err = { 0 };
	uint32_t event;
	(void)state;
	store_options_default(&o);
	o.wide_values = MOST;
	o.windows_only = true;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	assert_int_equal(store_writer_open_with(&w, path, &meta, &o, &err), 0);
	for (size_t i = 0; i < 5; i++) {
		int64_t t0 = windows[i].hour * hour;
		store_renew(w);
		store_renew_end(w);
		assert_int_equal(store_add_event(w, &e, &event), 0);
		add_values(w, event, "few", windows[i].few);
		add_values(w, event, "half", windows[i].half);
		add_values(w, event, "more", windows[i].more);
		add_values(w, event, "other", 1);
		assert_int_equal(store_commit_window(w, t0, t0 + 1000, t0 + 1000, &totals, &err),
				 0);
		if (i != 2 && i != 4)
			continue;
		assert_int_equal(store_open(&s, path, &err), 0);
		assert_int_equal(is_wide_now(s, "few"), i == 2);
		assert_int_equal(is_wide_now(s, "half"), i == 2);
		assert_true(is_wide_now(s, "more"));
		assert_false(is_wide_now(s, "other"));
		store_close(s);
	}
	store_writer_close(w);
	assert_int_equal(store_open(&s, path, &err), 0);
	remove_store(s, dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values_count_once),
		cmocka_unit_test(test_sets_are_counted_once),
		cmocka_unit_test(test_settled_with_a_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
