/* SPDX-License-Identifier: Apache-2.0 */
#include "labels/labels.h"

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
		return ascribe_label_hash(c->seed, ASCRIBE_KEY_INT, l->key, l->key_len, text + at, sizeof(text) - at);
	}
	return ascribe_label_hash(c->seed, ASCRIBE_KEY_STRING, l->key, l->key_len, l->str, l->str_len);
}

uint64_t labels_key(const struct label *v, size_t n, uint64_t seed)
{
	static _Thread_local struct ascribe_unique unique;
	return ascribe_set_key(&unique, n, hash_label, &(struct key_context){ v, seed });
}

static bool same_bytes(const char *a, uint32_t n_a, const char *b, uint32_t n_b)
{
	return n_a == n_b && (!n_a || !memcmp(a, b, n_a));
}

bool labels_equal(const struct label *a, size_t n_a, const struct label *b, size_t n_b)
{
	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++) {
		if (a[i].type != b[i].type || !same_bytes(a[i].key, a[i].key_len, b[i].key, b[i].key_len))
			return false;
		if (a[i].type == LABEL_INT ? a[i].num != b[i].num
					   : !same_bytes(a[i].str, a[i].str_len, b[i].str, b[i].str_len))
			return false;
	}
	return true;
}
