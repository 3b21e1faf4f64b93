/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoder of what an application publishes (include/ascribe/label_abi.h, docs/labels.md): the bytes
 * of a record and of the key table, as copied out of the process. Both are foreign: any bytes
 * whatever are either refused or give labels.
 */
#ifndef ASCRIBE_LABELS_RECORD_H
#define ASCRIBE_LABELS_RECORD_H

#include "labels/labels.h"

/* No record has more labels: one per key of a table, trace id, span id. */
#define RECORD_LABELS_MAX 258

/* What the labels borrow besides the record and the key text, and what could not be shown. */
struct record_side {
	char trace_id[32]; /* hexadecimal */
	char span_id[16];
	uint32_t unknown_keys; /* attributes whose key the table does not have (yet): left out */
	uint32_t not_integer;  /* values of integer keys that are no int64: given as strings */
};

/*
 * record: prefix, header, attributes; len may exceed what the record says it has. key_text: the
 * `bytes` of text of the key table of the module that published it. Of attributes with the same key
 * the last one wins. Trace context becomes "trace_id" and "span_id", which win over attributes of
 * that name. Writes the labels, sorted by key, no key twice, to out[0 .. *ret_n). They point into
 * record, key_text and *side and live as long as these.
 *
 * out must have room for RECORD_LABELS_MAX. Returns 0, -EBADMSG (damaged), -EPROTONOSUPPORT
 * (another version of the ABI). On failure neither *ret_n nor *side is touched, out may be. No
 * allocation; at most a few thousand steps.
 */
int record_decode(const void *record, size_t len, const void *key_text, size_t key_len,
		  struct label *out, size_t *ret_n, struct record_side *side);

/* set_id and parent_id of a record; errors as above. ret_* may be NULL. */
int record_ids(const void *record, size_t len, uint64_t *ret_set_id, uint64_t *ret_parent_id);

#endif
