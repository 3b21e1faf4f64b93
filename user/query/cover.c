/* SPDX-License-Identifier: Apache-2.0 */
#include "query/cover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The one block that is asked for; freed as any cover. */
static int cover_block(const struct store_block *b, struct store_cover *ret, struct err *err)
{
	*ret = (struct store_cover){ .n = 1, .from_ns = b->t0_ns, .to_ns = b->t1_ns };
	ret->blocks = malloc(sizeof(*ret->blocks));
	if (!ret->blocks)
		return err_sys(err, -ENOMEM, "cannot query");
	ret->blocks[0] = b;
	ret->coarse = b->level ? b->n_windows : 0;
	return 0;
}

/* The matcher that postings can answer, with the forms that its value may have. */
static size_t posted_value(const struct store *s, const struct selector *sel,
			   struct label values[STORE_VALUES_MAX])
{
	const char *key, *value;
	size_t len;
	for (size_t i = 0; i < SELECTOR_KEYS_MAX; i++) {
		if (!selector_equal(sel, i, &key, &value, &len) || !store_is_wide(s, key))
			continue;
		char text[32], back[32];
		values[0] = (struct label){ key,	   value,	0, (uint32_t)strlen(key),
					    (uint32_t)len, LABEL_STRING };
		if (len >= sizeof(text))
			return 1;
		memcpy(text, value, len);
		text[len] = 0;
		values[1] =
			(struct label){ key, "",       strtoll(text, NULL, 10), values[0].key_len,
					0,   LABEL_INT };
		label_text(&values[1], back, sizeof(back));
		return strcmp(text, back) ? 1 : 2;
	}
	return 0;
}

/* The keys of a scope; of the other party, too, where a key is of that one. */
static void add_scope(struct plan *p, const struct scope *scope)
{
	bool parties = false;
	for (size_t i = 0; i < p->n_keys; i++)
		parties |= !strncmp(p->keys[i], "by.", 3);
	for (size_t i = 0; i < scope->n_keys; i++)
		p->keys[p->n_keys++] = scope->keys[i];
	for (size_t i = 0; parties && i < scope->n_keys; i++)
		p->keys[p->n_keys++] = scope->by[i];
}

/* Choose what the rows must tell apart: the keys that are asked for, and those of the selector. */
static int choose_keys(struct plan *p, const struct query_spec *spec, const struct selector *sel,
		       const struct scope *scope, bool stacks)
{
	const char *keys[SELECTOR_KEYS_MAX];
	size_t n = selector_keys(sel, keys, SELECTOR_KEYS_MAX);
	bool by_keys = spec->labels == QUERY_KEYS || spec->labels == QUERY_KEYS_STACKS;
	size_t n_keys = by_keys ? spec->n_keys : 0;
	p->want = stacks ? STORE_NARROW_KEYS : STORE_KEY_SUMS;
	if (spec->labels == QUERY_ALL_LABELS)
		p->want = STORE_ALL_LABELS;
	else if (!n && !n_keys && !scope->n_keys)
		p->want = STORE_FOLDED;
	if (p->want == STORE_ALL_LABELS)
		return 0;
	p->keys = calloc(n + n_keys + 2 * scope->n_keys + 1, sizeof(*p->keys));
	if (!p->keys)
		return -ENOMEM;
	memcpy(p->keys, keys, n * sizeof(*keys));
	if (n_keys)
		memcpy(p->keys + n, spec->keys, n_keys * sizeof(*keys));
	p->n_keys = n + n_keys;
	add_scope(p, scope);
	return 0;
}

/*
 * by_start: a cover takes a block above level 0 only when it begins in the range. So what begins
 * before the range are the windows on its edge, or a block whose children are gone, which counts
 * where it begins, too.
 */
static void keep_starts(const struct query *q, struct store_cover *c)
{
	size_t n = 0;
	for (size_t i = 0; q->by_start && i < c->n; i++) {
		const struct store_block *b = c->blocks[i];
		if (b->t0_ns < q->from_ns)
			continue;
		c->from_ns = !n || b->t0_ns < c->from_ns ? b->t0_ns : c->from_ns;
		c->to_ns = !n || b->t1_ns > c->to_ns ? b->t1_ns : c->to_ns;
		c->blocks[n++] = b;
	}
	if (!q->by_start)
		return;
	c->n = n;
	if (!n)
		c->from_ns = c->to_ns = 0;
}

int plan_cover(const struct query *q, enum store_want want, const char *const *keys, size_t n_keys,
	       struct store_cover *ret, struct err *err)
{
	int rc = (q->by_start ? store_cover : store_cover_nearest)(q->store, q->from_ns, q->to_ns,
								   want, keys, n_keys, ret, err);
	if (!rc)
		keep_starts(q, ret);
	return rc;
}

int plan_make(struct plan *p, struct query *q, const struct query_spec *spec,
	      const struct selector *sel, const struct scope *scope, bool stacks, struct err *err)
{
	struct label values[STORE_VALUES_MAX];
	struct store *s = q->store;
	*p = (struct plan){ 0 };
	int rc = choose_keys(p, spec, sel, scope, stacks);
	q->from_ns = spec->from_ns;
	q->to_ns = spec->to_ns;
	q->by_start = spec->by_start;
	if (rc)
		return err_sys(err, rc, "cannot query");
	bool labels = p->want == STORE_NARROW_KEYS || p->want == STORE_KEY_SUMS;
	size_t n_values = labels && !spec->rest && !spec->block ? posted_value(s, sel, values) : 0;
	rc = spec->block ? cover_block(spec->block, &p->blocks, err)
	     : n_values	 ? store_cover_value(s, spec->from_ns, spec->to_ns, !spec->by_start, values,
					     n_values, p->keys, p->n_keys, &p->blocks, err)
			 : plan_cover(q, p->want, p->keys, p->n_keys, &p->blocks, err);
	if (rc)
		return rc;
	if (n_values)
		keep_starts(q, &p->blocks);
	p->posted = n_values > 0;
	/* Windows that postings left out were in the range all the same, with their counters. */
	if (p->posted)
		rc = plan_cover(q, STORE_FOLDED, NULL, 0, &p->account, err);
	for (size_t i = 0; i < p->blocks.n; i++)
		q->info.bounded |= (p->blocks.blocks[i]->flags & STORE_PRUNED) &&
				   p->want != STORE_KEY_SUMS && spec->labels != QUERY_TOTALS;
	q->info.blocks = p->blocks.n;
	q->info.coarse = p->blocks.coarse;
	q->info.gone = p->blocks.gone;
	q->info.from_ns = plan_range(p)->from_ns;
	q->info.to_ns = plan_range(p)->to_ns;
	return rc;
}

void plan_fini(struct plan *p)
{
	store_cover_free(&p->blocks);
	store_cover_free(&p->account);
	free(p->keys);
	p->keys = NULL;
}
