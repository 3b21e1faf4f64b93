/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dict/sets.h"

#include "util/array.h"

enum {
	N_STRINGS = STRINGS_COLUMNS, /* one number: how many strings this batch brings */
	N_LABELS,
	KEYS,
	TYPES,
	VALUES,
};

size_t dicts_set(const struct dicts *d, uint32_t id, const struct set_label **ret)
{
	if (!id || id >= d->n_sets) {
		*ret = NULL;
		return 0;
	}
	*ret = d->labels + d->set_end[id - 1];
	return d->set_end[id] - d->set_end[id - 1];
}

struct label dicts_label(const struct dicts *d, const struct set_label *l)
{
	size_t len;
	struct label out = { .key = strings_get(&d->label_text, l->key, &len),
			     .str = "",
			     .type = l->type };
	out.key_len = (uint32_t)len;
	if (l->type == LABEL_INT) {
		out.num = (int64_t)l->value;
		return out;
	}
	out.str = strings_get(&d->label_text, (uint32_t)l->value, &len);
	out.str_len = (uint32_t)len;
	return out;
}

struct set_key {
	const struct set_label *labels;
	size_t n;
};

static bool same_set(const void *ctx, uint32_t id, const void *key)
{
	const struct set_key *k = key;
	const struct set_label *v;
	size_t n = dicts_set(ctx, id, &v);
	return n == k->n && !memcmp(v, k->labels, n * sizeof(*v));
}

static int reserve(struct dicts *d, size_t n)
{
	if (d->n_sets >= IDS_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(d->set_end, d->set_end_cap, (size_t)d->n_sets + 1);
	if (!rc)
		rc = ARRAY_RESERVE(d->labels, d->labels_cap, d->set_end[d->n_sets - 1] + n);
	return rc || !d->index ? rc : idhash_reserve(&d->set_hash);
}

/* v is not in the table; room was reserved. */
static void append(struct dicts *d, const struct set_label *v, size_t n)
{
	size_t at = d->set_end[d->n_sets - 1];
	memcpy(d->labels + at, v, n * sizeof(*v));
	d->set_end[d->n_sets++] = at + n;
}

static int intern_label(struct dicts *d, const struct label *l, struct set_label *ret)
{
	struct set_label out = { .type = l->type, .value = (uint64_t)l->num };
	int rc = strings_add(&d->label_text, l->key, l->key_len, &out.key);
	if (rc || l->type == LABEL_INT)
		goto out;
	uint32_t id;
	rc = strings_add(&d->label_text, l->str, l->str_len, &id);
	out.value = rc ? 0 : id;
out:
	*ret = out;
	return rc;
}

int dicts_add_set(struct dicts *d, const struct label *labels, size_t n, uint32_t *ret_id)
{
	struct set_label v[SET_LABELS_MAX];
	if (n > SET_LABELS_MAX)
		return -E2BIG;
	if (!n) {
		*ret_id = 0;
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		if (labels[i].type != LABEL_STRING && labels[i].type != LABEL_INT)
			return -EINVAL;
		int rc = intern_label(d, &labels[i], &v[i]);
		if (rc)
			return rc;
	}
	uint32_t hash = idhash_hash(&d->set_hash, v, n * sizeof(*v));
	uint32_t id = idhash_find(&d->set_hash, hash, same_set, d, &(struct set_key){ v, n });
	if (id == IDHASH_NONE) {
		int rc = reserve(d, n);
		if (rc)
			return rc;
		id = d->n_sets;
		append(d, v, n);
		idhash_put(&d->set_hash, hash, id);
	}
	*ret_id = id;
	return 0;
}

static int encode_set(const struct dicts *d, uint32_t id, struct buf *c)
{
	const struct set_label *v;
	size_t n = dicts_set(d, id, &v);
	int rc = buf_add_varint(&c[N_LABELS], n);
	for (size_t i = 0; !rc && i < n; i++) {
		rc = buf_add_varint(&c[KEYS], v[i].key);
		rc |= buf_add_u8(&c[TYPES], (uint8_t)v[i].type);
		rc |= buf_add_varint(&c[VALUES],
				     v[i].type == LABEL_INT ? zigzag(v[i].value) : v[i].value);
	}
	return rc;
}

/*
 * All the strings go before the sets that name them: strings may fill several batches with no set
 * in them. A string whose set could not be added stays and costs only its bytes.
 */
int sets_encode(const struct dicts *d, const struct dict_mark *mark, struct buf *c,
		struct dict_mark *ret_next)
{
	struct dict_mark next = *mark;
	int rc = strings_encode(&d->label_text, mark->text, d->label_text.n, c, &next.text);
	if (!rc)
		rc = buf_add_varint(&c[N_STRINGS], next.text - mark->text);
	if (!rc && next.text == d->label_text.n)
		while (!rc && next.next < d->n_sets && c[VALUES].len < BATCH_BYTES &&
		       next.next - mark->next < BATCH_IDS)
			rc = encode_set(d, next.next++, c);
	if (!rc)
		*ret_next = next;
	return rc;
}

static int decode_label(const struct dicts *d, struct cursor *c, struct set_label *ret)
{
	uint64_t key = cursor_varint(&c[KEYS]);
	uint8_t type = cursor_u8(&c[TYPES]);
	uint64_t value = cursor_varint(&c[VALUES]);
	if (c[KEYS].bad || c[TYPES].bad || c[VALUES].bad || key >= d->label_text.n)
		return -EBADMSG;
	if (type == LABEL_INT)
		value = unzigzag(value);
	else if (type != LABEL_STRING || value >= d->label_text.n)
		return -EBADMSG;
	*ret = (struct set_label){ (uint32_t)key, type, value };
	return 0;
}

static int decode_set(struct dicts *d, struct cursor *c)
{
	struct set_label v[SET_LABELS_MAX];
	uint64_t n = cursor_varint(&c[N_LABELS]);
	if (c[N_LABELS].bad || !n || n > SET_LABELS_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < n; i++) {
		int rc = decode_label(d, c, &v[i]);
		if (rc)
			return rc;
	}
	int rc = reserve(d, n);
	if (rc)
		return rc;
	append(d, v, n);
	if (d->index)
		idhash_put(&d->set_hash, idhash_hash(&d->set_hash, v, n * sizeof(*v)),
			   d->n_sets - 1);
	return 0;
}

int sets_decode(struct dicts *d, struct cursor *c, uint32_t n)
{
	uint64_t n_strings = cursor_varint(&c[N_STRINGS]);
	if (c[N_STRINGS].bad || n_strings > IDS_MAX)
		return -EBADMSG;
	int rc = strings_decode(&d->label_text, c, (uint32_t)n_strings, d->index);
	for (uint32_t i = 0; !rc && i < n; i++)
		rc = decode_set(d, c);
	return rc;
}
