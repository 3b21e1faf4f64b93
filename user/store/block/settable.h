/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The label sets of one window that has wide keys. Each is a narrow set of the segment and the
 * labels of wide keys, whose values stand in the block itself and nowhere else.
 */
#ifndef ASCRIBE_STORE_BLOCK_SETTABLE_H
#define ASCRIBE_STORE_BLOCK_SETTABLE_H

#include "store/block/block.h"

struct settable_label {
	uint32_t key; /* string of the segment's label sets */
	uint32_t len;
	enum label_type type;
	const char *str; /* borrowed */
	int64_t num;
};

/* The value of a label, borrowed; the key is left to the caller. */
static inline struct settable_label settable_value(const struct label *l)
{
	return (struct settable_label){
		.len = l->str_len, .type = l->type, .str = l->str, .num = l->num
	};
}

/* The opposite: a label with this value, borrowed. */
static inline struct label settable_as_label(const char *key, uint32_t key_len,
					     const struct settable_label *v)
{
	struct label l = { .key = key, .key_len = key_len, .str = "", .type = v->type };
	if (v->type == LABEL_INT) {
		l.num = v->num;
	} else {
		l.str = v->str;
		l.str_len = v->len;
	}
	return l;
}

struct settable_set {
	uint32_t narrow;
	uint32_t first, n; /* in labels[] */
};

struct settable {
	struct settable_set *sets;
	size_t n, cap;
	struct settable_label *labels;
	size_t n_labels, labels_cap;
	struct buf text; /* decoded: what labels point into */
};

void settable_fini(struct settable *t);
int settable_add(struct settable *t, uint32_t narrow, const struct settable_label *labels,
		 size_t n);

/* In the order of sets. */
int settable_encode(struct block *b, const struct settable *t);

/* Which keys are of interest, by their number. */
struct settable_keys {
	bool (*wants)(void *ctx, uint32_t key);
	void *ctx;
};

/*
 * raw[]: the columns from COLUMN_TABLE_NARROW on, unpacked. keys: sets have no other labels; NULL:
 * all. -EBADMSG.
 */
int settable_decode(struct settable *ret, const struct buf *raw, size_t n, uint32_t n_narrow,
		    uint32_t n_keys, const struct settable_keys *keys);
/*
 * The same without their labels: n is 0 in all sets. It takes a tenth of the memory where values
 * are UUIDs.
 */
int settable_decode_narrow(struct settable *ret, const struct buf *raw, size_t n,
			   uint32_t n_narrow);

/*
 * Whether a value may be in the table, whatever its key, from the columns that settable_columns
 * names alone (bits of enum column): no means no.
 */
uint32_t settable_columns(const struct settable_label *value);
bool settable_may_have(const struct buf *raw, const struct settable_label *value);

/* For sorting: by narrow set, then labels. */
int settable_compare(const struct settable *t, const struct settable_set *a,
		     const struct settable_set *b);

/* A typed value by itself: type, then its bytes. */
int value_encode(struct buf *out, const struct settable_label *l);
/* The text points into text, which must have 37 bytes, or into the cursor's bytes. */
int value_decode(struct cursor *c, struct settable_label *ret, char *text);

#endif
