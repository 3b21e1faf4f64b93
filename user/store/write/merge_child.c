/* SPDX-License-Identifier: Apache-2.0 */
/* What a child adds to its parent: counters, sums by stack and by label set, the most frequent
 * values. */
#include "store/dict/translate.h"
#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/write/merge.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the most frequent values ---- */

int merge_add_to_top(void *ctx, const struct label *l, uint32_t event, uint64_t samples)
{
	struct merge *m = ctx;
	struct settable_label v = settable_value(l);
	uint32_t key;
	int rc = strings_add(&merge_dicts(m)->label_text, l->key, l->key_len, &key);
	return rc ? rc : top_add(&m->top, key, event, &v, samples);
}

static int merge_lists(struct merge *m, struct source *s, const struct block_ref *r,
		       const struct block_data *d)
{
	struct top top;
	int rc = contents_top(&m->w->s, r, d, &top, m->err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < top.n; i++) {
		size_t len;
		const char *key = strings_get(&s->to.from->label_text, top.lists[i].key, &len);
		uint32_t id, event;
		rc = strings_add(&merge_dicts(m)->label_text, key, len, &id);
		if (!rc)
			rc = translate_event(&s->to, top.lists[i].event, &event);
		if (!rc)
			rc = top_merge(&m->top, id, event, &top.lists[i]);
	}
	top_fini(&top);
	return rc ? merge_failed(m, rc) : 0;
}

/* A child that is projected by a key has no list of it: the parent, which is not, gets one from its
 * values. */
static int list_values(struct merge *m, struct source *s, const struct block_ref *r,
		       const struct block_head *h, const struct block_key *key)
{
	const struct block_column at = { key->at, key->raw_len, key->stored_len, key->crc,
					 key->codec };
	struct buf raw = BUF_INIT;
	struct value_list list = { 0 };
	int more, rc = block_read_piece(&m->w->s, r, h, COLUMN_VALUES, &at, &raw, m->err);
	if (!rc && value_list_begin(&list, &raw, s->to.from->n_events, s->to.from->events))
		rc = block_damaged(&m->w->s, r, m->err);
	while (!rc && (more = value_list_next(&list))) {
		if (more < 0) {
			rc = more == -ENOMEM ? merge_failed(m, more)
					     : block_damaged(&m->w->s, r, m->err);
			break;
		}
		const struct settable_label *v = &list.value;
		const struct label l = settable_as_label(key->key, key->len, v);
		for (size_t i = 0; !rc && i < list.n_sums; i++) {
			uint32_t event;
			rc = translate_event(&s->to, list.sums[i].event, &event);
			if (!rc)
				rc = merge_add_to_top(m, &l, event, list.sums[i].samples);
			rc = rc ? merge_failed(m, rc) : 0;
		}
	}
	value_list_fini(&list);
	buf_fini(&raw);
	return rc;
}

/* ---- sums by label set ---- */

static int add_set(struct merge *m, const struct label *labels, size_t n, uint32_t event, bool idle,
		   uint64_t samples, uint64_t value)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		struct merge_key *key;
		rc = merge_need_key(m, labels[i].key, labels[i].key_len, &key);
		if (!rc && set_sums_leaves_out(&m->sums, labels[i].key, labels[i].key_len))
			rc = merge_add_to_top(m, &labels[i], event, samples);
	}
	if (!rc)
		rc = set_sums_add(&m->sums, labels, n, event, idle, samples, value);
	return rc ? merge_failed(m, rc) : 0;
}

/* A window's sets, by event * 2 + idle: [n_sets] each, or NULL. */
struct by_set {
	struct rows_sum **v;
	uint32_t n_events, n_sets;
};

static void by_set_fini(struct by_set *b)
{
	for (uint32_t i = 0; b->v && i < 2 * b->n_events; i++)
		free(b->v[i]);
	free(b->v);
}

static int add_window_sets(struct merge *m, struct source *s, const struct by_set *b,
			   const struct settable *table)
{
	int rc = 0;
	for (uint32_t i = 0; !rc && i < 2 * b->n_events; i++) {
		uint32_t event = 0;
		rc = b->v[i] ? translate_event(&s->to, i / 2, &event) : 0;
		if (rc)
			return merge_failed(m, rc);
		for (uint32_t set = 0; b->v[i] && !rc && set < b->n_sets; set++) {
			const struct settable_set *ts = table->n ? &table->sets[set] : NULL;
			struct label labels[STORE_SET_MAX];
			if (!b->v[i][set].samples)
				continue;
			size_t n = contents_labels(s->to.from, ts ? ts->narrow : set, table, ts,
						   NULL, labels);
			rc = add_set(m, labels, n, event, i & 1, b->v[i][set].samples,
				     b->v[i][set].value);
		}
	}
	return rc;
}

static int add_child_sums(struct merge *m, struct source *s, const struct block_ref *r,
			  const struct block_data *d)
{
	struct set_sums_reader in;
	int more, rc = contents_sums(&m->w->s, r, d, &in, m->err);
	while (!rc && (more = set_sums_next(&in))) {
		struct label labels[STORE_SET_MAX];
		uint32_t event;
		if (more < 0)
			return block_damaged(&m->w->s, r, m->err);
		size_t n = contents_labels(s->to.from, in.row.set, NULL, NULL, NULL, labels);
		rc = translate_event(&s->to, in.row.event, &event);
		rc = rc ? merge_failed(m, rc)
			: add_set(m, labels, n, event, in.idle, in.row.samples, in.row.value);
	}
	return rc;
}

/* ---- sums by stack ---- */

int merge_leaf_sum(struct merge *m, uint32_t event, uint32_t leaf, struct rows_sum **ret)
{
	if (event >= m->n_events) {
		size_t n = (size_t)event + 8;
		struct rows_sum **v = realloc(m->leaves, n * sizeof(*v));
		size_t *caps = v ? realloc(m->leaves_cap, n * sizeof(*caps)) : NULL;
		m->leaves = v ? v : m->leaves;
		m->leaves_cap = caps ? caps : m->leaves_cap;
		if (!v || !caps)
			return -ENOMEM;
		for (; m->n_events < n; m->n_events++) {
			v[m->n_events] = NULL;
			caps[m->n_events] = 0;
		}
	}
	int rc = ARRAY_RESERVE_CLEARED(m->leaves[event], m->leaves_cap[event], (size_t)leaf + 1);
	if (!rc)
		*ret = &m->leaves[event][leaf];
	return rc;
}

static int add_group(struct merge *m, struct source *s, const struct store_row *group)
{
	struct rows_sum *sum;
	uint32_t leaf, event;
	int rc = translate_leaf(&s->to, group->stack, &leaf);
	if (!rc)
		rc = translate_event(&s->to, group->event, &event);
	if (!rc)
		rc = merge_leaf_sum(m, event, leaf, &sum);
	if (rc)
		return merge_failed(m, rc);
	sum->samples += group->samples;
	sum->value += group->value;
	return 0;
}

/* by_set: NULL where its sets are not wanted. */
static int add_groups(struct merge *m, struct source *s, const struct block_ref *r,
		      struct rows_reader *in, struct by_set *by_set)
{
	int more, rc = 0;
	while (!rc && (more = rows_next_group(in))) {
		if (more < 0)
			return block_damaged(&m->w->s, r, m->err);
		rc = add_group(m, s, &in->group);
		if (rc || !by_set)
			continue;
		bool idle = dicts_is_idle(s->to.from, s->to.from->leaves[in->group.stack]);
		struct rows_sum **v = &by_set->v[2 * in->group.event + idle];
		if (!*v && !(*v = calloc(by_set->n_sets, sizeof(**v))))
			rc = merge_failed(m, -ENOMEM);
		else if (rows_sum(in, *v))
			rc = block_damaged(&m->w->s, r, m->err);
	}
	return rc;
}

/* ---- a child ---- */

static int add_totals(struct merge *m, const struct block_ref *r, const struct block_data *d)
{
	struct totals t = { 0 };
	int rc = contents_totals(&m->w->s, r, d, &t, m->err);
	if (!rc && totals_add(&m->totals, &t.t))
		rc = merge_failed(m, -ENOMEM);
	totals_fini(&t);
	return rc;
}

static int add_window(struct merge *m, struct source *s, const struct block_ref *r,
		      const struct block_data *d)
{
	struct settable table = { 0 };
	struct rows_reader in;
	struct by_set b = { 0 };
	int rc = contents_rows(&m->w->s, r, d, SYMBOLS_ALL, &in, m->err);
	if (rc)
		return rc;
	b = (struct by_set){ calloc(2 * (size_t)in.limits.n_events, sizeof(*b.v)),
			     in.limits.n_events, in.limits.n_sets };
	rc = b.v ? contents_table(&m->w->s, r, d, true, NULL, &table, m->err)
		 : merge_failed(m, -ENOMEM);
	rc = rc ? rc : add_groups(m, s, r, &in, &b);
	rc = rc ? rc : add_window_sets(m, s, &b, &table);
	settable_fini(&table);
	by_set_fini(&b);
	return rc;
}

static int add_lists(struct merge *m, struct source *s, const struct block_ref *r,
		     const struct block_data *d)
{
	struct block_keys keys;
	int rc = contents_keys(&m->w->s, r, d, &keys, m->err);
	for (size_t i = 0; !rc && i < keys.n; i++) {
		const struct block_key *k = &keys.v[i];
		struct merge_key *key;
		rc = merge_need_key(m, k->key, k->len, &key);
		if (!rc && key && k->state & KEY_PROJECTED && !(k->state & KEY_SUMMED) &&
		    key->unprojected)
			rc = list_values(m, s, r, &d->head, k);
	}
	block_keys_fini(&keys);
	return rc ? rc : merge_lists(m, s, r, d);
}

static int add_parent(struct merge *m, struct source *s, const struct block_ref *r,
		      const struct block_data *d)
{
	struct rows_reader in;
	int rc = contents_rows(&m->w->s, r, d, SYMBOLS_NAMES, &in, m->err);
	rc = rc ? rc : add_groups(m, s, r, &in, NULL);
	if (rc || m->no_labels)
		return rc;
	rc = add_child_sums(m, s, r, d);
	return rc ? rc : add_lists(m, s, r, d);
}

int merge_add_child(struct merge *m, struct merge_child *c)
{
	const struct block_ref *r = &c->ref;
	struct source *s;
	struct block_data d;
	unsigned columns = r->b.level ? WANT_FOLDED | WANT_SUMS | WANT_TOP | WANT_KEYS
				      : WANT_ROWS | WANT_TABLE;
	int rc = merge_source(m, c, &s);
	if (rc)
		return rc;
	rc = block_read(&m->w->s, r, WANT_TOTALS | columns, &d, m->err);
	if (rc)
		return rc;
	rc = add_totals(m, r, &d);
	rc = rc ? rc : r->b.level ? add_parent(m, s, r, &d) : add_window(m, s, r, &d);
	block_data_fini(&d);
	return rc;
}
