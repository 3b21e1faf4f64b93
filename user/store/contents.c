/* SPDX-License-Identifier: Apache-2.0 */
/* What the columns of a block say, in the ids of its generation and epoch. */
#include "store/store_int.h"

#include <errno.h>
#include <stdlib.h>

static int result(const struct store *s, const struct block_ref *r, int rc, struct err *err)
{
	if (rc == -EBADMSG)
		return block_damaged(s, r, err);
	return rc ? err_sys(err, rc, "cannot read %s", s->dir) : 0;
}

static struct rows_limits limits(const struct block_head *h, const struct dict_gen *gen)
{
	return (struct rows_limits){ h->info.n_table ? h->info.n_table : h->marks[KIND_SETS].count,
				     h->marks[KIND_STACKS].count, h->marks[KIND_EVENTS].count, gen->d.events };
}

/* The generation whose dictionaries the store took over has its events there. */
static int open_gen(struct store *s, const struct block_ref *r, struct rows_limits *l, const struct block_head *h,
		    struct err *err)
{
	struct dict_gen *gen, *epoch;
	int rc = store_gen(s, r, &gen, err);
	if (!rc)
		rc = store_epoch(s, r, &epoch, err);
	if (rc)
		return rc;
	*l = limits(h, gen);
	const struct dicts *d = gen->same ? &s->sym : &gen->d;
	l->events = d->events;
	/* The marks' counts were right when they were written, and a checksum has kept them. */
	if (h->marks[KIND_STACKS].count > d->n_stacks || h->marks[KIND_EVENTS].count > d->n_events ||
	    h->marks[KIND_SETS].count > epoch->d.n_sets)
		return block_damaged(s, r, err);
	return 0;
}

int contents_rows(struct store *s, const struct block_ref *r, const struct block_data *d, struct rows *ret,
		  struct err *err)
{
	struct rows_limits l;
	int rc = open_gen(s, r, &l, &d->head, err);
	if (rc)
		return rc;
	if (!block_has(&d->head, COLUMN_SET))
		return d->head.info.n_rows ? block_damaged(s, r, err) : 0;
	rc = rows_decode(ret, d->column + COLUMN_SET, block_has(&d->head, COLUMN_VALUE), d->head.info.n_rows, false, &l);
	return result(s, r, rc, err);
}

int contents_folded(struct store *s, const struct block_ref *r, const struct block_data *d, struct rows *ret,
		    struct err *err)
{
	struct rows_limits l;
	int rc = open_gen(s, r, &l, &d->head, err);
	if (rc)
		return rc;
	/* In rows_decode's order: the column of sets comes first and is not looked at. */
	const struct buf *raw = d->column + COLUMN_FOLDED_STACK - 1;
	l.n_sets = 1;
	if (!block_has(&d->head, COLUMN_FOLDED_STACK))
		return d->head.info.n_folded ? block_damaged(s, r, err) : 0;
	rc = rows_decode(ret, raw, block_has(&d->head, COLUMN_FOLDED_VALUE), d->head.info.n_folded, true, &l);
	return result(s, r, rc, err);
}

int contents_table(struct store *s, const struct block_ref *r, const struct block_data *d, struct settable *ret,
		   struct err *err)
{
	struct dict_gen *epoch;
	const struct block_head *h = &d->head;
	*ret = (struct settable){ 0 };
	if (!h->info.n_table)
		return 0;
	int rc = store_epoch(s, r, &epoch, err);
	if (rc)
		return rc;
	if (h->marks[KIND_SETS].count > epoch->d.n_sets || !block_has(h, COLUMN_TABLE_NARROW))
		return block_damaged(s, r, err);
	rc = settable_decode(ret, d->column + COLUMN_TABLE_NARROW, h->info.n_table, h->marks[KIND_SETS].count,
			  epoch->d.label_text.n);
	return result(s, r, rc, err);
}

int contents_totals(struct store *s, const struct block_ref *r, const struct block_data *d, struct totals *ret,
		    struct err *err)
{
	const struct store_meta *m = &s->header.meta;
	const struct buf *raw = &d->column[COLUMN_TOTALS];
	struct cursor c = { raw->data, raw->data + raw->len, 0 };
	int rc = block_has(&d->head, COLUMN_TOTALS) ? totals_decode(ret, &c, m->n_lost, m->n_flagged) : -EBADMSG;
	return result(s, r, rc, err);
}

int contents_dropped(struct store *s, const struct block_ref *r, const struct block_data *d, struct dropped_key **ret,
		     size_t *ret_n, struct err *err)
{
	struct dict_gen *epoch;
	const struct buf *raw = &d->column[COLUMN_DROPPED];
	struct cursor c = { raw->data, raw->data + raw->len, 0 };
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
	*ret = (struct top){ 0 };
	if (!block_has(&d->head, COLUMN_TOP))
		return 0;
	int rc = store_epoch(s, r, &epoch, err);
	if (!rc)
		rc = result(s, r,
			    top_decode(ret, &d->column[COLUMN_TOP], epoch->d.label_text.n,
				       d->head.marks[KIND_EVENTS].count),
			    err);
	return rc;
}

size_t contents_labels(const struct dicts *d, uint32_t narrow, const struct settable *t, const struct settable_set *ts,
		       struct label *out)
{
	const struct set_label *v;
	size_t n = dicts_set(d, narrow, &v), n_out = 0;
	for (size_t i = 0; i < n && n_out < STORE_SET_MAX; i++)
		out[n_out++] = dicts_label(d, &v[i]);
	for (uint32_t i = 0; ts && i < ts->n && n_out < STORE_SET_MAX; i++) {
		const struct settable_label *l = &t->labels[ts->first + i];
		size_t len;
		struct label *to = &out[n_out++];
		*to = (struct label){ .key = strings_get(&d->label_text, l->key, &len), .str = "", .type = l->type };
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
