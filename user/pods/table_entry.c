/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, keys and texts of the table's entries. */
#include "pods/table_int.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define ID_DIGITS 64
#define ID_BYTES 32
#define BUCKETS_MIN 64

size_t table_cost(size_t n)
{
	return (n + 8 + 15) / 16 * 16; /* glibc: 8 bytes of header, multiples of 16 */
}

void *table_alloc(struct pods_table *t, size_t n)
{
	void *p = calloc(1, n);
	if (p)
		t->stats.bytes += table_cost(n);
	return p;
}

void table_release(struct pods_table *t, void *p, size_t n)
{
	if (p)
		t->stats.bytes -= table_cost(n);
	free(p);
}

/* ---- keys ---- */

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Other texts than 64 digits in lower case stay texts, so that no two texts become one key. */
static bool to_bytes(const char *text, size_t len, uint8_t *out)
{
	if (len != ID_DIGITS)
		return false;
	for (size_t i = 0; i < ID_BYTES; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

struct table_key table_key_of(const struct table_hash *h, const char *text, size_t len,
			      uint8_t room[32])
{
	struct table_key k = { .bytes = (const uint8_t *)text };
	if (len >= POD_ID_MAX) /* longer than any id or uid */
		return k;
	k.len = (uint8_t)len;
	k.binary = to_bytes(text, len, room);
	if (k.binary) {
		k.bytes = room;
		k.len = ID_BYTES;
	}
	k.hash = XXH3_64bits_withSeed(k.bytes, k.len, h->seed + k.binary);
	return k;
}

struct table_key *table_key_next(const struct table_hash *h, const struct table_key *k,
				 const struct table_key *after)
{
	struct table_key *i = NULL;
	if (k->len)
		i = after ? after->next : h->bucket[k->hash & (h->cap - 1)];
	while (i && (i->hash != k->hash || i->len != k->len || i->binary != k->binary ||
		     memcmp(i->bytes, k->bytes, k->len) != 0))
		i = i->next;
	return i;
}

void table_hash_grow(struct pods_table *t, struct table_hash *h)
{
	size_t cap = h->cap ? 2 * h->cap : BUCKETS_MIN, bytes = cap * sizeof(struct table_key *);
	if (t->stats.bytes + table_cost(bytes) > t->max_bytes && h->cap)
		return;
	struct table_key **bucket = table_alloc(t, bytes);
	if (!bucket)
		return;
	for (size_t i = 0; i < h->cap; i++) {
		for (struct table_key *k = h->bucket[i], *next; k; k = next) {
			struct table_key **to = &bucket[k->hash & (cap - 1)];
			next = k->next;
			k->next = *to;
			*to = k;
		}
	}
	table_release(t, h->bucket, h->cap * sizeof(struct table_key *));
	h->bucket = bucket;
	h->cap = cap;
}

void table_key_add(struct pods_table *t, struct table_hash *h, struct table_key *k)
{
	if (h->n >= h->cap)
		table_hash_grow(t, h);
	struct table_key **to = &h->bucket[k->hash & (h->cap - 1)];
	k->next = *to;
	*to = k;
	h->n++;
}

void table_key_remove(struct table_hash *h, struct table_key *k)
{
	if (!k->len)
		return;
	struct table_key **at = &h->bucket[k->hash & (h->cap - 1)];
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	*k = (struct table_key){ 0 };
	h->n--;
}

/* ---- containers ---- */

static size_t container_size(size_t id_len, size_t name_len)
{
	return sizeof(struct table_container) + id_len + name_len + 1;
}

size_t table_container_size(const struct table_container *c)
{
	return container_size(c->key.len, strlen(c->name));
}

size_t table_container_cost(const struct pod_container *c)
{
	uint8_t room[ID_BYTES];
	size_t len = strlen(c->id);
	return table_cost(
		container_size(to_bytes(c->id, len, room) ? ID_BYTES : len, strlen(c->name)));
}

struct table_container *table_container_new(struct pods_table *t, const struct pod_container *c)
{
	uint8_t room[ID_BYTES];
	struct table_key k = table_key_of(&t->by_id, c->id, strlen(c->id), room);
	size_t name_len = strlen(c->name);
	struct table_container *new = table_alloc(t, container_size(k.len, name_len));
	if (!new)
		return NULL;
	memcpy(new->room, k.bytes, k.len);
	memcpy(new->room + k.len, c->name, name_len);
	k.bytes = new->room;
	new->key = k;
	new->name = (char *)new->room + k.len;
	return new;
}

void table_container_free(struct pods_table *t, struct table_container *c)
{
	table_release(t, c, table_container_size(c));
}

/* ---- texts ---- */

struct laying {
	struct table_texts *to; /* NULL: count only */
	size_t used;
};

static const char *lay(struct laying *l, const char *text)
{
	size_t n = strlen(text) + 1;
	char *at = l->to ? l->to->room + l->used : NULL;
	if (at)
		memcpy(at, text, n);
	l->used += n;
	return at;
}

/* A text of the record, or what is known; NULL: neither. */
static const char *lay_either(struct laying *l, const char *text, const char *known)
{
	const char *either = *text ? text : known;
	return either ? lay(l, either) : NULL;
}

static size_t lay_texts(const struct pod_record *r, const struct table_texts *old,
			struct table_texts *to)
{
	static const struct table_texts none;
	const struct table_texts *known = r->merge && old ? old : &none;
	struct table_texts head = { 0 };
	struct laying l = { to, 0 };
	const char *extra[POD_EXTRA_MAX];
	memcpy(extra, known->extra, sizeof(extra));
	for (uint16_t i = 0; i < r->n_extra; i++)
		extra[r->extra[i].wanted] = r->extra[i].value;
	head.namespace = lay_either(&l, r->namespace, known->namespace);
	head.pod = lay_either(&l, r->name, known->pod);
	head.kind = lay_either(&l, r->kind, known->kind);
	head.workload = lay_either(&l, r->workload, known->workload);
	for (size_t i = 0; i < POD_EXTRA_MAX; i++)
		head.extra[i] = extra[i] ? lay(&l, extra[i]) : NULL;
	if (to)
		memcpy(to, &head, sizeof(head));
	return sizeof(*to) + l.used;
}

size_t table_texts_cost(const struct pod_record *r, const struct table_texts *old)
{
	return table_cost(lay_texts(r, old, NULL));
}

struct table_texts *table_texts_new(struct pods_table *t, const struct pod_record *r,
				    const struct table_texts *old)
{
	size_t n = lay_texts(r, old, NULL);
	struct table_texts *texts = table_alloc(t, n);
	if (texts) {
		lay_texts(r, old, texts);
		texts->size = n;
	}
	return texts;
}

void table_texts_free(struct pods_table *t, struct table_texts *texts)
{
	if (texts)
		table_release(t, texts, texts->size);
}
