/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The most frequent values of a key in some blocks: exactly where they know all of them, else from
 * their lists.
 */
#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/read/rows.h"
#include "store/read/store_int.h"
#include "store/read/symbols.h"
#include "store/top_values.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct counting {
	struct store *of; /* that was asked */
	struct store *s;  /* the block's: of a union a part */
	const char *key;
	uint32_t event;
	struct top top;	  /* one list, key 0, event 0 */
	uint64_t *by_set; /* [n_sets]: samples of a block's rows */
	size_t n_sets;
	bool lacking; /* some window's labels are not in it */
	struct err *err;
};

static int no_memory(const struct counting *c, int rc)
{
	return err_sys(c->err, rc, "cannot read %s", c->s->dir);
}

/* ---- lists ---- */

static int merge_lists(struct counting *c, const struct block_ref *ref, const struct block_data *d)
{
	struct translation *to = NULL;
	const struct dicts *dicts;
	struct top top = { 0 };
	int rc = contents_top(c->s, ref, d, &top, c->err);
	if (!rc)
		rc = store_dicts(c->s, ref, SYMBOLS_SETS, &dicts, c->err);
	if (!rc)
		rc = store_translation(c->s, ref, 0, &to, c->err);
	for (size_t i = 0; !rc && i < top.n; i++) {
		uint32_t event;
		if (strcmp(strings_get(&dicts->label_text, top.lists[i].key, NULL), c->key))
			continue;
		rc = translate_event(to, top.lists[i].event, &event);
		if (!rc && event == c->event)
			rc = top_merge(&c->top, 0, 0, &top.lists[i]);
		if (rc)
			no_memory(c, rc);
	}
	top_fini(&top);
	return rc;
}

/* ---- rows ---- */

static int carries_key(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	const struct counting *c = ctx;
	size_t len = strlen(c->key);
	*ret = false;
	for (size_t i = 0; i < n; i++)
		*ret |= labels[i].key_len == len && !memcmp(labels[i].key, c->key, len);
	return 0;
}

static int is_counted(void *ctx, const struct store_row *sum)
{
	return sum->event == ((const struct counting *)ctx)->event;
}

static int count_row(struct counting *c, const struct store_row *row)
{
	int rc = ARRAY_RESERVE_CLEARED(c->by_set, c->n_sets, (size_t)row->set + 1);
	if (rc)
		return no_memory(c, rc);
	c->by_set[row->set] += row->samples;
	return 0;
}

static int count_some(void *ctx, const struct store_row *rows, size_t n)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = count_row(ctx, &rows[i]);
	return rc;
}

static int add_set(struct counting *c, uint32_t set, uint64_t samples)
{
	const struct label *labels;
	size_t n = store_set(c->of, set, &labels), len = strlen(c->key);
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		const struct label *l = &labels[i];
		struct settable_label v = settable_value(l);
		if (l->key_len == len && !memcmp(l->key, c->key, len))
			rc = top_add(&c->top, 0, 0, &v, samples);
	}
	return rc ? no_memory(c, rc) : 0;
}

static int count_rows(struct counting *c, const struct store_block *b)
{
	const struct store_keys keys = { &c->key, 1 };
	const struct store_reading how = { .keys = &keys,
					   .filter = carries_key,
					   .group = is_counted,
					   .rows = count_some,
					   .fold_stacks = true,
					   .ctx = c };
	int rc = store_block_read(c->s, b, &how, c->err);
	for (size_t i = 0; i < c->n_sets; i++) {
		if (!rc && c->by_set[i])
			rc = add_set(c, (uint32_t)i, c->by_set[i]);
		c->by_set[i] = 0;
	}
	return rc;
}

static int count_parent(struct counting *c, const struct block_ref *ref)
{
	struct block_data d;
	struct block_keys keys = { 0 };
	int rc = block_read(c->s, ref, WANT_TOP | WANT_KEYS, &d, c->err);
	if (rc)
		return rc;
	rc = contents_keys(c->s, ref, &d, &keys, c->err);
	bool exact = block_answers(&keys, &c->key, 1, false);
	if (!rc && !exact)
		rc = merge_lists(c, ref, &d);
	block_keys_fini(&keys);
	block_data_fini(&d);
	return rc || !exact ? rc : count_rows(c, &ref->b);
}

static int count_block(struct counting *c, const struct store_block *b)
{
	c->s = store_of(c->of, store_ref(b));
	c->lacking |= b->flags & BLOCK_NO_LABELS;
	if (b->flags & BLOCK_NO_LABELS)
		return 0;
	return b->level ? count_parent(c, store_ref(b)) : count_rows(c, b);
}

/* ---- the answer ---- */

static int give(struct counting *c, struct store_top *ret)
{
	struct store_top out = { 0 };
	struct top *own = malloc(sizeof(*own));
	if (!own)
		return -ENOMEM;
	top_cut(&c->top);
	struct top_list *l = c->top.n ? &c->top.lists[0] : NULL;
	out.v = calloc(l ? l->n : 0, sizeof(*out.v));
	if (!out.v) {
		free(own);
		return -ENOMEM;
	}
	*own = c->top;
	c->top = (struct top){ 0 };
	out.owned = own;
	for (size_t i = 0; l && i < l->n; i++) {
		const struct settable_label *t = &l->v[i].value;
		out.v[out.n++] = (struct store_top_value){
			{ .key = "",
			  .str = t->str,
			  .num = t->num,
			  .str_len = t->len,
			  .type = t->type },
			l->v[i].samples,
			l->v[i].error,
		};
	}
	out.total = l ? l->total : 0;
	out.bound = l ? l->bound : 0;
	uint64_t listed = 0;
	out.exact = !c->lacking;
	for (size_t i = 0; i < out.n; i++) {
		listed += out.v[i].samples;
		out.exact &= !out.v[i].error;
	}
	out.exact &= listed == out.total;
	*ret = out;
	return 0;
}

int store_top(struct store *s, const struct store_block *const *blocks, size_t n, const char *key,
	      uint32_t event, struct store_top *ret, struct err *err)
{
	struct counting c = { .of = s, .s = s, .key = key, .event = event, .err = err };
	int rc = store_check_scope(s, err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < n; i++)
		rc = count_block(&c, blocks[i]);
	if (!rc && give(&c, ret))
		rc = no_memory(&c, -ENOMEM);
	free(c.by_set);
	top_fini(&c.top);
	return rc;
}

void store_top_free(struct store_top *t)
{
	if (!t)
		return;
	if (t->owned)
		top_fini(t->owned);
	free(t->owned);
	free(t->v);
	memset(t, 0, sizeof(*t));
}
