/* SPDX-License-Identifier: Apache-2.0 */
/* Which labels findings are looked for by, where none are asked for. */
#include "query/findings_int.h"
#include "query/visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 64
#define KEY_MAX 256 /* bytes, with the NUL */
#define WIDE_MAX 2  /* wide keys: a step of one takes reading the label sets of each window */

struct candidates {
	struct looking *l;
	struct candidate {
		const char *key;
		uint32_t sets;
	} v[KEYS_MAX];
	size_t n;
};

/* Has a label to do with whose work it was, rather than with where it ran? */
static bool is_of_work(const char *key)
{
	static const char *const not[] = { "python_", "by.", "pod_label_", "pod_annotation_" };
	for (size_t i = 0; i < sizeof(not) / sizeof(not[0]); i++)
		if (!strncmp(key, not[i], strlen(not[i])))
			return false;
	return !query_is_system_key(key) && !query_is_wait_key(key);
}

static int add_key(void *ctx, const char *key, uint32_t sets)
{
	struct candidates *c = ctx;
	bool again = false;
	for (size_t i = 0; i < c->l->n_keys; i++)
		again |= !strcmp(c->l->keys[i], key);
	for (size_t i = 0; i < c->n; i++)
		again |= !strcmp(c->v[i].key, key);
	if (again || c->n == KEYS_MAX || !is_of_work(key))
		return 0;
	c->v[c->n].sets = sets;
	return findings_keep(c->l, key, &c->v[c->n++].key);
}

/* Add the wide keys of the range: in `sets` those with the fewest values come first. */
static int add_wide_keys(struct candidates *c)
{
	const struct looking *l = c->l;
	struct store_wide_key k;
	int rc = 0;
	for (size_t i = 0; !rc && store_wide_key(l->store, i, &k); i++)
		if (k.from_ns < l->to_ns && k.to_ns > l->before_ns)
			rc = add_key(c, k.key, UINT32_MAX - k.values);
	return rc;
}

static int by_sets(const void *pa, const void *pb)
{
	const struct candidate *a = pa, *b = pb;
	return a->sets != b->sets ? (a->sets < b->sets ? 1 : -1) : strcmp(a->key, b->key);
}

/* Choose the first keys of the candidates, in order. */
static void take_keys(struct candidates *c, size_t n)
{
	qsort(c->v, c->n, sizeof(c->v[0]), by_sets);
	for (size_t i = 0; i < c->n && i < n && c->l->n_keys < FINDINGS_CHOSEN_MAX; i++)
		c->l->keys[c->l->n_keys++] = c->v[i].key;
}

/* visible NULL: of all that is stored. */
static int has_key(const struct looking *l, const struct found_list *visible, const char *key,
		   bool *ret)
{
	if (!visible)
		return store_has_key(l->store, key, ret, l->err);
	for (size_t i = 0; i < visible->n; i++)
		*ret |= strlen(key) == visible->v[i].label.key_len &&
			!memcmp(visible->v[i].label.key, key, strlen(key));
	return 0;
}

/* Choose who it is. Profiles of others may not say: all is (none) then. */
static int choose_who(struct looking *l, const struct found_list *visible)
{
	static const char *const who[] = { "service", "container", "comm" };
	const size_t n = sizeof(who) / sizeof(who[0]);
	bool has = false;
	size_t i = 0;
	int rc = has_key(l, visible, who[i], &has);
	while (!rc && !has && ++i + 1 < n)
		rc = has_key(l, visible, who[i], &has);
	l->keys[l->n_keys++] = who[i];
	return rc;
}

/* Of keys that the asker may know of (query/visible.h). */
static int choose_visible(struct looking *l, const struct found_list *visible)
{
	struct candidates narrow = { .l = l }, wide = { .l = l };
	char key[KEY_MAX];
	int rc = choose_who(l, visible);
	for (size_t i = 0; !rc && i < visible->n; i++) {
		const struct found *f = &visible->v[i];
		snprintf(key, sizeof(key), "%.*s", (int)f->label.key_len, f->label.key);
		rc = store_is_wide(l->store, key)
			     ? add_key(&wide, key, UINT32_MAX - (uint32_t)f->values)
			     : add_key(&narrow, key, (uint32_t)f->samples);
	}
	take_keys(&wide, WIDE_MAX);
	take_keys(&narrow, FINDINGS_CHOSEN_MAX);
	return rc;
}

static int choose_any(struct looking *l)
{
	struct candidates narrow = { .l = l }, wide = { .l = l };
	int rc = choose_who(l, NULL);
	rc = rc ? rc : add_wide_keys(&wide);
	if (rc)
		return rc;
	take_keys(&wide, WIDE_MAX);
	rc = store_narrow_keys(l->store, add_key, &narrow, l->err);
	take_keys(&narrow, FINDINGS_CHOSEN_MAX);
	return rc;
}

int findings_choose_keys(struct looking *l)
{
	struct found_list visible = { 0 };
	if (!store_scope(l->store))
		return choose_any(l);
	int rc = visible_keys(l->store, &visible, l->err);
	rc = rc ? rc : choose_visible(l, &visible);
	found_fini(&visible);
	return rc;
}
