/* SPDX-License-Identifier: Apache-2.0 */
#include "labels/record.h"

#include <ascribe/label_abi.h>
#include <errno.h>
#include <string.h>

/* The smallest record: no attributes. */
#define RECORD_MIN (ASCRIBE_PREFIX_SIZE + ASCRIBE_HEADER_SIZE)

/* A key table's text with the place of each entry. */
struct keys {
	const uint8_t *text;
	uint32_t n;
	uint16_t at[ASCRIBE_KEYS_MAX];
};

/* Entries up to the first that does not fit; one in the making at the end is none of ours. */
static void keys_open(struct keys *k, const void *text, size_t len)
{
	size_t at = 0;
	k->text = text;
	k->n = 0;
	if (len > ASCRIBE_KEYS_TEXT_MAX)
		len = ASCRIBE_KEYS_TEXT_MAX;
	while (k->n < ASCRIBE_KEYS_MAX && len - at >= 2 && len - at - 2 >= k->text[at + 1]) {
		k->at[k->n++] = (uint16_t)at;
		at += 2u + k->text[at + 1];
	}
}

static int check(const void *record, size_t len, struct ascribe_record_prefix *ret_prefix,
		 struct ascribe_record_header *ret_header, size_t *ret_attrs)
{
	struct ascribe_record_prefix prefix;
	struct ascribe_record_header header;
	uint16_t attrs;
	if (len < RECORD_MIN)
		return -EBADMSG;
	memcpy(&prefix, record, sizeof(prefix));
	memcpy(&header, (const uint8_t *)record + ASCRIBE_PREFIX_SIZE, sizeof(header));
	memcpy(&attrs, header.attrs_size, sizeof(attrs));
	if (prefix.magic != ASCRIBE_RECORD_MAGIC)
		return -EBADMSG;
	if (prefix.abi != ASCRIBE_ABI_VERSION)
		return -EPROTONOSUPPORT;
	if (prefix.set_id == 0 || prefix.total_size > len ||
	    prefix.total_size > RECORD_MIN + ASCRIBE_ATTRS_MAX ||
	    prefix.total_size != RECORD_MIN + (size_t)attrs || header.valid != 1)
		return -EBADMSG;
	*ret_prefix = prefix;
	*ret_header = header;
	*ret_attrs = attrs;
	return 0;
}

static void add_attr(struct label *l, const uint8_t *key, const uint8_t *value, size_t len,
		     struct record_side *side)
{
	*l = (struct label){
		.key = (const char *)key + 2,
		.key_len = key[1],
		.str = (const char *)value,
		.str_len = (uint32_t)len,
		.type = LABEL_STRING,
	};
	if (key[0] != ASCRIBE_KEY_INT)
		return;
	if (label_int((const char *)value, len, &l->num)) {
		l->type = LABEL_INT;
		l->str = NULL;
		l->str_len = 0;
	} else {
		side->not_integer++;
	}
}

static int is_zero(const uint8_t *p, size_t n)
{
	while (n)
		if (p[--n])
			return 0;
	return 1;
}

static size_t add_id(struct label *l, const char *key, char *hex, const uint8_t *id, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	if (is_zero(id, n))
		return 0;
	for (size_t i = 0; i < n; i++) {
		hex[2 * i] = digits[id[i] >> 4];
		hex[2 * i + 1] = digits[id[i] & 15];
	}
	*l = (struct label){
		.key = key,
		.key_len = (uint32_t)strlen(key),
		.str = hex,
		.str_len = (uint32_t)(2 * n),
		.type = LABEL_STRING,
	};
	return 1;
}

int record_decode(const void *record, size_t len, const void *key_text, size_t key_len,
		  struct label *out, size_t *ret_n, struct record_side *ret_side)
{
	const uint8_t *attrs = (const uint8_t *)record + RECORD_MIN;
	uint16_t places[ASCRIBE_ATTRS_MAX / 2];
	uint8_t seen[ASCRIBE_KEYS_MAX + 1] = { 0 };
	struct ascribe_record_prefix prefix;
	struct ascribe_record_header header;
	struct record_side side = { .unknown_keys = 0 };
	struct keys keys;
	size_t size, n_places = 0, n = 0;
	int err = check(record, len, &prefix, &header, &size);
	if (err)
		return err;
	for (size_t at = 0; at < size; at += 2u + attrs[at + 1]) {
		if (size - at < 2 || size - at - 2 < attrs[at + 1])
			return -EBADMSG;
		places[n_places++] = (uint16_t)at;
	}
	keys_open(&keys, key_text, key_len);
	n += add_id(&out[n], "trace_id", ret_side->trace_id, header.trace_id,
		    sizeof(header.trace_id));
	n += add_id(&out[n], "span_id", ret_side->span_id, header.span_id, sizeof(header.span_id));
	/* From the last to the first: labels_normalize() keeps the first of a key. */
	while (n_places) {
		const uint8_t *a = attrs + places[--n_places];
		if (seen[a[0]])
			continue;
		seen[a[0]] = 1;
		if (a[0] >= keys.n || keys.text[keys.at[a[0]] + 1] == 0)
			side.unknown_keys++;
		else
			add_attr(&out[n++], keys.text + keys.at[a[0]], a + 2, a[1], &side);
	}
	ret_side->unknown_keys = side.unknown_keys;
	ret_side->not_integer = side.not_integer;
	*ret_n = labels_normalize(out, n);
	return 0;
}

int record_ids(const void *record, size_t len, uint64_t *ret_set_id, uint64_t *ret_parent_id)
{
	struct ascribe_record_prefix prefix;
	struct ascribe_record_header header;
	size_t size;
	int err = check(record, len, &prefix, &header, &size);
	if (err)
		return err;
	if (ret_set_id)
		*ret_set_id = prefix.set_id;
	if (ret_parent_id)
		*ret_parent_id = prefix.parent_id;
	return 0;
}
