/* SPDX-License-Identifier: Apache-2.0 */
/* Which labels findings are looked for by: who it is, then what programs gave their work. */
#include "unit/store_model.h"

#include "query/findings_int.h"

#define T0 1700000000000000000ll
#define WINDOW 10000000000ll
#define SETS 12

static void add(struct store_writer *w, const char *labels, uint64_t n)
{
	const struct model_row row = { (char *)(uintptr_t)labels,
				       (char *)(uintptr_t)"main (/bin/a) 0 0\n", 0, n,
				       n * 10101010 };
	assert_int_equal(model_put_row(w, &row), 0);
}

/* Twelve label sets of services and one of none. tenant has more values than a narrow key. */
static struct store *make(char *dir)
{
	struct store_writer *w;
	struct err err = { 0 };
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	for (size_t i = 0; i < 3; i++) {
		for (unsigned k = 0; k < SETS; k++) {
			char text[200];
			snprintf(text, sizeof(text),
				 "comm=sh\npython_line=%u\nservice=s%u\ntenant=t%u\n%szone=z%u\n",
				 k % 4, k % 2, k, k < 4 ? "tier=a\n" : "", k % 3);
			add(w, text, 10 + k);
		}
		add(w, "comm=sh\ntenant=alone\n", 5);
		assert_int_equal(model_commit_at(w, i, &err), 0);
	}
	store_writer_close(w);
	return open_store(dir);
}

static void check(struct store *s, const char *scope, const char *const *want, size_t n)
{
	struct err err = { 0 };
	struct looking l = { .store = s,
			     .err = &err,
			     .from_ns = T0 + WINDOW,
			     .to_ns = T0 + 3 * WINDOW,
			     .before_ns = T0 };
	store_set_scope(s, scope);
	if (findings_choose_keys(&l))
		fail_msg("%s", err.text);
	store_set_scope(s, NULL);
	assert_int_equal(l.n_keys, n);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(l.keys[i], want[i]);
	for (size_t i = 0; i < l.n_texts; i++)
		free(l.texts[i]);
	free(l.texts);
}

/* A wide key first, then narrow ones by how much has them. Not what the recorder says itself. */
static void keys(void **state)
{
	static const char *const all[] = { "service", "tenant", "zone", "tier" };
	static const char *const no_tier[] = { "service", "tenant", "zone" };
	static const char *const alone[] = { "comm", "tenant" };
	char dir[64];
	(void)state;
	struct store *s = make(dir);
	assert_true(store_is_wide(s, "tenant"));
	assert_false(store_is_wide(s, "zone"));
	check(s, NULL, all, 4);
	/* Of what a token may read: the labels that its samples have */
	check(s, "{zone=\"z1\"}", all, 4);
	check(s, "{tenant=\"t9\"}", no_tier, 3);
	check(s, "{tenant=\"alone\"}", alone, 2);
	store_close(s);
	remove_tree(dir);
}

/* Profiles of others may not say who it is. */
static void nobody(void **state)
{
	static const char *const want[] = { "comm", "zone" };
	struct store_writer *w;
	struct err err = { 0 };
	char dir[64];
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	add(w, "zone=z1\n", 5);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	check(s, NULL, want, 2);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(keys), cmocka_unit_test(nobody) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
