/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which label keys a store knows: the narrow ones by the label sets of its epochs, the wide ones by
 * its manifest.
 */
#include "store/store_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool store_wide_key(const struct store *s, size_t i, struct store_wide_key *ret)
{
	const struct manifest *m = &s->manifest;
	for (size_t e = 0; e < m->n_epochs; i -= m->epochs[e++].n_wide) {
		if (i >= m->epochs[e].n_wide)
			continue;
		const struct manifest_key *k = &m->epochs[e].wide[i];
		*ret = (struct store_wide_key){ k->key, k->values, m->epochs[e].t0_ns,
						e + 1 < m->n_epochs ? m->epochs[e + 1].t0_ns : INT64_MAX };
		return true;
	}
	return false;
}

/* How many label sets of an epoch have each of its strings as a key; to be freed. */
static int count_keys(struct store *s, uint32_t serial, struct dict_gen **ret, uint32_t **ret_sets, struct err *err)
{
	struct dict_gen *g;
	const struct block_ref r = { .b.epoch = serial };
	int rc = store_epoch(s, &r, &g, err);
	uint32_t *sets = rc ? NULL : calloc((size_t)g->d.label_text.n + 1, sizeof(*sets));
	if (!rc && !sets)
		return err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	for (uint32_t id = 1; !rc && id < g->d.n_sets; id++) {
		const struct set_label *v;
		size_t n = dicts_set(&g->d, id, &v);
		for (size_t i = 0; i < n; i++)
			sets[v[i].key]++; /* no key twice in a set */
	}
	if (rc)
		return rc;
	*ret = g;
	*ret_sets = sets;
	return 0;
}

int store_narrow_keys(struct store *s, int (*cb)(void *ctx, const char *key, uint32_t sets), void *ctx, struct err *err)
{
	const struct manifest *m = &s->manifest;
	struct dict_gen *g;
	uint32_t *sets;
	int rc = m->n_epochs ? count_keys(s, m->epochs[m->n_epochs - 1].serial, &g, &sets, err) : 0;
	if (rc || !m->n_epochs)
		return rc;
	for (uint32_t key = 0; !rc && key < g->d.label_text.n; key++)
		if (sets[key])
			rc = cb(ctx, strings_get(&g->d.label_text, key, NULL), sets[key]);
	free(sets);
	return rc;
}

static int epoch_has(struct store *s, const struct manifest_epoch *e, const char *key, bool *ret, struct err *err)
{
	struct dict_gen *g;
	uint32_t *sets;
	for (size_t i = 0; i < e->n_wide; i++)
		if (!strcmp(e->wide[i].key, key)) {
			*ret = true;
			return 0;
		}
	int rc = count_keys(s, e->serial, &g, &sets, err);
	/* A repair may have lost the list of wide keys: any text of the epoch may be one. */
	for (uint32_t i = 0; !rc && !*ret && i < g->d.label_text.n; i++)
		*ret = (sets[i] || !e->t0_ns) && !strcmp(strings_get(&g->d.label_text, i, NULL), key);
	if (!rc)
		free(sets);
	return rc;
}

int store_has_key(struct store *s, const char *key, bool *ret, struct err *err)
{
	int rc = 0;
	bool found = false;
	for (size_t i = s->manifest.n_epochs; !rc && !found && i-- > 0;)
		rc = epoch_has(s, &s->manifest.epochs[i], key, &found, err);
	if (!rc)
		*ret = found;
	return rc;
}

size_t store_n_epochs(const struct store *s)
{
	return s->manifest.n_epochs;
}

bool store_is_wide(const struct store *s, const char *key)
{
	const struct manifest *m = &s->manifest;
	for (size_t i = 0; i < m->n_epochs; i++)
		for (size_t k = 0; k < m->epochs[i].n_wide; k++)
			if (!strcmp(m->epochs[i].wide[k].key, key))
				return true;
	return false;
}
