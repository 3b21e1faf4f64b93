/* SPDX-License-Identifier: Apache-2.0 */
#include "query/lengths.h"

#include "query/selector.h"
#include "query/table_int.h"
#include "query/waits.h"
#include "util/array.h"
#include "util/buf.h"
#include "util/idhash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A histogram takes some four times what a label set may cost, so a quarter of the budget is for
 * the sets.
 */
#define HIST_PARTS 4

struct group {
	size_t key, key_len; /* in keys */
	struct hist_snapshot hist;
};

#define NAME_MAX_BYTES 600 /* of an event */

struct query_lengths {
	bool of_waits;
	const char *const *by;
	size_t n_by;
	struct buf keys; /* of all groups: per value its presence, its bytes, a NUL */
	struct group *group;
	size_t n, cap;
	struct idhash hash;
	bool bounded;
	int64_t to_ns;
};

struct key {
	const uint8_t *data;
	size_t len;
};

static bool same_key(const void *ctx, uint32_t id, const void *key)
{
	const struct query_lengths *l = ctx;
	const struct key *k = key;
	return l->group[id].key_len == k->len &&
	       !memcmp((const uint8_t *)l->keys.data + l->group[id].key, k->data, k->len);
}

static int add_value(struct buf *b, bool present, const char *text, size_t len)
{
	int rc = buf_add_u8(b, present);
	/* a table shows a value up to its first NUL */
	rc = rc ? rc : buf_add(b, text, strnlen(text, len));
	return rc ? rc : buf_add_u8(b, 0);
}

static int key_of_set(const struct query_lengths *l, const struct query *q, uint32_t set,
		      struct buf *out)
{
	const struct label *labels;
	size_t n = query_set(q, set, &labels);
	out->len = 0;
	int rc = buf_add_u8(out, 0); /* no key is empty */
	for (size_t i = 0; !rc && i < l->n_by; i++) {
		const struct label *found = NULL;
		char number[32];
		for (size_t k = 0; k < n; k++)
			if (labels[k].key_len == strlen(l->by[i]) &&
			    !memcmp(labels[k].key, l->by[i], labels[k].key_len))
				found = &labels[k];
		if (!found)
			rc = add_value(out, false, "", 0);
		else if (found->type == LABEL_INT)
			rc = add_value(out, true, number,
				       label_text(found, number, sizeof(number)));
		else
			rc = add_value(out, true, found->str, found->str_len);
	}
	return rc;
}

static int group_of(struct query_lengths *l, const struct buf *key, struct group **ret)
{
	struct key k = { key->data, key->len };
	uint32_t hash = idhash_hash(&l->hash, k.data, k.len),
		 id = idhash_find(&l->hash, hash, same_key, l, &k);
	if (id == IDHASH_NONE) {
		int rc = ARRAY_RESERVE(l->group, l->cap, l->n + 1);
		size_t at = l->keys.len;
		rc = rc ? rc : idhash_reserve(&l->hash);
		rc = rc ? rc : buf_add(&l->keys, k.data, k.len);
		if (rc)
			return rc;
		id = (uint32_t)l->n++;
		l->group[id] = (struct group){ .key = at, .key_len = k.len };
		hist_snapshot_init(&l->group[id].hist, LENGTHS_BITS);
		idhash_put(&l->hash, hash, id);
	}
	*ret = &l->group[id];
	return 0;
}

/* The stack of such a row is one frame: a bucket, by its smallest value. */
static int count(struct group *g, const struct store *s, const struct store_row *row,
		 struct err *err)
{
	uint32_t parent, frame;
	store_stack(s, row->stack, &parent, &frame);
	const struct store_frame *f = store_frame(s, frame);
	if (!f || parent)
		return 0;
	return hist_snapshot_count(&g->hist, hist_bucket_index(LENGTHS_BITS, f->offset),
				   row->samples, err);
}

static int fill(struct query_lengths *l, struct store *s, const struct query *q, struct err *err)
{
	size_t n;
	const struct store_row *rows = query_rows(q, &n);
	struct buf key = { 0 };
	struct group *g = NULL;
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		if (rows[i].set == QUERY_OTHER)
			continue;
		if (!g || rows[i].set != rows[i - 1].set) {
			rc = key_of_set(l, q, rows[i].set, &key);
			rc = rc ? rc : group_of(l, &key, &g);
			rc = rc ? err_sys(err, rc, "cannot sum up the lengths of waits") : 0;
		}
		rc = rc ? rc : count(g, s, &rows[i], err);
	}
	buf_fini(&key);
	return rc;
}

static bool is_of_waits(const struct query_spec *spec)
{
	return spec->metric == QUERY_OFF || spec->metric == QUERY_RUNQ;
}

/* Whether the selector names an event: it then matches no row of lengths, which are another one. */
static bool where_names_event(const char *where)
{
	struct selector *sel = NULL;
	struct err err = { 0 };
	const bool names = !selector_parse(&sel, where, NULL, &err) && selector_names_event(sel);
	selector_free(sel);
	return names;
}

/* Name the event that has the lengths of what is asked for; "" where there can be none. */
static void name_event(const struct store *s, const struct query_spec *spec,
		       char name[NAME_MAX_BYTES])
{
	const char *first = store_n_events(s) ? store_event(s, 0)->name : "", *of = "";
	if (spec->metric == QUERY_OFF)
		of = WAIT_EVENT;
	else if (spec->metric == QUERY_RUNQ)
		of = "runq";
	else if (spec->metric == QUERY_SAMPLES || spec->metric == QUERY_VALUE)
		of = spec->event && *spec->event ? spec->event : first;
	snprintf(name, NAME_MAX_BYTES, "%s%s", of, *of ? LENGTHS_SUFFIX : "");
}

bool query_lengths_serve(const struct store *s, const struct query_spec *spec)
{
	char name[NAME_MAX_BYTES];
	bool has = false;
	for (size_t i = 0; i < spec->n_keys; i++)
		if (query_is_wait_key(spec->keys[i]))
			return false;
	name_event(s, spec, name);
	for (uint32_t i = 0; *name && i < store_n_events(s) && !has; i++)
		has = !strcmp(store_event(s, i)->name, name);
	return spec->n_keys && has && !where_names_event(spec->where) &&
	       !query_of_threads(spec->where, spec->keys, spec->n_keys);
}

const char *query_lengths_what(const struct query_lengths *l)
{
	return l->of_waits ? "waits" : "hits";
}

int query_lengths(struct query_lengths **ret, struct store *s, const struct query_spec *spec,
		  struct err *err)
{
	struct query_lengths *l = calloc(1, sizeof(*l));
	struct query *q = NULL;
	struct query_spec of = *spec;
	char name[NAME_MAX_BYTES];
	if (!l)
		return err_sys(err, -ENOMEM, "cannot sum up the lengths of waits");
	name_event(s, spec, name);
	l->of_waits = is_of_waits(spec);
	l->by = spec->keys;
	l->n_by = spec->n_keys;
	of.event = name;
	of.metric = QUERY_SAMPLES;
	of.labels = spec->n_keys ? QUERY_KEYS_STACKS : QUERY_NO_LABELS;
	of.rows_alone = true;
	of.parts = HIST_PARTS * (spec->parts ? spec->parts : 1);
	int rc = query_open(&q, s, &of, err);
	if (!rc) {
		l->bounded = query_info(q)->bounded;
		l->to_ns = query_info(q)->windows ? query_info(q)->to_ns : 0;
	}
	rc = rc ? rc : fill(l, s, q, err);
	query_close(q);
	if (rc)
		query_lengths_free(l);
	else
		*ret = l;
	return rc;
}

void query_lengths_free(struct query_lengths *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++)
		hist_snapshot_fini(&l->group[i].hist);
	free(l->group);
	buf_fini(&l->keys);
	idhash_fini(&l->hash);
	free(l);
}

const struct hist_snapshot *query_lengths_of(const struct query_lengths *l,
					     const char *const *values, const bool *present)
{
	struct buf key = { 0 };
	uint32_t id = IDHASH_NONE;
	int rc = buf_add_u8(&key, 0);
	for (size_t i = 0; !rc && i < l->n_by; i++)
		rc = add_value(&key, present[i], values[i], strlen(values[i]));
	if (!rc) {
		struct key k = { key.data, key.len };
		struct idhash hash = l->hash;
		id = idhash_find(&l->hash, idhash_hash(&hash, k.data, k.len), same_key, l, &k);
	}
	buf_fini(&key);
	return id == IDHASH_NONE ? NULL : &l->group[id].hist;
}

bool query_lengths_bounded(const struct query_lengths *l)
{
	return l->bounded;
}

int64_t query_lengths_to_ns(const struct query_lengths *l)
{
	return l->to_ns;
}

static int by_total(const void *a, const void *b)
{
	const struct query_lengths_group *x = a, *y = b;
	return (x->hist->total < y->hist->total) - (x->hist->total > y->hist->total);
}

/* One piece of memory: the groups, their texts' addresses, whether they are there. */
int query_lengths_groups(const struct query_lengths *l, struct query_lengths_group **ret,
			 size_t *ret_n)
{
	size_t each =
		sizeof(struct query_lengths_group) + l->n_by * (sizeof(char *) + sizeof(bool));
	struct query_lengths_group *v = calloc(l->n + 1, each);
	if (!v)
		return -ENOMEM;
	const char **values = (const char **)(v + l->n + 1);
	bool *present = (bool *)(values + (l->n + 1) * l->n_by);
	for (size_t i = 0; i < l->n; i++) {
		const char *text = (const char *)l->keys.data + l->group[i].key + 1;
		v[i] = (struct query_lengths_group){ values, present, &l->group[i].hist };
		for (size_t k = 0; k < l->n_by; k++) {
			*present++ = *text++;
			*values++ = text;
			text += strlen(text) + 1;
		}
	}
	qsort(v, l->n, sizeof(*v), by_total);
	*ret = v;
	*ret_n = l->n;
	return 0;
}

void query_lengths_groups_free(struct query_lengths_group *groups)
{
	free(groups);
}
