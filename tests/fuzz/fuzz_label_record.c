/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: a record of labels (include/ascribe/label_abi.h) and its key table. The input: a piece
 * for the key table's text, a byte, the record. The byte's lowest bit says that prefix and header
 * are to be made right, whatever they are.
 *
 * Covers: labels/record.c labels/labels.c
 */
#include "ascribe/label_abi.h"
#include "fuzz/input.h"
#include "labels/record.h"

static void repair(uint8_t *record, size_t len)
{
	struct ascribe_record_prefix p;
	struct ascribe_record_header h;
	size_t attrs = len - ASCRIBE_PREFIX_SIZE - ASCRIBE_HEADER_SIZE;
	uint16_t n = (uint16_t)(attrs < ASCRIBE_ATTRS_MAX ? attrs : ASCRIBE_ATTRS_MAX);
	memcpy(&p, record, sizeof(p));
	memcpy(&h, record + sizeof(p), sizeof(h));
	p.magic = ASCRIBE_RECORD_MAGIC;
	p.abi = ASCRIBE_ABI_VERSION;
	p.total_size = (ascribe_u16)(ASCRIBE_PREFIX_SIZE + ASCRIBE_HEADER_SIZE + n);
	p.set_id |= 1;
	h.valid = 1;
	memcpy(h.attrs_size, &n, sizeof(n));
	memcpy(record, &p, sizeof(p));
	memcpy(record + sizeof(p), &h, sizeof(h));
}

static bool same(const struct label *a, const struct label *b)
{
	if (a->type != b->type || a->key_len != b->key_len || memcmp(a->key, b->key, a->key_len))
		return false;
	return a->type == LABEL_INT
		       ? a->num == b->num
		       : a->str_len == b->str_len && !memcmp(a->str, b->str, a->str_len);
}

/* Compare the set with itself in another order, and with one of its labels many times. */
static void compare(const struct label *v, size_t n)
{
	struct label w[RECORD_LABELS_MAX];
	uint8_t order[RECORD_LABELS_MAX];
	for (size_t i = 0; i < n; i++) {
		w[i] = v[n - 1 - i];
		order[i] = (uint8_t)(n - 1 - i);
	}
	require(labels_match(v, NULL, w, n) && labels_match(v, order, w, n));
	require(labels_list_key(v, n, 7) == labels_list_key(w, n, 7));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++)
			require(labels_equal(&v[i], 1, &v[k], 1) == same(&v[i], &v[k]));
	for (size_t i = 0; i < n; i++)
		w[i] = v[0];
	require(labels_match(v, NULL, w, n) == (n < 2));
	require(!n || !labels_equal(v, n, v, n - 1));
}

static void check_labels(const struct label *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char text[ASCRIBE_VALUE_MAX + 32];
		size_t len = v[i].key_len;
		require(label_text(&v[i], text, sizeof(text)) < sizeof(text));
		require(label_text(&v[i], text, 3) == label_text(&v[i], NULL, 0));
		require(labels_find(v, n, &v[i]) == i);
		if (i) {
			size_t least = v[i - 1].key_len < len ? v[i - 1].key_len : len;
			int d = least ? memcmp(v[i - 1].key, v[i].key, least) : 0;
			require(d < 0 || (!d && v[i - 1].key_len < len));
		}
	}
	compare(v, n);
	require(labels_equal(v, n, v, n) && labels_match(v, NULL, v, n) && labels_key(v, n, 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	size_t keys_len, n;
	uint8_t *keys = take_piece(&in, &keys_len), how = take_byte(&in);
	uint8_t *record = (uint8_t *)copy_of(in.p, in.left);
	struct label v[RECORD_LABELS_MAX];
	struct record_side side;
	uint64_t set, parent;
	if (how & 1 && in.left >= ASCRIBE_PREFIX_SIZE + ASCRIBE_HEADER_SIZE)
		repair(record, in.left);
	int rc = record_decode(record, in.left, keys, keys_len, v, &n, &side);
	require(!record_ids(record, in.left, &set, &parent) || rc);
	require(!record_ids(record, in.left, NULL, NULL) ==
		!record_ids(record, in.left, &set, &parent));
	if (!rc)
		check_labels(v, n);
	free(record);
	free(keys);
	return 0;
}
