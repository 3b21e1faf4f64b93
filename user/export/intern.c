/* SPDX-License-Identifier: Apache-2.0 */
#include "export/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const void *intern_get(const struct intern *t, uint32_t id, size_t *ret_len)
{
	size_t start = id ? t->end[id - 1] : 0;
	*ret_len = t->end[id] - start;
	return t->bytes.data ? t->bytes.data + start : (const uint8_t *)"";
}

/* The slot of the key, or the free one where it would go. */
static size_t find(const struct intern *t, const void *key, size_t len, uint64_t hash)
{
	size_t i = hash & (t->n_slots - 1);
	for (; t->slots[i]; i = (i + 1) & (t->n_slots - 1)) {
		uint32_t id = t->slots[i] - 1;
		size_t have;
		const void *k = intern_get(t, id, &have);
		if (t->hash[id] == hash && have == len && (!len || !memcmp(k, key, len)))
			break;
	}
	return i;
}

static int grow_slots(struct intern *t)
{
	size_t n = t->n_slots ? 2 * t->n_slots : 64;
	uint32_t *slots = calloc(n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t id = 0; id < t->n; id++) {
		size_t i = t->hash[id] & (n - 1);
		while (slots[i])
			i = (i + 1) & (n - 1);
		slots[i] = (uint32_t)id + 1;
	}
	free(t->slots);
	t->slots = slots;
	t->n_slots = n;
	return 0;
}

static int grow_keys(struct intern *t)
{
	size_t cap = t->cap ? 2 * t->cap : 32;
	size_t *end = reallocarray(t->end, cap, sizeof(*end));
	if (!end)
		return -ENOMEM;
	t->end = end;
	uint64_t *hash = reallocarray(t->hash, cap, sizeof(*hash));
	if (!hash)
		return -ENOMEM;
	t->hash = hash;
	t->cap = cap;
	return 0;
}

int intern_add(struct intern *t, const void *key, size_t len, uint32_t *ret_id, bool *ret_new)
{
	uint64_t hash = XXH3_64bits(key, len);
	int rc = 2 * t->n >= t->n_slots ? grow_slots(t) : 0;
	if (rc)
		return rc;
	size_t slot = find(t, key, len, hash);
	if (ret_new)
		*ret_new = !t->slots[slot];
	if (!t->slots[slot]) {
		if (t->n >= INT32_MAX)
			return -E2BIG;
		if (t->n == t->cap && grow_keys(t))
			return -ENOMEM;
		rc = buf_add(&t->bytes, key, len);
		if (rc)
			return rc;
		t->end[t->n] = t->bytes.len;
		t->hash[t->n] = hash;
		t->slots[slot] = (uint32_t)++t->n;
	}
	*ret_id = t->slots[slot] - 1;
	return 0;
}

void intern_fini(struct intern *t)
{
	buf_fini(&t->bytes);
	free(t->end);
	free(t->hash);
	free(t->slots);
	memset(t, 0, sizeof(*t));
}
