/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: recipes, and the rules in them on a title, a cgroup and an environment.
 *
 * Covers: labels/recipe.c labels/rules.c
 */
#include "fuzz/input.h"
#include "labels/recipe.h"
#include "labels/rules.h"

static void apply(const struct recipes *r)
{
	static const char env[] = "HOME=/root\0TENANT=acme\0SHARD=7\0=\0x";
	static const char title[] = "postgres: user shop 10.0.0.1(5432) SELECT a/b-c=1";
	static const char exe[] = "/usr/lib/postgresql/15/bin/postgres";
	struct rule_labels to = { .n = 0 };
	struct rules *rules = NULL;
	if (rules_new(&rules, r, NULL) || !rules)
		return;
	rules_want_title(rules, exe);
	rules_want_environment(rules, exe);
	rules_title(rules, exe, title, sizeof(title) - 1, &to);
	rules_cgroup(rules, exe, "/a.slice/b-c.service", 20, &to);
	rules_environment(rules, exe, env, sizeof(env), &to);
	require(to.n <= RULE_LABELS_MAX);
	for (size_t i = 0; i < to.n; i++)
		require(to.v[i].str_len <= RULE_VALUE_MAX);
	rules_free(rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recipes r = { .n = 0 };
	char *text = copy_of(data, size);
	struct err err = { 0 };
	int rc = recipes_parse(&r, text, size, "fuzz", &err);
	require(!rc == !err.text[0] && r.n <= RECIPES_MAX);
	for (size_t i = 0; i < r.n; i++) {
		require(r.v[i]->n_lines <= RECIPE_LINES_MAX);
		recipe_is_for(r.v[i], "/usr/bin/postgres");
	}
	if (!rc)
		apply(&r);
	recipes_fini(&r);
	free(text);
	return 0;
}
