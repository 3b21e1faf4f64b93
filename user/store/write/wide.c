/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys are wide: had more than opt.wide_values values within an hour, from the window on that
 * shows it to the end of the file. The next file begins without those that had half as many. This
 * is the store's own affair: what a question finds does not depend on it.
 */
#include "store/write/writer_int.h"

#include "store/writer.h"
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
	char *copy = malloc(len + 1);
	if (!copy)
		return NULL;
	memcpy(copy, key, len); /* as it is: it may hold a NUL */
	copy[len] = 0;
	w->keys[w->n_keys] = (struct key_stat){ .key = copy, .key_len = len };
	return &w->keys[w->n_keys++];
}

const struct key_stat *wide_find(const struct store_writer *w, const char *key, size_t len)
{
	for (size_t i = 0; i < w->n_keys; i++)
		if (w->keys[i].wide && w->keys[i].key_len == len &&
		    !memcmp(w->keys[i].key, key, len))
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
		uint64_t hash = l->type == LABEL_INT
					? XXH3_64bits_withSeed(&l->num, sizeof(l->num), 1)
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

/*
 * Narrow keys multiply: when the sets of a file become too many, the key with the most values has
 * to go.
 */
static void limit_sets(struct store_writer *w)
{
	struct key_stat *most = NULL;
	uint32_t n = w->out[0].d.n_sets;
	if (n < w->sets_counted)
		w->sets_counted = 0;
	if (n - w->sets_counted <= w->opt.wide_sets)
		return;
	for (size_t i = 0; i < w->n_keys; i++)
		if (!w->keys[i].wide && w->keys[i].most > 1 &&
		    (!most || w->keys[i].most > most->most))
			most = &w->keys[i];
	if (most)
		most->wide = true;
	w->sets_counted = n;
}

int wide_count(struct store_writer *w, int64_t t_ns)
{
	int64_t hour = floor_div(t_ns, HOUR_NS);
	int rc = 0;
	if (hour != w->hour)
		new_hour(w, hour);
	for (uint32_t i = 1; !rc && i < w->sets.n; i++)
		rc = count_labels(w, w->sets.sets[i].labels, w->sets.sets[i].n);
	if (rc)
		return rc;
	limit_sets(w);
	for (size_t i = 0; i < w->n_keys; i++)
		w->keys[i].wide |= w->keys[i].n > w->opt.wide_values;
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

int wide_list(struct store_writer *w, struct segment *g)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < w->n_keys; i++) {
		size_t before = g->m.n_wide;
		/* One with a NUL cannot be asked for: the windows know that it is wide. */
		if (w->keys[i].wide && !memchr(w->keys[i].key, 0, w->keys[i].key_len))
			rc = manifest_set_wide(&g->m, w->keys[i].key, w->keys[i].key_len,
					       w->keys[i].most);
		w->manifest_due |= g->m.n_wide != before;
	}
	return rc;
}

/* A writer that goes on with a file: what was wide stays so. */
int wide_load(struct store_writer *w)
{
	const struct segment *g = writer_segment(w, 0);
	for (size_t i = 0; g && i < g->m.n_wide; i++) {
		struct key_stat *k = find_key(w, g->m.wide[i].key, strlen(g->m.wide[i].key));
		if (!k)
			return -ENOMEM;
		k->wide = true;
		k->most = g->m.wide[i].values;
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
