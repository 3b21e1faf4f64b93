/* SPDX-License-Identifier: Apache-2.0 */
/* Which label keys a store knows: by the label sets of its files of windows, by the lists of its
 * parents. */
#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/read/store_int.h"
#include "store/read/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COARSE_LEVEL 4 /* blocks of an hour: what is finer has windows, or is part of one */

static bool is_newest(const struct store *s, size_t i)
{
	while (++i < s->n_segments)
		if (!s->segments[i].m.level)
			return false;
	return true;
}

static int64_t begin_of(const struct segment *g)
{
	return g->m.state == SEGMENT_OPEN ? g->n_refs ? g->refs[0].b.t0_ns : 0 : g->m.t0_ns;
}

static size_t count_wide(const struct store *s)
{
	size_t n = 0;
	for (size_t k = 0; k < s->n_segments; k++)
		n += s->segments[k].m.level ? 0 : s->segments[k].m.n_wide;
	return n;
}

bool store_wide_key(const struct store *s, size_t i, struct store_wide_key *ret)
{
	for (size_t k = 0; k < s->n_parts; i -= count_wide(s->parts[k++]))
		if (i < count_wide(s->parts[k]))
			return store_wide_key(s->parts[k], i, ret);
	for (size_t k = 0; k < s->n_segments; k++) {
		const struct segment *g = &s->segments[k];
		if (g->m.level || i >= g->m.n_wide) {
			i -= g->m.level ? 0 : g->m.n_wide;
			continue;
		}
		*ret = (struct store_wide_key){ g->m.wide[i].key, g->m.wide[i].values, begin_of(g),
						is_newest(s, k) ? INT64_MAX : g->m.t1_ns };
		return true;
	}
	return false;
}

/* How many label sets of a file have each of its strings as a key; to be freed. */
static int count_keys(struct store *s, uint32_t segment, const struct dicts **ret,
		      uint32_t **ret_sets, struct err *err)
{
	const struct block_ref r = { .segment = segment };
	int rc = store_dicts(s, &r, SYMBOLS_SETS, ret, err);
	uint32_t *sets = rc ? NULL : calloc((*ret)->label_text.n, sizeof(*sets));
	if (!rc && !sets)
		return err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	for (uint32_t id = 1; !rc && id < (*ret)->n_sets; id++) {
		const struct set_label *v;
		size_t n = dicts_set(*ret, id, &v);
		for (size_t i = 0; i < n; i++)
			sets[v[i].key]++; /* no key twice in a set */
	}
	if (rc)
		return rc;
	*ret_sets = sets;
	return 0;
}

int store_narrow_keys(struct store *s, int (*cb)(void *ctx, const char *key, uint32_t sets),
		      void *ctx, struct err *err)
{
	const struct dicts *d;
	uint32_t *sets;
	size_t i = s->n_segments;
	int rc = s->n_parts ? cb(ctx, s->parts[0]->host.key, 1) : 0;
	for (size_t k = 0; !rc && k < s->n_parts; k++)
		rc = store_narrow_keys(s->parts[k], cb, ctx, err);
	while (i && s->segments[i - 1].m.level)
		i--;
	if (rc || !i)
		return rc;
	rc = count_keys(s, (uint32_t)i - 1, &d, &sets, err);
	if (rc)
		return rc;
	for (uint32_t key = 0; !rc && key < d->label_text.n; key++)
		if (sets[key])
			rc = cb(ctx, strings_get(&d->label_text, key, NULL), sets[key]);
	free(sets);
	return rc;
}

static int keys_of_windows(struct store *s, size_t i, store_key *cb, void *ctx, struct err *err)
{
	const struct segment *g = &s->segments[i];
	const struct dicts *d;
	uint32_t *sets;
	int rc = 0;
	for (size_t k = 0; !rc && k < g->m.n_wide; k++)
		rc = cb(ctx, g->m.wide[k].key, strlen(g->m.wide[k].key));
	if (rc || (rc = count_keys(s, (uint32_t)i, &d, &sets, err)))
		return rc;
	for (uint32_t k = 0; !rc && k < d->label_text.n; k++) {
		size_t len;
		const char *key = strings_get(&d->label_text, k, &len);
		rc = sets[k] ? cb(ctx, key, len) : 0;
	}
	free(sets);
	return rc;
}

static int keys_of_parents(struct store *s, struct segment *g, store_key *cb, void *ctx,
			   struct err *err)
{
	int rc = segment_load(s, g, err);
	for (size_t i = 0; !rc && i < g->n_refs; i++) {
		struct block_data d;
		struct block_keys keys = { 0 };
		rc = block_read(s, &g->refs[i], WANT_KEYS, &d, err);
		if (rc)
			break;
		rc = contents_keys(s, &g->refs[i], &d, &keys, err);
		for (size_t k = 0; !rc && k < keys.n; k++)
			rc = cb(ctx, keys.v[k].key, keys.v[k].len);
		block_keys_fini(&keys);
		block_data_fini(&d);
	}
	return rc;
}

int store_each_key(struct store *s, store_key *cb, void *ctx, struct err *err)
{
	int rc = s->host.str_len ? cb(ctx, s->host.key, s->host.key_len) : 0;
	for (size_t i = 0; !rc && i < s->n_parts; i++)
		rc = store_each_key(s->parts[i], cb, ctx, err);
	for (size_t i = s->n_segments; !rc && i-- > 0;)
		if (!s->segments[i].m.level)
			rc = keys_of_windows(s, i, cb, ctx, err);
	for (size_t i = s->n_segments; !rc && i-- > 0;)
		if (s->segments[i].m.level >= COARSE_LEVEL && s->segments[i].m.level < N_LEVELS)
			rc = keys_of_parents(s, &s->segments[i], cb, ctx, err);
	return rc;
}

static int is_key(void *ctx, const char *key, size_t len)
{
	const char *wanted = ctx;
	return strlen(wanted) == len && !memcmp(wanted, key, len);
}

int store_has_key(struct store *s, const char *key, bool *ret, struct err *err)
{
	int rc = store_each_key(s, is_key, (void *)key, err);
	if (rc < 0)
		return rc;
	*ret = rc > 0;
	return 0;
}

size_t store_n_files(const struct store *s)
{
	size_t n = 0;
	for (size_t i = 0; i < s->n_segments; i++)
		n += !s->segments[i].m.level;
	for (size_t i = 0; i < s->n_parts; i++)
		n += store_n_files(s->parts[i]);
	return n;
}

bool store_is_wide(const struct store *s, const char *key)
{
	/* Of `host` neither postings nor lists know what a union adds. */
	for (size_t i = 0; i < s->n_parts && strcmp(key, s->parts[i]->host.key); i++)
		if (store_is_wide(s->parts[i], key))
			return true;
	for (size_t i = 0; i < s->n_segments; i++)
		for (size_t k = 0; k < s->segments[i].m.n_wide; k++)
			if (!strcmp(s->segments[i].m.wide[k].key, key))
				return true;
	return false;
}
