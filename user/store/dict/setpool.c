/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dict/setpool.h"

#include "store/file/format.h"
#include "util/array.h"

#include <sys/random.h>

/* Keys and values come again and again: each is kept once. */
struct setpool_text {
	const char *p;
	uint32_t len;
};

int setpool_init(struct setpool *p)
{
	memset(p, 0, sizeof(*p));
	int rc = ARRAY_RESERVE(p->sets, p->cap, 1);
	if (rc)
		return rc;
	/* Without randomness the table still works, it is only predictable. */
	if (getrandom(&p->seed, sizeof(p->seed), GRND_NONBLOCK) != sizeof(p->seed))
		p->seed = 1;
	p->sets[0] = (struct setpool_set){ NULL, NULL, 0 };
	p->n = 1;
	return 0;
}

size_t setpool_bytes(const struct setpool *p)
{
	return p->chunks.bytes + p->cap * sizeof(*p->sets) + p->texts_cap * sizeof(*p->texts) +
	       (p->hash.cap + p->text_hash.cap) * sizeof(*p->hash.slots);
}

void setpool_fini(struct setpool *p)
{
	if (!p)
		return;
	chunks_fini(&p->chunks);
	free(p->sets);
	free(p->texts);
	idhash_fini(&p->hash);
	idhash_fini(&p->text_hash);
	memset(p, 0, sizeof(*p));
}

void setpool_clear(struct setpool *p)
{
	chunks_fini(&p->chunks);
	idhash_clear(&p->hash);
	idhash_clear(&p->text_hash);
	p->n = 1;
	p->n_texts = 0;
}

struct text_key {
	const char *p;
	uint32_t len;
};

static bool same_text(const void *ctx, uint32_t id, const void *key)
{
	const struct setpool_text *t = &((const struct setpool *)ctx)->texts[id];
	const struct text_key *k = key;
	return t->len == k->len && !memcmp(t->p, k->p, k->len);
}

static int intern_text(struct setpool *p, const char **text, uint32_t len)
{
	uint32_t hash = idhash_hash(&p->text_hash, *text, len);
	uint32_t id =
		idhash_find(&p->text_hash, hash, same_text, p, &(struct text_key){ *text, len });
	if (id != IDHASH_NONE) {
		*text = p->texts[id].p;
		return 0;
	}
	int rc = ARRAY_RESERVE(p->texts, p->texts_cap, (size_t)p->n_texts + 1);
	if (!rc)
		rc = idhash_reserve(&p->text_hash);
	char *copy = rc ? NULL : chunks_alloc(&p->chunks, (size_t)len + 1, 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, *text, len);
	copy[len] = 0;
	p->texts[p->n_texts] = (struct setpool_text){ copy, len };
	idhash_put(&p->text_hash, hash, p->n_texts++);
	*text = copy;
	return 0;
}

struct set_key {
	const struct label *labels;
	size_t n;
};

static bool same_set(const void *ctx, uint32_t id, const void *key)
{
	const struct setpool_set *s = &((const struct setpool *)ctx)->sets[id];
	const struct set_key *k = key;
	return s->n == k->n && labels_match(s->labels, s->order, k->labels, k->n);
}

/* Return the id of a list, IDHASH_NONE where it is not there or a key comes twice. */
static uint32_t find_list(const struct setpool *p, const struct label *labels, size_t n,
			  uint32_t *ret_hash)
{
	uint64_t key = labels_list_key(labels, n, p->seed);
	*ret_hash = (uint32_t)(key ^ key >> 32);
	return n ? idhash_find(&p->hash, *ret_hash, same_set, p, &(struct set_key){ labels, n })
		 : 0;
}

/* The same for a list that was not found: normalized in `set`, which has room for n. */
static uint32_t find_normalized(const struct setpool *p, const struct label *labels, size_t n,
				struct label *set, size_t *ret_n, uint32_t *hash)
{
	memcpy(set, labels, n * sizeof(*set));
	*ret_n = labels_normalize(set, n);
	return *ret_n == n ? IDHASH_NONE : find_list(p, set, *ret_n, hash);
}

bool setpool_find(const struct setpool *p, const struct label *labels, size_t n, uint32_t *ret_id)
{
	struct label set[SET_LABELS_MAX];
	uint32_t hash, id = find_list(p, labels, n, &hash);
	if (id == IDHASH_NONE && n <= SET_LABELS_MAX)
		id = find_normalized(p, labels, n, set, &n, &hash);
	if (id != IDHASH_NONE)
		*ret_id = id;
	return id != IDHASH_NONE;
}

/* The order of a list beside the set that was made of it; NULL: that of the set. -ENOMEM. */
static int keep_order(struct setpool *p, const struct label *set, const struct label *labels,
		      size_t n, const uint8_t **ret)
{
	uint8_t order[SET_LABELS_MAX], *own = NULL;
	bool sorted = true;
	for (size_t i = 0; i < n; i++) {
		order[i] = (uint8_t)labels_find(set, n, &labels[i]);
		sorted = sorted && order[i] == i;
	}
	if (!sorted) {
		own = chunks_alloc(&p->chunks, n, 1);
		if (!own)
			return -ENOMEM;
		memcpy(own, order, n);
	}
	*ret = own;
	return 0;
}

/* A set that is not there yet, with the order of the list that it was made of. */
static int add_set(struct setpool *p, const struct label *set, size_t n, const struct label *list,
		   uint32_t hash, uint32_t *ret_id)
{
	const uint8_t *order = NULL;
	if (p->n >= IDS_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(p->sets, p->cap, (size_t)p->n + 1);
	if (!rc)
		rc = idhash_reserve(&p->hash);
	struct label *own =
		rc ? NULL : chunks_alloc(&p->chunks, n * sizeof(*own), _Alignof(struct label));
	if (!own)
		return -ENOMEM;
	memcpy(own, set, n * sizeof(*own));
	if (list)
		rc = keep_order(p, set, list, n, &order);
	for (size_t i = 0; !rc && i < n; i++) {
		rc = intern_text(p, &own[i].key, own[i].key_len);
		if (!rc && own[i].type != LABEL_INT)
			rc = intern_text(p, &own[i].str, own[i].str_len);
	}
	if (rc)
		return rc;
	p->sets[p->n] = (struct setpool_set){ own, order, (uint32_t)n };
	idhash_put(&p->hash, hash, p->n);
	*ret_id = p->n++;
	return 0;
}

int setpool_add(struct setpool *p, const struct label *labels, size_t n, uint32_t *ret_id)
{
	struct label set[SET_LABELS_MAX];
	size_t n_set;
	uint32_t hash, id = find_list(p, labels, n, &hash);
	if (id == IDHASH_NONE) {
		if (n > SET_LABELS_MAX)
			return -E2BIG;
		id = find_normalized(p, labels, n, set, &n_set, &hash);
	}
	if (id == IDHASH_NONE)
		return add_set(p, set, n_set, n_set == n ? labels : NULL, hash, ret_id);
	*ret_id = id;
	return 0;
}

size_t setpool_get(const struct setpool *p, uint32_t id, const struct label **ret)
{
	if (id >= p->n) {
		*ret = NULL;
		return 0;
	}
	*ret = p->sets[id].labels;
	return p->sets[id].n;
}
