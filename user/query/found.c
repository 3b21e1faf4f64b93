/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values: at first one entry per matching set, then sorted and merged. Keys: a question by each, so
 * that blocks above the windows answer, and no set with all labels takes memory.
 */
#include "query/found.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(struct found_list *l, const struct label *label, uint64_t samples, double seconds)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 256;
		struct found *v = reallocarray(l->v, cap, sizeof(*v));
		if (!v)
			return -ENOMEM;
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n++] = (struct found){ *label, 1, samples, seconds };
	return 0;
}

static int compare_bytes(const char *a, uint32_t a_len, const char *b, uint32_t b_len)
{
	uint32_t n = a_len < b_len ? a_len : b_len;
	int c = n ? memcmp(a, b, n) : 0;
	return c ? c : (a_len > b_len) - (a_len < b_len);
}

static int compare_keys(const struct label *a, const struct label *b)
{
	return compare_bytes(a->key, a->key_len, b->key, b->key_len);
}

static int compare_values(const struct label *a, const struct label *b)
{
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	if (a->type == LABEL_INT)
		return (a->num > b->num) - (a->num < b->num);
	return compare_bytes(a->str, a->str_len, b->str, b->str_len);
}

static int by_key_and_value(const void *a, const void *b)
{
	const struct label *x = &((const struct found *)a)->label,
			   *y = &((const struct found *)b)->label;
	int c = compare_keys(x, y);
	return c ? c : compare_values(x, y);
}

static int by_samples(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	if (x->samples != y->samples)
		return x->samples < y->samples ? 1 : -1;
	return by_key_and_value(a, b);
}

/* `event` is a label of every sample, though of no set. */
static int add_event(struct found_list *l, const struct query_info *info)
{
	const struct label label = { .key = "event",
				     .key_len = 5,
				     .str = info->event->name,
				     .str_len = (uint32_t)strlen(info->event->name),
				     .type = LABEL_STRING };
	return info->samples ? add(l, &label, info->samples, info->seconds) : 0;
}

/* The values of key in every set that has samples. */
static int collect(struct store *s, const struct query *q, const char *key, struct found_list *l,
		   struct err *err)
{
	const struct query_info *info = query_info(q);
	double ns = info->event ? (double)info->event->ns_per_sample : 0;
	size_t n_rows, key_len = strlen(key);
	const struct store_row *rows = query_rows(q, &n_rows);
	for (size_t i = 0, next; i < n_rows; i = next) {
		const struct label *labels;
		uint64_t samples = 0;
		int rc = store_goes_on(s, err);
		if (rc)
			return rc;
		for (next = i; next < n_rows && rows[next].set == rows[i].set; next++)
			samples += rows[next].samples;
		size_t n = rows[i].set == QUERY_OTHER ? 0 : query_set(q, rows[i].set, &labels);
		for (size_t j = 0; j < n; j++)
			if (labels[j].key_len == key_len && !memcmp(labels[j].key, key, key_len) &&
			    add(l, &labels[j], samples, (double)samples * ns / 1e9))
				return -ENOMEM;
		if (rows[i].set == QUERY_OTHER)
			l->other += samples;
	}
	l->samples = info->samples;
	l->time = ns > 0;
	return 0;
}

/* The key `event` names every event that matches, not only the one that a query is about. */
static int collect_events(struct store *s, const struct query_spec *asked, struct found_list *l,
			  struct err *err)
{
	for (uint32_t id = 0; id < store_n_events(s); id++) {
		const struct store_event *e = store_event(s, id);
		bool left_out =
			asked->event ? strcmp(asked->event, e->name) != 0 : !query_is_profile(e);
		for (uint32_t i = 0; i < id && !left_out; i++) /* at another rate */
			left_out = !strcmp(store_event(s, i)->name, e->name);
		if (left_out)
			continue;
		struct query_spec spec = *asked;
		spec.event = e->name;
		spec.labels = QUERY_TOTALS;
		struct query *q = NULL;
		int rc = query_open(&q, s, &spec, err);
		if (rc == -EACCES) /* those are shown to others */
			continue;
		if (rc)
			return rc;
		rc = add_event(l, query_info(q));
		l->samples += query_info(q)->samples;
		l->time |= e->ns_per_sample > 0;
		query_close(q);
		if (rc)
			return rc;
	}
	return 0;
}

/* Merge equal values. */
static void merge(struct found_list *l)
{
	size_t n = 0;
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_key_and_value);
	for (size_t i = 0; i < l->n; i++) {
		struct found *last = n ? &l->v[n - 1] : NULL;
		if (last && !by_key_and_value(last, &l->v[i])) {
			last->samples += l->v[i].samples;
			last->seconds += l->v[i].seconds;
		} else {
			l->v[n++] = l->v[i];
		}
	}
	l->n = n;
}

/* ---- keys ---- */

/* A set of one label without a value stands for a key: it is there once, and its text stays. */
static int note_key(void *ctx, const char *key, size_t len)
{
	const struct label l = { .key = key, .key_len = (uint32_t)len, .str = "" };
	uint32_t id;
	return setpool_add(ctx, &l, 1, &id);
}

static void note_info(struct query_info *to, const struct query_info *of)
{
	to->bounded |= of->bounded;
	to->coarse = of->coarse > to->coarse ? of->coarse : to->coarse;
	to->gone = of->gone > to->gone ? of->gone : to->gone;
}

/* What is (other) for want of room has the key: these are the values with the fewest samples. */
static int add_key(struct found_list *l, const struct label *key, struct found_list *values,
		   double ns)
{
	uint64_t samples = values->other;
	merge(values);
	for (size_t i = 0; i < values->n; i++)
		samples += values->v[i].samples;
	if (!values->n)
		return 0;
	int rc = add(l, key, samples, (double)samples * ns / 1e9);
	if (!rc)
		l->v[l->n - 1].values = values->n;
	return rc;
}

static int collect_key(struct store *s, const struct query_spec *asked, const struct label *key,
		       struct found_list *l, struct err *err)
{
	struct query_spec spec = *asked;
	struct found_list values = { 0 };
	struct query *q = NULL;
	char *text = strndup(key->key, key->key_len);
	const char *const keys[] = { text };
	spec.labels = QUERY_KEYS;
	spec.keys = keys;
	spec.n_keys = 1;
	int rc = text ? query_open(&q, s, &spec, err) : -ENOMEM;
	rc = rc ? rc : collect(s, q, text, &values, err);
	if (!rc && query_info(q)->event) {
		note_info(&l->info, query_info(q));
		rc = add_key(l, key, &values, (double)query_info(q)->event->ns_per_sample);
	}
	free(values.v);
	free(text);
	query_close(q);
	return rc;
}

static int begin_keys(struct found_list *l, const struct query *q)
{
	l->keys = true;
	l->info = *query_info(q);
	l->samples = l->info.samples;
	l->time = l->info.event && l->info.event->ns_per_sample > 0;
	return setpool_init(&l->names);
}

static int collect_keys(struct store *s, const struct query *q, const struct query_spec *asked,
			struct found_list *l, struct err *err)
{
	const struct label *key;
	int rc = begin_keys(l, q);
	rc = rc ? rc : store_each_key(s, note_key, &l->names, err);
	for (uint32_t id = 1; !rc && id < l->names.n; id++)
		if (setpool_get(&l->names, id, &key))
			rc = collect_key(s, asked, key, l, err);
	return rc || !l->info.event ? rc : add_event(l, query_info(q));
}

int found_collect(struct found_list *l, struct store *s, struct query *q,
		  const struct query_spec *spec, const char *key, struct err *err)
{
	l->info = *query_info(q);
	int rc = !key			 ? collect_keys(s, q, spec, l, err)
		 : !strcmp(key, "event") ? collect_events(s, spec, l, err)
					 : collect(s, q, key, l, err);
	if (rc == -ENOMEM)
		return err_set(err, rc, "out of memory");
	if (!rc && key)
		merge(l);
	if (!rc && l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_samples);
	return rc;
}

int found_list_keys(struct found_list *l, const struct query *q, const struct found_key *keys,
		    size_t n, struct err *err)
{
	int rc = begin_keys(l, q);
	const double ns = l->time ? (double)l->info.event->ns_per_sample : 0;
	for (size_t i = 0; !rc && i < n; i++) {
		const struct found_key *k = &keys[i];
		const struct label label = { .key = k->name,
					     .key_len = (uint32_t)strlen(k->name),
					     .str = "" };
		rc = add(l, &label, k->samples, (double)k->samples * ns / 1e9);
		if (!rc)
			l->v[l->n - 1].values = k->values;
	}
	rc = rc || !l->info.event ? rc : add_event(l, &l->info);
	if (rc)
		return err_sys(err, rc, "cannot list keys");
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_samples);
	return 0;
}

int found_add_keys(struct found_list *l, const struct found_list *of)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < of->n; i++) {
		const struct found *f = &of->v[i];
		const struct label plain = { .key = f->label.key,
					     .key_len = f->label.key_len,
					     .str = "" };
		const struct label *kept;
		uint32_t id;
		bool there = false;
		for (size_t k = 0; k < l->n && !there; k++)
			there = !compare_keys(&l->v[k].label, &f->label);
		if (there)
			continue;
		rc = setpool_add(&l->names, &plain, 1, &id);
		if (!rc && setpool_get(&l->names, id, &kept))
			rc = add(l, kept, f->samples, f->seconds);
		if (!rc)
			l->v[l->n - 1].values = f->values;
	}
	return rc;
}

void found_fini(struct found_list *l)
{
	free(l->v);
	setpool_fini(&l->names);
	*l = (struct found_list){ 0 };
}

char *found_text(const struct label *l, size_t *ret_len)
{
	char *s = NULL;
	if (l->type == LABEL_INT) {
		int n = asprintf(&s, "%lld", (long long)l->num);
		*ret_len = n < 0 ? 0 : (size_t)n;
		return n < 0 ? NULL : s;
	}
	s = malloc(l->str_len + 1u);
	if (s) {
		memcpy(s, l->str, l->str_len);
		s[l->str_len] = 0;
	}
	*ret_len = l->str_len;
	return s;
}
