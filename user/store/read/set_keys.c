/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of label sets, made without the sets: those of narrow sets are kept by segment. */
#include "store/read/contents.h"
#include "store/read/rows.h"
#include "store/read/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int reserve_keys(struct set_keys *k, size_t n, uint64_t seed)
{
	if (k->seed != seed && k->n)
		memset(k->v, 0, k->n * sizeof(*k->v));
	k->seed = seed;
	if (n <= k->n)
		return 0;
	struct store_set_key *v = reallocarray(k->v, n, sizeof(*v));
	if (!v)
		return -ENOMEM;
	memset(v + k->n, 0, (n - k->n) * sizeof(*v));
	k->v = v;
	k->n = n;
	return 0;
}

static void add_label(struct store_set_key *k, const struct label *l, uint64_t seed)
{
	k->key += labels_list_key(l, 1, seed);
	k->bytes += label_bytes(l);
	k->n++;
}

static struct store_set_key key_of_narrow(const struct dicts *d, uint32_t narrow, uint64_t seed)
{
	struct store_set_key key = { 0 };
	const struct set_label *v;
	const size_t n = dicts_set(d, narrow, &v);
	for (size_t i = 0; i < n; i++) {
		const struct label l = dicts_label(d, &v[i]);
		add_label(&key, &l, seed);
	}
	return key;
}

int reading_map_key(struct reading *r, uint32_t set, uint32_t *ret)
{
	const struct store_reading *how = r->how;
	const struct settable_set *ts = r->table.n ? &r->table.sets[set] : NULL;
	const uint32_t narrow = ts ? ts->narrow : set;
	struct set_keys *known = &r->s->segments[r->ref->segment].symbols->set_keys;
	uint32_t id;
	if (how->keys || how->filter || how->fold_sets || r->host)
		return 0;
	int rc = reserve_keys(known, r->d->n_sets, how->key_seed);
	if (rc)
		return reading_failed(r, rc);
	if (!known->v[narrow].n)
		known->v[narrow] = key_of_narrow(r->d, narrow, how->key_seed);
	struct store_set_key key = known->v[narrow];
	for (uint32_t i = 0; ts && i < ts->n; i++) {
		const struct settable_label *value = &r->table.labels[ts->first + i];
		size_t len;
		const char *text = strings_get(&r->d->label_text, value->key, &len);
		const struct label l = settable_as_label(text, (uint32_t)len, value);
		add_label(&key, &l, how->key_seed);
	}
	if (key.n <= STORE_SET_MAX && how->key(how->ctx, &key, &id))
		*ret = WANTED(id);
	return 0;
}
