/* SPDX-License-Identifier: Apache-2.0 */
/* At first one entry per label of each matching set, then sorted and merged. */
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

/* The labels of every set that has samples; only those of key when it is given. */
static int collect(struct store *s, const struct query *q, const char *key, struct found_list *l,
		   struct err *err)
{
	const struct query_info *info = query_info(q);
	double ns = info->event ? (double)info->event->ns_per_sample : 0;
	size_t n_rows, key_len = key ? strlen(key) : 0;
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
		for (size_t j = 0; j < n; j++) {
			if (key &&
			    (labels[j].key_len != key_len || memcmp(labels[j].key, key, key_len)))
				continue;
			if (add(l, &labels[j], samples, (double)samples * ns / 1e9))
				return -ENOMEM;
		}
	}
	l->samples = info->samples;
	l->time = ns > 0;
	return !key && info->event ? add_event(l, info) : 0;
}

/* The key `event` names every event that matches, not only the one that a query is about. */
static int collect_events(struct store *s, const struct query_spec *asked, struct found_list *l,
			  struct err *err)
{
	for (uint32_t id = 0; id <= store_n_events(s); id++) {
		const struct store_event *e = store_event(s, id);
		bool again = !e || (asked->event ? strcmp(asked->event, e->name) != 0
						 : !query_is_profile(e));
		for (uint32_t i = 0; i < id && !again; i++)
			again = store_event(s, i) && !strcmp(store_event(s, i)->name, e->name);
		if (again)
			continue;
		struct query_spec spec = *asked;
		spec.event = e->name;
		spec.labels = QUERY_TOTALS;
		struct query *q = NULL;
		int rc = query_open(&q, s, &spec, err);
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

static void absorb(struct found *to, const struct found *f)
{
	to->samples += f->samples;
	to->seconds += f->seconds;
}

/* Merge equal values; then, for the list of keys, equal keys. */
static void merge(struct found_list *l)
{
	size_t n = 0;
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_key_and_value);
	for (size_t i = 0; i < l->n; i++) {
		struct found *last = n ? &l->v[n - 1] : NULL;
		if (last && !by_key_and_value(last, &l->v[i]))
			absorb(last, &l->v[i]);
		else
			l->v[n++] = l->v[i];
	}
	l->n = n;
	for (size_t i = n = 0; l->keys && i < l->n; i++) {
		struct found *last = n ? &l->v[n - 1] : NULL;
		if (last && !compare_keys(&last->label, &l->v[i].label)) {
			absorb(last, &l->v[i]);
			last->values++;
		} else {
			l->v[n++] = l->v[i];
		}
	}
	if (l->keys)
		l->n = n;
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_samples);
}

int found_collect(struct found_list *l, struct store *s, struct query *q,
		  const struct query_spec *spec, const char *key, struct err *err)
{
	l->keys = !key;
	int rc = key && !strcmp(key, "event") ? collect_events(s, spec, l, err)
					      : collect(s, q, key, l, err);
	if (rc == -ENOMEM)
		return err_set(err, rc, "out of memory");
	if (!rc)
		merge(l);
	return rc;
}

void found_fini(struct found_list *l)
{
	free(l->v);
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
