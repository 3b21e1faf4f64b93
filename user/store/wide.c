/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys are wide. A key is wide in an epoch when it had more than opt.wide_values values
 * within an hour of it; the moment that this shows, a new epoch begins with the key wide from its
 * first window on, so that an epoch never changes its mind. At the regular border of epochs keys
 * with half as many values are narrow again.
 */
#include "store/writer_int.h"

#include "util/array.h"

#include <xxhash.h>

/* Counting goes on to a multiple of the limit, so that `info` can say how wide a key is. */
static uint32_t most_counted(const struct store_writer *w)
{
	return w->opt.wide_values * 8;
}

static struct key_stat *find_key(struct store_writer *w, const char *key, size_t len)
{
	for (size_t i = 0; i < w->n_keys; i++)
		if (w->keys[i].key_len == len && !memcmp(w->keys[i].key, key, len))
			return &w->keys[i];
	if (ARRAY_RESERVE(w->keys, w->keys_cap, w->n_keys + 1))
		return NULL;
	char *copy = strndup(key, len);
	if (!copy)
		return NULL;
	w->keys[w->n_keys] = (struct key_stat){ .key = copy, .key_len = len };
	return &w->keys[w->n_keys++];
}

const struct key_stat *wide_find(const struct store_writer *w, const char *key, size_t len)
{
	for (size_t i = 0; i < w->n_keys; i++)
		if (w->keys[i].wide && w->keys[i].key_len == len && !memcmp(w->keys[i].key, key, len))
			return &w->keys[i];
	return NULL;
}

static void place(struct key_stat *k, uint64_t hash)
{
	size_t i = hash & (k->cap - 1);
	while (k->slots[i])
		i = (i + 1) & (k->cap - 1);
	k->slots[i] = hash;
}

static int grow(struct key_stat *k)
{
	struct key_stat old = *k;
	size_t cap = old.cap ? 2 * old.cap : 16;
	uint64_t *slots = calloc(cap, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	k->slots = slots;
	k->cap = cap;
	for (size_t i = 0; i < old.cap; i++)
		if (old.slots[i])
			place(k, old.slots[i]);
	free(old.slots);
	return 0;
}

static int count_value(struct store_writer *w, struct key_stat *k, uint64_t hash)
{
	hash = hash ? hash : 1;
	if (k->n >= most_counted(w))
		return 0;
	if (2 * ((size_t)k->n + 1) > k->cap) {
		int rc = grow(k);
		if (rc)
			return rc;
	}
	for (size_t i = hash & (k->cap - 1); k->slots[i]; i = (i + 1) & (k->cap - 1))
		if (k->slots[i] == hash)
			return 0;
	place(k, hash);
	if (++k->n > k->most)
		k->most = k->n;
	return 0;
}

static int count_labels(struct store_writer *w, const struct label *labels, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct label *l = &labels[i];
		struct key_stat *k = find_key(w, l->key, l->key_len);
		uint64_t hash = l->type == LABEL_INT ? XXH3_64bits_withSeed(&l->num, sizeof(l->num), 1)
						     : XXH3_64bits(l->str, l->str_len);
		int rc = k ? count_value(w, k, hash) : -ENOMEM;
		if (rc)
			return rc;
	}
	return 0;
}

static void new_hour(struct store_writer *w, int64_t hour)
{
	for (size_t i = 0; i < w->n_keys; i++) {
		struct key_stat *k = &w->keys[i];
		k->n = 0;
		if (k->cap)
			memset(k->slots, 0, k->cap * sizeof(*k->slots));
	}
	w->hour = hour;
}

/* Narrow keys multiply: when the sets of an epoch become too many, the key with the most values has to go. */
static bool too_many_sets(struct store_writer *w)
{
	struct key_stat *most = NULL;
	if (!w->epoch || w->epoch->d.n_sets <= w->opt.wide_sets)
		return false;
	for (size_t i = 0; i < w->n_keys; i++)
		if (!w->keys[i].wide && w->keys[i].most > 1 && (!most || w->keys[i].most > most->most))
			most = &w->keys[i];
	if (most)
		most->wide = true;
	return most != NULL;
}

int wide_count(struct store_writer *w, int64_t t_ns, bool *ret_changed)
{
	int64_t hour = floor_div(t_ns, HOUR_NS);
	int rc = 0;
	if (hour != w->hour)
		new_hour(w, hour);
	for (uint32_t i = 1; !rc && i < w->sets.n; i++)
		rc = count_labels(w, w->sets.sets[i].labels, w->sets.sets[i].n);
	if (rc)
		return rc;
	bool changed = too_many_sets(w);
	for (size_t i = 0; i < w->n_keys; i++) {
		struct key_stat *k = &w->keys[i];
		if (k->wide || k->n <= w->opt.wide_values)
			continue;
		k->wide = true;
		changed = true;
	}
	*ret_changed = changed;
	return 0;
}

void wide_settle(struct store_writer *w)
{
	for (size_t i = 0; i < w->n_keys; i++) {
		struct key_stat *k = &w->keys[i];
		if (k->wide && k->most <= w->opt.wide_values / 2)
			k->wide = false;
		k->most = k->n;
	}
}

int wide_list(const struct store_writer *w, struct manifest_epoch *e)
{
	e->wide = calloc(w->n_keys + 1, sizeof(*e->wide));
	e->n_wide = 0;
	if (!e->wide)
		return -ENOMEM;
	for (size_t i = 0; i < w->n_keys; i++) {
		if (!w->keys[i].wide)
			continue;
		e->wide[e->n_wide].key = strdup(w->keys[i].key);
		e->wide[e->n_wide].values = w->keys[i].most;
		if (!e->wide[e->n_wide].key)
			return -ENOMEM;
		e->n_wide++;
	}
	return 0;
}

/* A writer that goes on with an epoch: what was wide stays so. */
int wide_load(struct store_writer *w)
{
	const struct manifest *m = &w->s.manifest;
	const struct manifest_epoch *e = m->n_epochs ? &m->epochs[m->n_epochs - 1] : NULL;
	for (size_t i = 0; e && i < e->n_wide; i++) {
		struct key_stat *k = find_key(w, e->wide[i].key, strlen(e->wide[i].key));
		if (!k)
			return -ENOMEM;
		k->wide = true;
		k->most = e->wide[i].values;
	}
	return 0;
}

void wide_fini(struct store_writer *w)
{
	for (size_t i = 0; i < w->n_keys; i++) {
		free(w->keys[i].key);
		free(w->keys[i].slots);
	}
	free(w->keys);
}
