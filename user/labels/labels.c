/* SPDX-License-Identifier: Apache-2.0 */
#include "labels/labels.h"

#include "util/bisect.h"

#include <ascribe/label_key.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int key_cmp(const struct label *a, const struct label *b)
{
	uint32_t n = a->key_len < b->key_len ? a->key_len : b->key_len;
	int c = n ? memcmp(a->key, b->key, n) : 0;
	if (c)
		return c;
	return a->key_len < b->key_len ? -1 : a->key_len > b->key_len;
}

/* Insertion sort: sets are small and mostly sorted. */
size_t labels_normalize(struct label *v, size_t n)
{
	size_t out = 0;
	for (size_t i = 0; i < n; i++) {
		struct label l = v[i];
		size_t at = out;
		int c = 1;
		while (at > 0 && (c = key_cmp(&v[at - 1], &l)) > 0)
			at--;
		if (at > 0 && c == 0)
			continue;
		memmove(&v[at + 1], &v[at], (out - at) * sizeof(*v));
		v[at] = l;
		out++;
	}
	return out;
}

bool label_int(const char *text, size_t len, int64_t *ret)
{
	const uint8_t *s = (const uint8_t *)text;
	uint64_t v = 0, limit = INT64_MAX;
	size_t i = 0;
	if (len && s[0] == '-') {
		limit++;
		i = 1;
	}
	if (i == len)
		return false;
	for (; i < len; i++) {
		unsigned int digit = s[i] - '0';
		if (digit > 9 || v > (limit - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*ret = (int64_t)(s[0] == '-' ? 0 - v : v);
	return true;
}

size_t label_text(const struct label *l, char *out, size_t cap)
{
	if (l->type == LABEL_INT)
		return (size_t)snprintf(out, cap, "%" PRId64, l->num);
	if (cap) {
		size_t n = l->str_len < cap - 1 ? l->str_len : cap - 1;
		if (n)
			memcpy(out, l->str, n);
		out[n] = 0;
	}
	return l->str_len;
}

/* Decimal text of v, right-aligned in out[20]; returns where it begins. */
static unsigned int decimal(char out[20], int64_t v)
{
	uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	unsigned int at = 20;
	do
		out[--at] = (char)('0' + u % 10);
	while (u /= 10);
	if (v < 0)
		out[--at] = '-';
	return at;
}

struct key_context {
	const struct label *v;
	uint64_t seed;
};

ASCRIBE_HOT ascribe_u64 hash_label(const void *ctx, unsigned long i)
{
	const struct key_context *c = ctx;
	const struct label *l = &c->v[i];
	if (l->type == LABEL_INT) {
		char text[20]; /* 19 digits and a sign */
		unsigned int at = decimal(text, l->num);
		return ascribe_label_hash(c->seed, ASCRIBE_KEY_INT, l->key, l->key_len, text + at,
					  sizeof(text) - at);
	}
	return ascribe_label_hash(c->seed, ASCRIBE_KEY_STRING, l->key, l->key_len, l->str,
				  l->str_len);
}

uint64_t labels_key(const struct label *v, size_t n, uint64_t seed)
{
	static _Thread_local struct ascribe_unique unique;
	return ascribe_set_key(&unique, n, hash_label, &(struct key_context){ v, seed });
}

/* Key and value in one go. Their lengths are hashed, too: "ab" and "c" is not "a" and "bc". */
ASCRIBE_HOT uint64_t hash_in_list(const struct label *l, uint64_t seed)
{
	ascribe_u64 value_len = l->type == LABEL_INT ? UINT32_MAX : l->str_len, x, y;
	ascribe_hash_begin(seed, value_len << 32 | l->key_len, &x, &y);
	ascribe_hash_text((const uint8_t *)l->key, l->key_len, &x, &y);
	ascribe_mul(&x, &y);
	if (l->type == LABEL_INT)
		x ^= (uint64_t)l->num;
	else
		ascribe_hash_text((const uint8_t *)l->str, l->str_len, &x, &y);
	return ascribe_hash_end(x, y);
}

uint64_t labels_list_key(const struct label *v, size_t n, uint64_t seed)
{
	uint64_t key = 0;
	for (size_t i = 0; i < n; i++)
		key += hash_in_list(&v[i], seed);
	return key;
}

/* Compare without a call: nearly all texts of labels are short. */
static inline bool same_bytes(const char *a, uint32_t n_a, const char *b, uint32_t n_b)
{
	const uint8_t *p = (const uint8_t *)a, *q = (const uint8_t *)b;
	if (n_a != n_b)
		return false;
	if (n_a > 16)
		return !memcmp(a, b, n_a);
	if (n_a >= 8)
		return ascribe_load8(p) == ascribe_load8(q) &&
		       ascribe_load8(p + n_a - 8) == ascribe_load8(q + n_a - 8);
	if (n_a >= 4)
		return ascribe_load4(p) == ascribe_load4(q) &&
		       ascribe_load4(p + n_a - 4) == ascribe_load4(q + n_a - 4);
	for (uint32_t i = 0; i < n_a; i++)
		if (p[i] != q[i])
			return false;
	return true;
}

static inline bool same_label(const struct label *a, const struct label *b)
{
	return a->type == b->type && same_bytes(a->key, a->key_len, b->key, b->key_len) &&
	       (a->type == LABEL_INT ? a->num == b->num
				     : same_bytes(a->str, a->str_len, b->str, b->str_len));
}

bool labels_equal(const struct label *a, size_t n_a, const struct label *b, size_t n_b)
{
	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++)
		if (!same_label(&a[i], &b[i]))
			return false;
	return true;
}

size_t labels_find(const struct label *sorted, size_t n, const struct label *key)
{
	size_t at = bisect(i, 0, n, key_cmp(&sorted[i], key) < 0);
	return at < n && !key_cmp(&sorted[at], key) ? at : n;
}

#define BIT(v, i) ((v)[(i) / 64] & 1ull << (i) % 64)

bool labels_match(const struct label *set, const uint8_t *order, const struct label *v, size_t n)
{
	uint64_t taken[(UINT8_MAX + 1) / 64] = { 0 };
	size_t i = 0;
	while (i < n && same_label(&set[order ? order[i] : i], &v[i]))
		i++;
	if (i == n)
		return true;
	if (n > UINT8_MAX + 1)
		return false;
	/* Another order. No label of the set may stand for two: the list would lack another one. */
	for (i = 0; i < n; i++) {
		size_t at = labels_find(set, n, &v[i]);
		if (at == n || BIT(taken, at) || !same_label(&set[at], &v[i]))
			return false;
		taken[at / 64] |= 1ull << at % 64;
	}
	return true;
}
