/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys several stores know that are read as one, and what has been cut of any of them. */
#include "unit/store_model.h"

#include "store/read/store_int.h"

#define T0 1700000000000000000ll
#define SECOND 1000000000ll
#define VALUES 9 /* more than a key may have that is not wide */

static char base[64], dirs[2][80];

/* n wide keys of VALUES values each, and a narrow one; one window each. */
static void write_store(const char *dir, const char *host, unsigned n, const char *narrow)
{
	struct store_meta meta = model_meta;
	struct store_writer *w;
	struct err err = { 0 };
	const struct store_totals none = { 0 };
	uint32_t event, set;
	meta.host = host;
	if (store_writer_open_with(&w, dir, &meta, &model_options, &err))
		fail_msg("%s", err.text);
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	for (unsigned k = 0; k <= n; k++)
		for (unsigned i = 0; i < (k == n ? 1 : VALUES); i++) {
			char key[16], value[16];
			snprintf(key, sizeof(key), "%s_%u", host, k);
			snprintf(value, sizeof(value), "v%u", i);
			const char *name = k == n ? narrow : key;
			const struct label l = { .key = name,
						 .key_len = (uint32_t)strlen(name),
						 .str = value,
						 .str_len = (uint32_t)strlen(value),
						 .type = LABEL_STRING };
			assert_int_equal(store_add_set(w, &l, 1, &set), 0);
			assert_int_equal(store_add_row(w, set, 0, event, 1, 1), 0);
		}
	assert_int_equal(store_commit_window(w, T0, T0 + 10 * SECOND, SECOND, &none, &err), 0);
	store_writer_close(w);
}

static int setup(void **state)
{
	const char *const both[] = { dirs[0], dirs[1] };
	struct store *s;
	struct err err = { 0 };
	temp_dir(base);
	snprintf(dirs[0], sizeof(dirs[0]), "%s/a", base);
	snprintf(dirs[1], sizeof(dirs[1]), "%s/b", base);
	write_store(dirs[0], "alpha", 2, "first");
	write_store(dirs[1], "beta", 3, "second");
	if (store_open_all(&s, both, 2, &err))
		fail_msg("%s", err.text);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	store_close(*state);
	remove_tree(base);
	return 0;
}

static void wide_keys(void **state)
{
	static const char *const want[] = { "alpha_0", "alpha_1", "beta_0", "beta_1", "beta_2" };
	struct store *s = *state;
	struct store_wide_key k;
	for (size_t i = 0; i < 5; i++) {
		assert_true(store_wide_key(s, i, &k));
		assert_string_equal(k.key, want[i]);
		assert_int_equal(k.values, VALUES);
		assert_true(k.to_ns == INT64_MAX && k.from_ns == T0);
		assert_true(store_is_wide(s, want[i]));
	}
	assert_false(store_wide_key(s, 5, &k));
	assert_false(store_is_wide(s, "first"));
	assert_false(store_is_wide(s, "host"));
}

struct told {
	char text[300];
	int calls, most; /* 0: any number */
};

static int tell_key(void *ctx, const char *key, uint32_t sets)
{
	struct told *t = ctx;
	size_t n = strlen(t->text);
	snprintf(t->text + n, sizeof(t->text) - n, "%s %u\n", key, sets);
	return ++t->calls == t->most ? -ECANCELED : 0;
}

static int tell_any(void *ctx, const char *key, size_t len)
{
	char text[40];
	snprintf(text, sizeof(text), "%.*s", (int)len, key);
	return tell_key(ctx, text, 0);
}

static void narrow_keys(void **state)
{
	struct store *s = *state;
	struct told t = { .most = 0 };
	struct err err = { 0 };
	assert_int_equal(store_narrow_keys(s, tell_key, &t, &err), 0);
	assert_string_equal(t.text, "host 1\nfirst 1\nsecond 1\n");
	for (int most = 1; most <= 3; most++) {
		t = (struct told){ .most = most };
		assert_int_equal(store_narrow_keys(s, tell_key, &t, &err), -ECANCELED);
		assert_int_equal(t.calls, most);
	}
	static const char *const keys[] = { "host", "first", "second", "alpha_1", "beta_2" };
	for (size_t i = 0; i < 5; i++) {
		bool has = false;
		assert_int_equal(store_has_key(s, keys[i], &has, &err), 0);
		assert_true(has);
		assert_int_equal(store_has_key(s, "firs", &has, &err), 0);
		assert_false(has);
	}
	t = (struct told){ .most = 4 };
	assert_int_equal(store_each_key(s, tell_any, &t, &err), -ECANCELED);
	assert_int_equal(t.calls, 4);
	assert_int_equal(store_n_files(s), 2);
}

/* Of what was cut the latest time counts, whichever store it is of. */
static void cuts(void **state)
{
	struct store *s = *state;
	for (uint8_t level = 0; level < 2; level++)
		for (size_t k = 0; k < 2; k++) {
			s->parts[0]->manifest.cuts[level].before_ns = k ? 5 : 9;
			s->parts[1]->manifest.cuts[level].before_ns = k ? 8 : 7;
			assert_int_equal(store_cut(s, level)->before_ns, k ? 8 : 9);
		}
	assert_non_null(store_cut(s, 9));
	assert_null(store_cut(s, 10));
	assert_string_equal(store_level_name(9), "postings");
	assert_string_equal(store_level_name(10), "?");
	assert_int_equal(store_id(s), 0);
	assert_int_not_equal(store_id(s->parts[0]), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wide_keys),
		cmocka_unit_test(narrow_keys),
		cmocka_unit_test(cuts),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
