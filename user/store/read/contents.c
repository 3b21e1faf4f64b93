/* SPDX-License-Identifier: Apache-2.0 */
/* What the columns of a block say, in the ids of its segment. */
#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/read/store_int.h"
#include "store/read/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int contents_limits(struct store *s, const struct block_ref *r, const struct block_head *h,
		    unsigned what, struct rows_limits *l, struct err *err)
{
	const struct dicts *d;
	const uint32_t *n = h->mark.count;
	int rc = store_dicts(s, r, what, &d, err);
	if (rc)
		return rc;
	if ((what & SYMBOLS_NAMES && n[KIND_LEAVES] > d->n_leaves) || !n[KIND_LEAVES] ||
	    (what & SYMBOLS_SETS && n[KIND_SETS] > d->n_sets) || n[KIND_EVENTS] > d->n_events)
		return block_damaged(s, r, err);
	*l = (struct rows_limits){ h->info.n_table ? h->info.n_table : n[KIND_SETS], n[KIND_LEAVES],
				   n[KIND_EVENTS], d->events };
	return 0;
}

int contents_rows(struct store *s, const struct block_ref *r, const struct block_data *d,
		  unsigned what, struct rows_reader *ret, struct err *err)
{
	struct rows_limits l;
	int rc = contents_limits(s, r, &d->head, what, &l, err);
	if (!rc)
		rows_begin(ret, &d->head, d->column + COLUMN_LEAF, what & SYMBOLS_SETS, &l);
	return rc;
}

int contents_table(struct store *s, const struct block_ref *r, const struct block_data *d,
		   bool labels, const struct settable_keys *keys, struct settable *ret,
		   struct err *err)
{
	const struct dicts *dicts;
	const struct block_head *h = &d->head;
	*ret = (struct settable){ 0 };
	if (!h->info.n_table)
		return 0;
	int rc = store_dicts(s, r, SYMBOLS_SETS, &dicts, err);
	if (rc)
		return rc;
	if (!block_has(h, COLUMN_TABLE_NARROW) || h->mark.count[KIND_SETS] > dicts->n_sets)
		return block_damaged(s, r, err);
	const struct buf *raw = d->column + COLUMN_TABLE_NARROW;
	rc = labels ? settable_decode(ret, raw, h->info.n_table, h->mark.count[KIND_SETS],
				      dicts->label_text.n, keys)
		    : settable_decode_narrow(ret, raw, h->info.n_table, h->mark.count[KIND_SETS]);
	return block_failed(s, r, rc, err);
}

int contents_totals(struct store *s, const struct block_ref *r, const struct block_data *d,
		    struct totals *ret, struct err *err)
{
	const struct store_meta *m = &s->header.meta;
	const struct buf *raw = &d->column[COLUMN_TOTALS];
	struct cursor c = cursor_of(raw);
	int rc = block_has(&d->head, COLUMN_TOTALS)
			 ? totals_decode(ret, &c, m->n_lost, m->n_flagged)
			 : -EBADMSG;
	return block_failed(s, r, rc, err);
}

int contents_keys(struct store *s, const struct block_ref *r, const struct block_data *d,
		  struct block_keys *ret, struct err *err)
{
	*ret = (struct block_keys){ 0 };
	int rc = block_has(&d->head, COLUMN_KEYS) ? block_keys_decode(ret, &d->column[COLUMN_KEYS])
						  : 0;
	return block_failed(s, r, rc, err);
}

int contents_sums(struct store *s, const struct block_ref *r, const struct block_data *d,
		  struct set_sums_reader *ret, struct err *err)
{
	const struct dicts *dicts;
	const uint32_t *n = d->head.mark.count;
	int rc = store_dicts(s, r, SYMBOLS_SETS, &dicts, err);
	if (rc)
		return rc;
	if (!block_has(&d->head, COLUMN_SUMS) || n[KIND_SETS] > dicts->n_sets ||
	    n[KIND_EVENTS] > dicts->n_events)
		return block_damaged(s, r, err);
	set_sums_begin(ret, &d->column[COLUMN_SUMS], n[KIND_SETS], n[KIND_EVENTS], dicts->events);
	return 0;
}

int contents_top(struct store *s, const struct block_ref *r, const struct block_data *d,
		 struct top *ret, struct err *err)
{
	const struct dicts *dicts;
	*ret = (struct top){ 0 };
	if (!block_has(&d->head, COLUMN_TOP))
		return 0;
	int rc = store_dicts(s, r, SYMBOLS_SETS, &dicts, err);
	return rc ? rc
		  : block_failed(s, r,
				 top_decode(ret, &d->column[COLUMN_TOP], dicts->label_text.n,
					    dicts->n_events),
				 err);
}

bool contents_wants(const struct store_keys *keys, const char *key)
{
	size_t i = 0;
	while (keys && i < keys->n && strcmp(keys->v[i], key))
		i++;
	return !keys || i < keys->n;
}

size_t contents_labels(const struct dicts *d, uint32_t narrow, const struct settable *t,
		       const struct settable_set *ts, const struct settable_keys *keys,
		       struct label *out)
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
		out[n_out++] = settable_as_label(key, (uint32_t)len, l);
	}
	return ts && ts->n ? labels_normalize(out, n_out) : n_out;
}
