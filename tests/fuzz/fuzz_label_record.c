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

static void check_labels(const struct label *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char text[ASCRIBE_VALUE_MAX + 32];
		size_t len = v[i].key_len;
		require(label_text(&v[i], text, sizeof(text)) < sizeof(text));
		require(labels_find(v, n, &v[i]) == i);
		if (i) {
			size_t least = v[i - 1].key_len < len ? v[i - 1].key_len : len;
			int d = least ? memcmp(v[i - 1].key, v[i].key, least) : 0;
			require(d < 0 || (!d && v[i - 1].key_len < len));
		}
	}
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
	if (!rc)
		check_labels(v, n);
	free(record);
	free(keys);
	return 0;
}
