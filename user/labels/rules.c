/* SPDX-License-Identifier: Apache-2.0 */
#include "labels/rules.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MATCH_LIMIT 20000
#define DEPTH_LIMIT 500
#define HEAP_LIMIT_KIB 256
#define GROUPS_MAX 32

enum on { ON_TITLE, ON_CGROUP };

struct rule {
	const struct recipe *recipe;
	enum on on;
	pcre2_code *code;
	struct {
		const char *name; /* in the code's own table */
		uint32_t number;
	} group[RULE_LABELS_MAX];
	size_t n_groups;
};

struct rules {
	const struct recipes *recipes;
	struct rule *v;
	size_t n;
	pcre2_match_data *match;
	pcre2_match_context *limits;
};

static pcre2_code *compile(const char *pattern, char *ret_text, size_t cap)
{
	int code;
	PCRE2_SIZE at;
	uint32_t named = 0;
	PCRE2_UCHAR text[120];
	pcre2_compile_context *c = pcre2_compile_context_create(NULL);
	if (!c) {
		snprintf(ret_text, cap, "out of memory");
		return NULL;
	}
	pcre2_set_parens_nest_limit(c, 32);
	pcre2_code *p = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
				      PCRE2_NEVER_BACKSLASH_C, &code, &at, c);
	pcre2_compile_context_free(c);
	if (!p) {
		pcre2_get_error_message(code, text, sizeof(text));
		snprintf(ret_text, cap, "%s (at character %zu)", (const char *)text,
			 (size_t)at + 1);
		return NULL;
	}
	pcre2_pattern_info(p, PCRE2_INFO_NAMECOUNT, &named);
	if (!named) {
		snprintf(ret_text, cap, "the pattern has no named group: (?<key>...)");
		pcre2_code_free(p);
		return NULL;
	}
	return p;
}

int rules_check(const char *pattern, char *ret_text, size_t cap)
{
	pcre2_code *p = compile(pattern, ret_text, cap);
	pcre2_code_free(p);
	return p ? 0 : -EINVAL;
}

/* The table of names: u16 number (big-endian), the name with its NUL, `size` bytes each. */
static void take_groups(struct rule *r)
{
	uint32_t n = 0, size = 0;
	PCRE2_SPTR table = NULL;
	pcre2_pattern_info(r->code, PCRE2_INFO_NAMECOUNT, &n);
	pcre2_pattern_info(r->code, PCRE2_INFO_NAMEENTRYSIZE, &size);
	pcre2_pattern_info(r->code, PCRE2_INFO_NAMETABLE, &table);
	for (uint32_t i = 0; i < n && r->n_groups < RULE_LABELS_MAX; i++, table += size) {
		uint32_t number = (uint32_t)table[0] << 8 | table[1];
		if (number >= GROUPS_MAX)
			continue;
		r->group[r->n_groups].name = (const char *)table + 2;
		r->group[r->n_groups++].number = number;
	}
}

static int add_rule(struct rules *r, const struct recipe *recipe, enum on on, const char *pattern,
		    struct err *err)
{
	char text[200];
	struct rule *v = realloc(r->v, (r->n + 1) * sizeof(*v));
	if (!v)
		return err_sys(err, -ENOMEM, "%s", recipe->name);
	r->v = v;
	v[r->n] = (struct rule){ .recipe = recipe,
				 .on = on,
				 .code = compile(pattern, text, sizeof(text)) };
	if (!v[r->n].code)
		return err_set(err, -EINVAL, "%s: recipe %s: %s", recipe->source, recipe->name,
			       text);
	take_groups(&v[r->n]);
	r->n++;
	return 0;
}

int rules_new(struct rules **ret, const struct recipes *recipes, struct err *err)
{
	size_t n_env = 0;
	int rc = 0;
	struct rules *r = calloc(1, sizeof(*r));
	if (!r)
		return err_sys(err, -ENOMEM, "rules");
	r->recipes = recipes;
	for (size_t i = 0; !rc && recipes && i < recipes->n; i++) {
		const struct recipe *p = recipes->v[i];
		n_env += p->n_env;
		for (size_t k = 0; !rc && k < p->n_titles; k++)
			rc = add_rule(r, p, ON_TITLE, p->title[k], err);
		for (size_t k = 0; !rc && k < p->n_cgroups; k++)
			rc = add_rule(r, p, ON_CGROUP, p->cgroup[k], err);
	}
	r->match = pcre2_match_data_create(GROUPS_MAX, NULL);
	r->limits = pcre2_match_context_create(NULL);
	if (!rc && (!r->match || !r->limits))
		rc = err_sys(err, -ENOMEM, "rules");
	if (rc || (!r->n && !n_env)) {
		rules_free(r);
		if (!rc)
			*ret = NULL;
		return rc;
	}
	pcre2_set_match_limit(r->limits, MATCH_LIMIT);
	pcre2_set_depth_limit(r->limits, DEPTH_LIMIT);
	pcre2_set_heap_limit(r->limits, HEAP_LIMIT_KIB);
	*ret = r;
	return 0;
}

void rules_free(struct rules *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		pcre2_code_free(r->v[i].code);
	pcre2_match_data_free(r->match);
	pcre2_match_context_free(r->limits);
	free(r->v);
	free(r);
}

static void add(struct rule_labels *to, const char *key, const char *value, size_t len)
{
	if (!len || to->n == RULE_LABELS_MAX)
		return;
	if (len > RULE_VALUE_MAX)
		len = utf8_cut(value, RULE_VALUE_MAX);
	memcpy(to->text[to->n], value, len);
	to->v[to->n] = (struct label){ .key = key,
				       .key_len = (uint32_t)strlen(key),
				       .str = to->text[to->n],
				       .str_len = (uint32_t)len,
				       .type = LABEL_STRING };
	to->n++;
}

static void match(struct rules *r, enum on on, const char *exe, const char *text, size_t len,
		  struct rule_labels *to)
{
	if (len > RULE_TEXT_MAX)
		len = RULE_TEXT_MAX;
	for (size_t i = 0; i < r->n; i++) {
		const struct rule *v = &r->v[i];
		if (v->on != on || !recipe_is_for(v->recipe, exe))
			continue;
		int n = pcre2_match(v->code, (PCRE2_SPTR)text, len, 0, 0, r->match, r->limits);
		const PCRE2_SIZE *at = pcre2_get_ovector_pointer(r->match);
		for (size_t g = 0; n > 0 && g < v->n_groups; g++) {
			uint32_t k = v->group[g].number;
			if (k < (uint32_t)n && at[2 * k] != PCRE2_UNSET &&
			    at[2 * k + 1] >= at[2 * k])
				add(to, v->group[g].name, text + at[2 * k],
				    at[2 * k + 1] - at[2 * k]);
		}
	}
}

void rules_title(struct rules *r, const char *exe, const char *title, size_t len,
		 struct rule_labels *to)
{
	match(r, ON_TITLE, exe, title, len, to);
}

void rules_cgroup(struct rules *r, const char *exe, const char *path, size_t len,
		  struct rule_labels *to)
{
	match(r, ON_CGROUP, exe, path, len, to);
}

void rules_environment(struct rules *r, const char *exe, const char *env, size_t len,
		       struct rule_labels *to)
{
	for (size_t i = 0; i < r->recipes->n; i++) {
		const struct recipe *p = r->recipes->v[i];
		for (size_t k = 0; k < p->n_env && recipe_is_for(p, exe); k++) {
			size_t n = strlen(p->env[k].variable);
			for (const char *s = env, *end = env + len; s < end;) {
				size_t size = strnlen(s, (size_t)(end - s));
				if (size > n && s[n] == '=' && !memcmp(s, p->env[k].variable, n)) {
					add(to, p->env[k].key, s + n + 1, size - n - 1);
					break;
				}
				s += size + 1;
			}
		}
	}
}

bool rules_want_title(const struct rules *r, const char *exe)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].on == ON_TITLE && recipe_is_for(r->v[i].recipe, exe))
			return true;
	return false;
}

bool rules_want_environment(const struct rules *r, const char *exe)
{
	for (size_t i = 0; i < r->recipes->n; i++)
		if (r->recipes->v[i]->n_env && recipe_is_for(r->recipes->v[i], exe))
			return true;
	return false;
}
