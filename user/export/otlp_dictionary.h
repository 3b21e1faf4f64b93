/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dictionary of an OTLP message: tables of distinct elements that samples refer to by index.
 * Each table is an intern of packed messages, so no element comes twice. Element 0 is the zero
 * value. What is added is referred to by whoever added it, so there are no orphans.
 *
 * All calls: 0, -ENOMEM, -E2BIG.
 */
#ifndef ASCRIBE_EXPORT_OTLP_DICTIONARY_H
#define ASCRIBE_EXPORT_OTLP_DICTIONARY_H

#include "export/export.h"
#include "export/intern.h"
#include "export/otlp.pb-c.h"

enum otlp_table {
	OTLP_MAPPINGS,
	OTLP_LOCATIONS,
	OTLP_FUNCTIONS,
	OTLP_LINKS,
	OTLP_STRINGS,
	OTLP_ATTRIBUTES,
	OTLP_STACKS,
	OTLP_TABLES,
};

/* What was looked up before: a key, and the index it has in a table. */
struct otlp_memo {
	struct intern keys;
	struct buf values; /* int32_t by number of the key */
};

struct otlp_dictionary {
	const struct export_source *src;
	struct intern table[OTLP_TABLES];
	struct otlp_memo locations; /* frames of the store, where several are at one address */
	int32_t *by_frame;	    /* locations of one frame alone; 0: not known yet */
	size_t n_frames;
	struct otlp_memo stacks; /* stack of the store, whether it is (other) */
	struct buf packed, text;
};

int otlp_dictionary_init(struct otlp_dictionary *d, const struct export_source *src);
void otlp_dictionary_fini(struct otlp_dictionary *d);
/* Bytes that the tables take in a message, at most. */
size_t otlp_dictionary_bytes(const struct otlp_dictionary *d);

/* Bytes that are no UTF-8 become U+FFFD. */
int otlp_add_string(struct otlp_dictionary *d, const char *s, size_t len, int32_t *ret);
int otlp_add_attribute(struct otlp_dictionary *d, const char *key, size_t key_len,
		       const struct label *value, int32_t *ret);
int otlp_add_link(struct otlp_dictionary *d, const uint8_t trace_id[16], const uint8_t span_id[8],
		  int32_t *ret);
/* The stack of a row of the source's query. */
int otlp_add_stack(struct otlp_dictionary *d, const struct store_row *row, int32_t *ret);

/* Pack a message into `to`, in place of what it held. */
int otlp_pack(struct buf *to, const ProtobufCMessage *m);
/* The value of a label; its text is in d until the next call. */
int otlp_value(struct otlp_dictionary *d, const struct label *l, Otlp__AnyValue *ret);

#endif
