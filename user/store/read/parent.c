/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Above the windows a question by keys is answered from the sums of label sets, when it is not
 * about stacks, or from the projections of its one key.
 */
#include "store/read/rows.h"

#include "store/block/projection.h"
#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/read/symbols.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- above: sums of label sets ---- */

static int give_one(struct reading *r, uint32_t set, uint32_t stack, uint64_t samples,
		    uint64_t value)
{
	const struct store_row row = { set, stack, r->event, samples, value };
	return r->how->rows(r->how->ctx, &row, 1);
}

static int read_sums(struct reading *r)
{
	struct block_data d;
	struct set_sums_reader in;
	int more, rc = block_read(r->s, r->ref, WANT_SUMS, &d, r->err);
	if (rc)
		return rc;
	rc = contents_sums(r->s, r->ref, &d, &in, r->err);
	rc = rc ? rc : reading_want_keys(r);
	r->map = rc ? NULL : calloc(in.n_sets, sizeof(*r->map));
	if (!rc && !r->map)
		rc = reading_failed(r, -ENOMEM);
	while (!rc && (more = set_sums_next(&in))) {
		uint32_t id = UNWANTED;
		if (more < 0) {
			rc = block_damaged(r->s, r->ref, r->err);
			break;
		}
		rc = translate_event(r->to, in.row.event, &r->event);
		if (!rc && !reading_wants_event(r))
			continue;
		rc = rc ? rc : reading_idle(r, in.idle);
		if (rc) {
			rc = reading_failed(r, rc);
			break;
		}
		int wanted = reading_wants_group(r, in.row.samples, in.row.value);
		rc = wanted <= 0 ? wanted : reading_find_set(r, in.row.set, &id);
		if (!rc && wanted > 0 && id != UNWANTED)
			rc = give_one(r, id - WANTED(0), 0, in.row.samples, in.row.value);
	}
	block_data_fini(&d);
	return rc;
}

/* ---- above: projections of one key ---- */

/*
 * What no value of the key has: folded less all of them. There may be a dozen events, most of whose
 * leaves have none of the others: those of a leaf are a chain.
 */
struct rest_group {
	uint32_t event, next; /* of the leaf, + 1; 0: none */
	uint64_t samples, value;
};

struct rest {
	uint32_t *first; /* [n_leaves]: + 1, or 0 */
	uint32_t n_leaves;
	struct rest_group *v;
	size_t n, cap;
};

static int rest_of(struct rest *rest, uint32_t event, uint32_t leaf, struct rest_group **ret)
{
	for (uint32_t i = rest->first[leaf]; i; i = rest->v[i - 1].next)
		if (rest->v[i - 1].event == event) {
			*ret = &rest->v[i - 1];
			return 0;
		}
	if (ARRAY_RESERVE(rest->v, rest->cap, rest->n + 1))
		return -ENOMEM;
	*ret = &rest->v[rest->n++];
	**ret = (struct rest_group){ .event = event, .next = rest->first[leaf] };
	rest->first[leaf] = (uint32_t)rest->n;
	return 0;
}

static void rest_fini(struct rest *rest)
{
	free(rest->first);
	free(rest->v);
}

static int rest_init(struct reading *r, struct rest *ret)
{
	const struct dicts *d = r->d;
	*ret = (struct rest){ calloc(d->n_leaves, sizeof(*ret->first)), d->n_leaves, NULL, 0, 0 };
	return ret->first ? 0 : reading_failed(r, -ENOMEM);
}

/* All groups of the block, to take those of values off. */
static int rest_begin(struct reading *r, struct rest *ret)
{
	struct block_data d;
	struct rows_reader rows;
	int more, rc = block_read(r->s, r->ref, WANT_FOLDED, &d, r->err);
	if (rc)
		return rc;
	rc = contents_rows(r->s, r->ref, &d, SYMBOLS_NAMES, &rows, r->err);
	rc = rc ? rc : rest_init(r, ret);
	while (!rc && (more = rows_next_group(&rows))) {
		struct rest_group *g;
		if (more < 0) {
			rc = block_damaged(r->s, r->ref, r->err);
		} else if (translate_event(r->to, rows.group.event, &r->event)) {
			rc = reading_failed(r, -ENOMEM);
		} else if (!reading_wants_event(r)) {
			continue;
		} else if (rest_of(ret, rows.group.event, rows.group.stack, &g)) {
			rc = reading_failed(r, -ENOMEM);
		} else {
			g->samples = rows.group.samples;
			g->value = rows.group.value;
		}
	}
	block_data_fini(&d);
	return rc;
}

static int give_rest(struct reading *r, const struct rest *rest, uint32_t set)
{
	int rc = 0;
	for (uint32_t leaf = 0; !rc && leaf < rest->n_leaves; leaf++)
		for (uint32_t i = rest->first[leaf]; !rc && i; i = rest->v[i - 1].next) {
			const struct rest_group *g = &rest->v[i - 1];
			if (!g->samples)
				continue;
			if (reading_leaf(r, leaf) || translate_event(r->to, g->event, &r->event))
				return reading_failed(r, -ENOMEM);
			int wanted = reading_wants_group(r, g->samples, g->value);
			rc = wanted <= 0 ? wanted
					 : give_one(r, set, r->how->fold_stacks ? 0 : r->stack,
						    g->samples, g->value);
		}
	return rc;
}

struct projecting {
	struct reading *r;
	const struct block_head *head;
	const struct block_key *key;
	struct value_list list;
	struct rest rest;
	bool folds; /* all that is wanted is one: of the rest, what is not wanted is taken off; else
		       what is is added up */
	bool wants_rest;
	uint32_t rest_set;
};

/* The sums of a value, from the list alone. */
static int give_value_sums(struct projecting *p, uint32_t set)
{
	struct reading *r = p->r;
	int rc = 0;
	for (size_t i = 0; !rc && i < p->list.n_sums; i++) {
		const struct value_sum *sum = &p->list.sums[i];
		rc = translate_event(r->to, sum->event, &r->event);
		if (!rc && !reading_wants_event(r))
			continue;
		rc = rc ? rc : reading_idle(r, sum->idle);
		if (rc)
			return reading_failed(r, rc);
		int wanted = reading_wants_group(r, sum->samples, sum->value);
		rc = wanted <= 0 ? wanted : give_one(r, set, 0, sum->samples, sum->value);
	}
	return rc;
}

/* Take a group off those that no value was taken off, or add it to those that are wanted. */
static int fold_group(struct projecting *p, const struct store_row *row, bool add)
{
	struct rest_group *g;
	if (rest_of(&p->rest, row->event, row->stack, &g))
		return reading_failed(p->r, -ENOMEM);
	if (!add && g->samples < row->samples)
		return block_damaged(p->r->s, p->r->ref, p->r->err);
	g->samples += add ? row->samples : -row->samples;
	g->value += add ? row->value : -row->value;
	return 0;
}

static int give_group(struct projecting *p, const struct store_row *row, uint32_t set)
{
	struct reading *r = p->r;
	int rc = reading_leaf(r, row->stack);
	if (rc)
		return reading_failed(r, rc);
	int wanted = reading_wants_group(r, row->samples, row->value);
	return wanted <= 0 ? wanted
			   : give_one(r, set, r->how->fold_stacks ? 0 : r->stack, row->samples,
				      row->value);
}

/* The groups of the value at hand: they are folded, or given with this set, or both. */
static int read_value(struct projecting *p, bool fold, bool given, uint32_t set)
{
	struct reading *r = p->r;
	struct buf raw = BUF_INIT;
	struct groups_reader in;
	const struct block_column at = { p->list.at, p->list.raw_len, p->list.stored_len,
					 p->list.crc, p->list.codec };
	int more,
		rc = block_read_piece(r->s, r->ref, p->head, COLUMN_PROJECTIONS, &at, &raw, r->err);
	if (!rc)
		groups_begin(&in, &p->list, &raw, p->head->mark.count[KIND_LEAVES]);
	while (!rc && (more = groups_next(&in))) {
		rc = more < 0 ? block_damaged(r->s, r->ref, r->err) : 0;
		if (!rc && translate_event(r->to, in.row.event, &r->event))
			rc = reading_failed(r, -ENOMEM);
		if (!rc && !reading_wants_event(r))
			continue;
		if (!rc && fold)
			rc = fold_group(p, &in.row, !p->wants_rest);
		if (!rc && given)
			rc = give_group(p, &in.row, set);
	}
	buf_fini(&raw);
	return rc;
}

static int read_values(struct projecting *p)
{
	struct reading *r = p->r;
	int more, rc = 0;
	while (!rc && p->key && (more = value_list_next(&p->list))) {
		struct label label;
		uint32_t id = UNWANTED;
		if (more < 0)
			return more == -ENOMEM ? reading_failed(r, more)
					       : block_damaged(r->s, r->ref, r->err);
		label = settable_as_label(p->key->key, p->key->len, &p->list.value);
		rc = reading_map_labels(r, &label, 1, &id);
		if (rc)
			break;
		bool wanted = id != UNWANTED;
		if (p->folds && wanted != p->wants_rest)
			rc = read_value(p, true, false, 0);
		else if (!p->folds && wanted && r->how->fold_stacks && !p->wants_rest)
			rc = give_value_sums(p, id - WANTED(0));
		else if (!p->folds && (wanted || p->wants_rest))
			rc = read_value(p, p->wants_rest, wanted, wanted ? id - WANTED(0) : 0);
	}
	return rc || !(p->wants_rest || p->folds) ? rc : give_rest(r, &p->rest, p->rest_set);
}

/* key: NULL when no row of the block has it. */
static int read_projections(struct reading *r, const struct block_data *d,
			    const struct block_key *key)
{
	struct projecting p = { .r = r, .head = &d->head, .key = key };
	struct buf raw = BUF_INIT;
	uint32_t rest = UNWANTED;
	int rc = reading_map_labels(r, NULL, 0, &rest);
	bool names = rest != UNWANTED || reading_names(r);
	rc = rc ? rc : store_dicts(r->s, r->ref, names ? SYMBOLS_ALL : SYMBOLS_SETS, &r->d, r->err);
	p.folds = r->how->fold_sets && !r->how->fold_stacks;
	p.wants_rest = rest != UNWANTED;
	p.rest_set = p.wants_rest ? rest - WANTED(0) : 0;
	if (!rc && p.wants_rest)
		rc = rest_begin(r, &p.rest);
	else if (!rc && p.folds)
		rc = rest_init(r, &p.rest);
	if (!rc && key) {
		const struct block_column at = { key->at, key->raw_len, key->stored_len, key->crc,
						 key->codec };
		rc = block_read_piece(r->s, r->ref, &d->head, COLUMN_VALUES, &at, &raw, r->err);
	}
	if (!rc && key && value_list_begin(&p.list, &raw, r->d->n_events, r->d->events))
		rc = block_damaged(r->s, r->ref, r->err);
	if (!rc && names && d->head.mark.count[KIND_LEAVES] > r->d->n_leaves)
		rc = block_damaged(r->s, r->ref, r->err);
	rc = rc ? rc : read_values(&p);
	value_list_fini(&p.list);
	rest_fini(&p.rest);
	buf_fini(&raw);
	return rc;
}

/* ---- either ---- */

bool block_answers(const struct block_keys *k, const char *const *keys, size_t n, bool stacks)
{
	size_t n_have = 0;
	bool summed = !stacks, projected = true;
	for (size_t i = 0; i < n; i++) {
		const struct block_key *key = block_keys_find(k, keys[i], strlen(keys[i]));
		if (!key && k->more)
			return false;
		n_have += key != NULL;
		summed &= !key || key->state & KEY_SUMMED;
		projected &= !key || key->state & KEY_PROJECTED;
	}
	return summed || !n_have || (n_have == 1 && projected);
}

int reading_parent(struct reading *r)
{
	const struct store_keys *keys = r->how->keys;
	struct block_data d;
	struct block_keys have = { 0 };
	const struct block_key *one = NULL;
	bool summed = r->how->fold_stacks;
	int rc = keys ? block_read(r->s, r->ref, WANT_KEYS, &d, r->err) : -ENODATA;
	if (rc)
		return rc == -ENODATA
			       ? err_set(r->err, rc, "the rows of this block are in its windows")
			       : rc;
	rc = contents_keys(r->s, r->ref, &d, &have, r->err);
	if (!rc && !block_answers(&have, keys->v, keys->n, !summed))
		rc = err_set(r->err, -ENODATA, "the rows of this block are in its windows");
	for (size_t i = 0; !rc && i < keys->n; i++) {
		const struct block_key *key =
			block_keys_find(&have, keys->v[i], strlen(keys->v[i]));
		summed &= !key || key->state & KEY_SUMMED;
		one = key ? key : one;
	}
	if (!rc)
		rc = store_translation(r->s, r->ref, 0, &r->to, r->err);
	if (!rc)
		rc = summed ? read_sums(r) : read_projections(r, &d, one);
	block_keys_fini(&have);
	block_data_fini(&d);
	return rc;
}
