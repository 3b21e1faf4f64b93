/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a window, as they were recorded, and the groups of any block. */
#include "store/read/rows.h"

#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/read/symbols.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SOME_ROWS 64
int reading_failed(const struct reading *r, int rc)
{
	return block_failed(r->s, r->ref, rc, r->err);
}

static bool wants_key(void *ctx, uint32_t key)
{
	struct reading *r = ctx;
	if (!r->known[key])
		r->known[key] =
			contents_wants(r->how->keys, strings_get(&r->d->label_text, key, NULL))
				? WANTED(0)
				: UNWANTED;
	return r->known[key] == WANTED(0);
}

static const struct settable_keys *keys_of(const struct reading *r)
{
	return r->known ? &r->wants : NULL;
}

/* The set with the label of the host, in room; a set that is full stays as it is. */
static const struct label *add_host(const struct reading *r, const struct label *labels, size_t *n,
				    struct label *room)
{
	if (!r->host || *n == STORE_SET_MAX || labels_find(labels, *n, r->host) != *n)
		return labels;
	if (*n)
		memcpy(room, labels, *n * sizeof(*room));
	room[(*n)++] = *r->host;
	*n = labels_normalize(room, *n);
	return room;
}

int reading_map_labels(struct reading *r, const struct label *labels, size_t n, uint32_t *ret)
{
	struct label room[STORE_SET_MAX];
	bool wanted = true;
	uint32_t id = 0;
	labels = add_host(r, labels, &n, room);
	int rc = r->how->filter ? r->how->filter(r->how->ctx, labels, n, &wanted) : 0;
	if (rc || !wanted) {
		*ret = UNWANTED;
		return rc;
	}
	if (r->how->set && !r->how->fold_sets) {
		rc = r->how->set(r->how->ctx, labels, n, &id);
	} else if (!r->how->fold_sets) {
		rc = setpool_add(&store_names(r->s)->sets, labels, n, &id);
		rc = rc ? reading_failed(r, rc) : 0;
	}
	if (rc)
		return rc;
	*ret = WANTED(id);
	return 0;
}

static int map_narrow(struct reading *r, uint32_t narrow, const struct settable_set *ts,
		      uint32_t *ret)
{
	struct label labels[STORE_SET_MAX];
	size_t n = contents_labels(r->d, narrow, &r->table, ts, keys_of(r), labels);
	return reading_map_labels(r, labels, n, ret);
}

/* What the table has of a set are the labels of interest alone. */
static int map_set(struct reading *r, uint32_t set)
{
	const struct settable_set *ts = r->table.n ? &r->table.sets[set] : NULL;
	int rc = r->how->key ? reading_map_key(r, set, &r->map[set]) : 0;
	if (rc || r->map[set])
		return rc;
	if (!ts || ts->n)
		return map_narrow(r, ts ? ts->narrow : set, ts, &r->map[set]);
	uint32_t *of = &r->of_narrow[ts->narrow];
	rc = *of ? 0 : map_narrow(r, ts->narrow, NULL, of);
	r->map[set] = *of;
	return rc;
}

int reading_find_set(struct reading *r, uint32_t set, uint32_t *ret)
{
	int rc = r->map[set] ? 0 : map_set(r, set);
	*ret = r->map[set];
	return rc;
}

/* ---- rows as they are ---- */

/* Keep the rows whose sets are wanted. */
static int keep_wanted(struct reading *r, struct store_row *rows, int n, int *ret)
{
	uint32_t id;
	int kept = 0;
	for (int i = 0; i < n; i++) {
		int rc = reading_find_set(r, rows[i].set, &id);
		if (rc)
			return rc;
		if (id == UNWANTED)
			continue;
		rows[kept] = rows[i];
		rows[kept++].set = id - WANTED(0);
	}
	*ret = kept;
	return 0;
}

static int give_rows(struct reading *r, struct store_row *rows, int n)
{
	for (int i = 0; i < n; i++) {
		rows[i].stack = r->stack;
		rows[i].event = r->event;
	}
	return n ? r->how->rows(r->how->ctx, rows, (size_t)n) : 0;
}

static int add_rows(struct reading *r, const struct store_row *rows, int n, struct store_row *sum)
{
	uint32_t id;
	for (int i = 0; i < n; i++) {
		int rc = reading_find_set(r, rows[i].set, &id);
		if (rc)
			return rc;
		if (id != UNWANTED) {
			sum->samples += rows[i].samples;
			sum->value += rows[i].value;
		}
	}
	return 0;
}

/* Look up the stack of the group at hand; as reading_wants_group. */
static int look_at_group(struct reading *r, const struct store_row *group)
{
	int rc = reading_leaf(r, group->stack);
	return rc ? reading_failed(r, rc) : reading_wants_group(r, group->samples, group->value);
}

static int fold_group(struct reading *r, struct rows_reader *rows)
{
	struct store_row some[SOME_ROWS], sum = { 0 };
	int rc = 0, n;
	while (!rc && (n = rows_take(rows, some, SOME_ROWS)))
		rc = n < 0 ? block_damaged(r->s, r->ref, r->err) : add_rows(r, some, n, &sum);
	if (rc || !sum.samples)
		return rc;
	int wanted = look_at_group(r, &rows->group);
	return wanted <= 0 ? wanted : give_rows(r, &sum, 1);
}

/* Behind a filter, look up stacks only for rows that pass: those of others would take memory. */
static int give_group(struct reading *r, struct rows_reader *rows)
{
	struct store_row some[SOME_ROWS];
	bool looked = !r->how->filter;
	int rc = 0, n, wanted = looked ? look_at_group(r, &rows->group) : 1;
	while (!rc && wanted > 0 && (n = rows_take(rows, some, SOME_ROWS))) {
		rc = n < 0 ? block_damaged(r->s, r->ref, r->err) : keep_wanted(r, some, n, &n);
		if (!rc && n && !looked) {
			wanted = look_at_group(r, &rows->group);
			looked = true;
		}
		if (!rc && wanted > 0)
			rc = give_rows(r, some, n);
	}
	return wanted < 0 ? wanted : rc;
}

/* ---- a window, or the groups of any block ---- */

/*
 * The sum of a group. Filled in by parts: to copy the whole of it, right after its parts were
 * written, is what would take longest.
 */
static int give_sum(struct reading *r, const struct store_row *group)
{
	const struct store_row out = { .stack = r->stack,
				       .event = r->event,
				       .samples = group->samples,
				       .value = group->value };
	return r->cb(r->ctx, &out);
}

bool reading_wants_event(const struct reading *r)
{
	return !r->how || !r->how->events || r->how->events[r->event];
}

int reading_wants_group(const struct reading *r, uint64_t samples, uint64_t value)
{
	const struct store_row sum = {
		.stack = r->stack, .event = r->event, .samples = samples, .value = value
	};
	return r->how->group ? r->how->group(r->how->ctx, &sum) : 1;
}

int reading_idle(struct reading *r, bool idle)
{
	struct store *s = store_names(r->s);
	const struct store_frame f = { .kind = FRAME_IDLE };
	uint32_t frame;
	r->stack = 0;
	if (!idle)
		return 0;
	int rc = dicts_add_frame(&s->sym, &f, &frame);
	return rc ? rc : dicts_add_stack(&s->sym, 0, frame, &r->stack);
}

bool reading_leaf_is_idle(const struct store_block *b, const struct dicts *d, uint32_t leaf)
{
	return b->idle ? leaf + 1 == b->idle && leaf : dicts_is_idle(d, d->leaves[leaf]);
}

unsigned reading_names(const struct reading *r)
{
	return r->how && r->how->fold_stacks && r->ref->b.idle ? 0 : SYMBOLS_NAMES;
}

int reading_leaf(struct reading *r, uint32_t leaf)
{
	if (r->how && r->how->fold_stacks)
		return reading_idle(r, reading_leaf_is_idle(&r->ref->b, r->d, leaf));
	return translate_leaf_stack(r->to, leaf, &r->stack);
}

/* ---- rows without their stacks: of each set one, when all have been added up ---- */

static int sum_group(struct reading *r, struct rows_reader *rows)
{
	const struct store_row *g = &rows->group;
	struct event_sums *to =
		&r->sums[g->event][reading_leaf_is_idle(&r->ref->b, r->d, g->stack)];
	if (!to->by_set && !(to->by_set = calloc(r->n_sets, sizeof(*to->by_set))))
		return reading_failed(r, -ENOMEM);
	to->all.samples += g->samples;
	to->all.value += g->value;
	return rows_sum(rows, to->by_set) ? block_damaged(r->s, r->ref, r->err) : 0;
}

static int give_sets(struct reading *r, const struct rows_sum *by_set)
{
	struct store_row some[SOME_ROWS];
	int rc = 0, n = 0;
	for (uint32_t i = 0; !rc && i < r->n_sets; i++) {
		if (by_set[i].samples)
			some[n++] = (struct store_row){ .set = i,
							.samples = by_set[i].samples,
							.value = by_set[i].value };
		if (n < SOME_ROWS && i + 1 < r->n_sets)
			continue;
		rc = keep_wanted(r, some, n, &n);
		rc = rc ? rc : give_rows(r, some, n);
		n = 0;
	}
	return rc;
}

static int give_sums(struct reading *r)
{
	int rc = 0;
	for (uint32_t i = 0; !rc && i < 2 * r->n_events; i++) {
		const struct event_sums *sums = &r->sums[i / 2][i % 2];
		if (!sums->by_set)
			continue;
		rc = translate_event(r->to, i / 2, &r->event);
		rc = rc ? rc : reading_idle(r, i % 2);
		if (rc)
			return reading_failed(r, rc);
		int wanted = reading_wants_group(r, sums->all.samples, sums->all.value);
		r->stack = 0;
		rc = wanted > 0 ? give_sets(r, sums->by_set) : wanted;
	}
	return rc;
}

/* ---- the groups of a block ---- */

/* Leaf and event of a group are looked up once. */
static int read_group(struct reading *r, struct rows_reader *rows)
{
	int rc = translate_event(r->to, rows->group.event, &r->event);
	if (!rc && !reading_wants_event(r))
		return 0;
	if (!rc && r->sums)
		return sum_group(r, rows);
	if (!rc && r->how)
		return r->how->fold_sets ? fold_group(r, rows) : give_group(r, rows);
	rc = rc ? rc : reading_leaf(r, rows->group.stack);
	return rc ? reading_failed(r, rc) : give_sum(r, &rows->group);
}

static int read_groups(struct reading *r, const struct block_data *d)
{
	struct rows_reader rows;
	unsigned what = reading_names(r) | (r->how ? SYMBOLS_SETS : 0);
	int more, rc = contents_rows(r->s, r->ref, d, what, &rows, r->err);
	if (!rc)
		rc = store_translation(r->s, r->ref, what, &r->to, r->err);
	while (!rc && (more = rows_next_group(&rows)))
		rc = more < 0 ? block_damaged(r->s, r->ref, r->err) : read_group(r, &rows);
	return rc;
}

static int make_maps(struct reading *r, const struct block_data *d)
{
	struct rows_limits l;
	int rc = contents_limits(r->s, r->ref, &d->head, SYMBOLS_SETS, &l, r->err);
	if (rc)
		return rc;
	r->n_sets = l.n_sets;
	r->map = calloc(r->n_sets, sizeof(*r->map));
	if (r->map && r->table.n)
		r->of_narrow = calloc(d->head.mark.count[KIND_SETS], sizeof(*r->of_narrow));
	if (r->how->fold_stacks) {
		r->n_events = l.n_events;
		r->sums = calloc(r->n_events, sizeof(*r->sums));
	}
	return r->map && (r->of_narrow || !r->table.n) && (r->sums || !r->how->fold_stacks)
		       ? 0
		       : reading_failed(r, -ENOMEM);
}

/* Whether a label of interest may be in the window's table: the others need not be unpacked. */
static bool needs_table(const struct reading *r, const struct block_keys *k)
{
	for (size_t i = 0; i < k->n; i++) {
		char key[STRING_MAX + 1];
		memcpy(key, k->v[i].key, k->v[i].len);
		key[k->v[i].len] = 0;
		if (contents_wants(r->how->keys, key))
			return true;
	}
	return false;
}

int reading_want_keys(struct reading *r)
{
	if (r->how->keys && !(r->known = calloc(r->d->label_text.n, 1)))
		return reading_failed(r, -ENOMEM);
	r->wants = (struct settable_keys){ wants_key, r };
	return 0;
}

int reading_begin_window(struct reading *r, struct block_data *ret)
{
	struct block_keys keys = { 0 };
	int rc = block_read(r->s, r->ref, WANT_ROWS | WANT_TABLE | WANT_KEYS, ret, r->err);
	if (rc)
		return rc;
	rc = contents_keys(r->s, r->ref, ret, &keys, r->err);
	rc = rc ? rc : reading_want_keys(r);
	rc = rc ? rc
		: contents_table(r->s, r->ref, ret, needs_table(r, &keys), keys_of(r), &r->table,
				 r->err);
	rc = rc ? rc : make_maps(r, ret);
	/* In their order: those of one narrow set stand together. */
	for (uint32_t i = 0; !rc && r->how->key && i < r->table.n; i++)
		rc = reading_map_key(r, i, &r->map[i]);
	block_keys_fini(&keys);
	if (rc)
		block_data_fini(ret);
	return rc;
}

static int read_window(struct reading *r)
{
	struct block_data d;
	int rc = reading_begin_window(r, &d);
	if (rc)
		return rc;
	rc = read_groups(r, &d);
	rc = rc || !r->sums ? rc : give_sums(r);
	block_data_fini(&d);
	return rc;
}

/* ---- any ---- */

int reading_begin(struct reading *r, struct store *s, const struct store_block *b,
		  const struct store_reading *how, struct err *err)
{
	*r = (struct reading){ .ref = store_ref(b), .how = how, .err = err };
	int rc = how->filter ? 0 : store_check_scope(s, err);
	if (rc)
		return rc;
	r->s = store_of(s, r->ref);
	if (r->s->host.str_len && (!how->keys || contents_wants(how->keys, r->s->host.key)))
		r->host = &r->s->host;
	if (b->flags & BLOCK_NO_LABELS)
		return err_set(err, -ENODATA, "the labels of this time are gone");
	return store_dicts(r->s, r->ref, b->level ? SYMBOLS_SETS : SYMBOLS_SETS | reading_names(r),
			   &r->d, err);
}

void reading_fini(struct reading *r)
{
	for (uint32_t i = 0; r->sums && i < 2 * r->n_events; i++)
		free(r->sums[i / 2][i % 2].by_set);
	free(r->sums);
	free(r->map);
	free(r->of_narrow);
	free(r->known);
	settable_fini(&r->table);
}

/* ---- rows of a union whose labels are gone: what is left is their host ---- */

struct host_rows {
	const struct store_reading *how;
	uint32_t set;
};

static int give_with_host(void *ctx, const struct store_row *group)
{
	const struct host_rows *h = ctx;
	struct store_row row = *group;
	int wanted = h->how->group ? h->how->group(h->how->ctx, group) : 1;
	row.set = h->set;
	row.stack = h->how->fold_stacks ? 0 : row.stack;
	return wanted <= 0 ? wanted : h->how->rows(h->how->ctx, &row, 1);
}

/* Not for a filter that looks at other labels: whether it lets a row pass is not known. */
static bool host_is_all(const struct reading *r)
{
	return r->host && (!r->how->filter || (r->how->keys && r->how->keys->n == 1));
}

static int read_with_host(struct reading *r)
{
	struct host_rows h = { r->how, 0 };
	uint32_t id;
	int rc = reading_map_labels(r, NULL, 0, &id);
	if (rc || id == UNWANTED)
		return rc;
	h.set = id - WANTED(0);
	return store_block_folded(r->s, &r->ref->b, give_with_host, &h, r->err);
}

int store_block_read(struct store *s, const struct store_block *b, const struct store_reading *how,
		     struct err *err)
{
	struct reading r;
	int rc = reading_begin(&r, s, b, how, err);
	if (!rc)
		rc = b->level ? reading_parent(&r) : read_window(&r);
	if (rc == -ENODATA && host_is_all(&r))
		rc = read_with_host(&r);
	reading_fini(&r);
	return rc;
}

struct one_by_one {
	store_filter *filter;
	int (*cb)(void *ctx, const struct store_row *row);
	void *ctx;
};

static int filter_one(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	const struct one_by_one *o = ctx;
	return o->filter(o->ctx, labels, n, ret);
}

static int give_one_by_one(void *ctx, const struct store_row *rows, size_t n)
{
	const struct one_by_one *o = ctx;
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = o->cb(o->ctx, &rows[i]);
	return rc;
}

int store_block_rows(struct store *s, const struct store_block *b, const struct store_keys *keys,
		     store_filter *filter, int (*cb)(void *ctx, const struct store_row *row),
		     void *ctx, struct err *err)
{
	struct one_by_one o = { filter, cb, ctx };
	const struct store_reading how = { .keys = keys,
					   .filter = filter ? filter_one : NULL,
					   .rows = give_one_by_one,
					   .ctx = &o };
	return store_block_read(s, b, &how, err);
}

int store_block_folded(struct store *s, const struct store_block *b,
		       int (*cb)(void *ctx, const struct store_row *row), void *ctx,
		       struct err *err)
{
	int rc = store_check_scope(s, err);
	if (rc)
		return rc;
	s = store_of(s, store_ref(b));
	struct reading r = { .s = s, .ref = store_ref(b), .cb = cb, .ctx = ctx, .err = err };
	struct block_data d;
	rc = block_read(s, r.ref, WANT_FOLDED, &d, err);
	if (rc)
		return rc;
	rc = read_groups(&r, &d);
	block_data_fini(&d);
	return rc;
}

/* ---- sums over all stacks ---- */

/* sums: by event, of busy and of idle CPUs. */
static int sum_events(struct reading *r, struct rows_reader *rows, struct rows_sum (*sums)[2])
{
	int more;
	while ((more = rows_next_group(rows)) > 0) {
		struct rows_sum *to =
			&sums[rows->group.event]
			     [reading_leaf_is_idle(&r->ref->b, r->d, rows->group.stack)];
		to->samples += rows->group.samples;
		to->value += rows->group.value;
	}
	return more ? block_damaged(r->s, r->ref, r->err) : 0;
}

static int give_event_sums(struct reading *r, struct rows_sum (*sums)[2])
{
	int rc = 0;
	for (uint32_t e = 0; !rc && e < r->d->n_events; e++)
		for (int idle = 0; !rc && idle < 2; idle++) {
			const struct store_row sum = { .samples = sums[e][idle].samples,
						       .value = sums[e][idle].value };
			if (!sum.samples)
				continue;
			rc = translate_event(r->to, e, &r->event);
			rc = rc ? rc : reading_idle(r, idle);
			rc = rc ? reading_failed(r, rc) : give_sum(r, &sum);
		}
	return rc;
}

int store_block_sums(struct store *s, const struct store_block *b,
		     int (*cb)(void *ctx, const struct store_row *row), void *ctx, struct err *err)
{
	int rc = store_check_scope(s, err);
	if (rc)
		return rc;
	s = store_of(s, store_ref(b));
	struct reading r = { .s = s, .ref = store_ref(b), .cb = cb, .ctx = ctx, .err = err };
	const unsigned what = b->idle ? 0 : SYMBOLS_NAMES;
	struct rows_sum(*sums)[2] = NULL;
	struct block_data d;
	struct rows_reader rows;
	rc = block_read(s, r.ref, WANT_FOLDED, &d, err);
	if (rc)
		return rc;
	rc = contents_rows(s, r.ref, &d, what, &rows, err);
	rc = rc ? rc : store_dicts(s, r.ref, what, &r.d, err);
	rc = rc ? rc : store_translation(s, r.ref, what, &r.to, err);
	if (!rc && !(sums = calloc(r.d->n_events, sizeof(*sums))))
		rc = reading_failed(&r, -ENOMEM);
	rc = rc ? rc : sum_events(&r, &rows, sums);
	rc = rc ? rc : give_event_sums(&r, sums);
	free(sums);
	block_data_fini(&d);
	return rc;
}
