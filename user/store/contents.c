/* SPDX-License-Identifier: Apache-2.0 */
/* What the columns of a block say, in the ids of its generation and epoch. */
#include "store/store_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int result(const struct store *s, const struct block_ref *r, int rc, struct err *err)
{
	if (rc == -EBADMSG)
		return block_damaged(s, r, err);
	return rc ? err_sys(err, rc, "cannot read %s", s->dir) : 0;
}

int contents_limits(struct store *s, const struct block_ref *r, const struct block_head *h, struct rows_limits *l,
		       struct err *err)
{
	struct dict_gen *gen, *epoch;
	int rc = store_gen(s, r, &gen, err);
	if (!rc)
		rc = store_epoch(s, r, &epoch, err);
	if (rc)
		return rc;
	const struct dicts *d = dict_gen_dicts(s, gen);
	const struct block_mark *m = h->marks;
	if (m[KIND_LEAVES].count > d->n_leaves || m[KIND_EVENTS].count > d->n_events || m[KIND_SETS].count > epoch->d.n_sets ||
	    !m[KIND_LEAVES].count)
		return block_damaged(s, r, err);
	*l = (struct rows_limits){ h->info.n_table ? h->info.n_table : m[KIND_SETS].count, m[KIND_LEAVES].count,
				   m[KIND_EVENTS].count, d->events };
	return 0;
}

int contents_rows(struct store *s, const struct block_ref *r, const struct block_data *d, bool sets,
		  struct rows_reader *ret, struct err *err)
{
	struct rows_limits l;
	int rc = contents_limits(s, r, &d->head, &l, err);
	if (!rc)
		rows_begin(ret, &d->head, d->column + COLUMN_LEAF, sets, &l);
	return rc;
}

int contents_table(struct store *s, const struct block_ref *r, const struct block_data *d, bool labels, const struct settable_keys *keys,
		   struct settable *ret, struct err *err)
{
	struct dict_gen *epoch;
	struct rows_limits l;
	const struct block_head *h = &d->head;
	*ret = (struct settable){ 0 };
	if (!h->info.n_table)
		return 0;
	int rc = contents_limits(s, r, h, &l, err);
	if (!rc)
		rc = store_epoch(s, r, &epoch, err);
	if (rc)
		return rc;
	if (!block_has(h, COLUMN_TABLE_NARROW))
		return block_damaged(s, r, err);
	const struct buf *raw = d->column + COLUMN_TABLE_NARROW;
	rc = labels ? settable_decode(ret, raw, h->info.n_table, h->marks[KIND_SETS].count, epoch->d.label_text.n, keys) :
		      settable_decode_narrow(ret, raw, h->info.n_table, h->marks[KIND_SETS].count);
	return result(s, r, rc, err);
}

int contents_totals(struct store *s, const struct block_ref *r, const struct block_data *d, struct totals *ret,
		    struct err *err)
{
	const struct store_meta *m = &s->header.meta;
	const struct buf *raw = &d->column[COLUMN_TOTALS];
	struct cursor c = cursor_of(raw);
	int rc = block_has(&d->head, COLUMN_TOTALS) ? totals_decode(ret, &c, m->n_lost, m->n_flagged) : -EBADMSG;
	return result(s, r, rc, err);
}

int contents_dropped(struct store *s, const struct block_ref *r, const struct block_data *d, struct dropped_key **ret,
		     size_t *ret_n, struct err *err)
{
	struct dict_gen *epoch;
	const struct buf *raw = &d->column[COLUMN_DROPPED];
	struct cursor c = cursor_of(raw);
	int rc = store_epoch(s, r, &epoch, err);
	if (rc)
		return rc;
	struct dropped_key *v = malloc((raw->len + 1) * sizeof(*v));
	size_t n = 0;
	if (!v)
		return result(s, r, -ENOMEM, err);
	while (cursor_left(&c) && !c.bad) {
		uint64_t key = cursor_varint(&c), windows = cursor_varint(&c);
		if (c.bad || windows > r->b.n_windows || key >= epoch->d.label_text.n) {
			free(v);
			return block_damaged(s, r, err);
		}
		v[n++] = (struct dropped_key){ (uint32_t)key, (uint32_t)windows };
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

int contents_top(struct store *s, const struct block_ref *r, const struct block_data *d, struct top *ret,
		 struct err *err)
{
	struct dict_gen *epoch;
	struct rows_limits l;
	*ret = (struct top){ 0 };
	if (!block_has(&d->head, COLUMN_TOP))
		return 0;
	int rc = contents_limits(s, r, &d->head, &l, err);
	if (!rc)
		rc = store_epoch(s, r, &epoch, err);
	if (!rc)
		rc = result(s, r, top_decode(ret, &d->column[COLUMN_TOP], epoch->d.label_text.n, l.n_events), err);
	return rc;
}

bool contents_wants(const struct store_keys *keys, const char *key)
{
	size_t i = 0;
	while (keys && i < keys->n && strcmp(keys->v[i], key))
		i++;
	return !keys || i < keys->n;
}

size_t contents_labels(const struct dicts *d, uint32_t narrow, const struct settable *t, const struct settable_set *ts,
		       const struct settable_keys *keys, struct label *out)
{
	const struct set_label *v;
	size_t n = dicts_set(d, narrow, &v), n_out = 0;
	for (size_t i = 0; i < n && n_out < STORE_SET_MAX; i++)
		if (!keys || keys->wants(keys->ctx, v[i].key))
			out[n_out++] = dicts_label(d, &v[i]);
	for (uint32_t i = 0; ts && i < ts->n && n_out < STORE_SET_MAX; i++) {
		const struct settable_label *l = &t->labels[ts->first + i];
		size_t len;
		if (keys && !keys->wants(keys->ctx, l->key))
			continue;
		const char *key = strings_get(&d->label_text, l->key, &len);
		struct label *to = &out[n_out++];
		*to = (struct label){ .key = key, .str = "", .type = l->type };
		to->key_len = (uint32_t)len;
		if (l->type == LABEL_INT) {
			to->num = l->num;
		} else {
			to->str = l->str;
			to->str_len = l->len;
		}
	}
	return ts && ts->n ? labels_normalize(out, n_out) : n_out;
}
