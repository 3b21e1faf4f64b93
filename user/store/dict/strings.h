/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of strings: an append-only prefix trie.
 *
 * A string is stored as (an earlier string, how many bytes to take from its start, the rest). At
 * most STRING_DEPTH_MAX references lead to a string that stands by itself. The reference is the
 * earlier string with the longest common prefix, which a crit-bit tree over all strings gives in
 * one walk. Ids are given in order, 0 is the empty string and is not stored.
 *
 * Invariants: ref < id; lcp <= length of the referred string; text of every string ends with a NUL
 * that its length does not count.
 */
#ifndef ASCRIBE_STORE_DICT_STRINGS_H
#define ASCRIBE_STORE_DICT_STRINGS_H

#include "util/buf.h"
#include "util/chunks.h"
#include "util/idhash.h"

struct string {
	const uint8_t *text;
	uint32_t len;
	uint32_t ref;	/* 0: none */
	uint32_t lcp;	/* 0 when there is no ref */
	uint32_t depth; /* references to follow */
};

struct crit_node {
	uint32_t child[2]; /* node index, or STRINGS_LEAF | string id */
	uint32_t byte;	   /* at which this node decides */
	uint32_t mask;	   /* one bit of the symbol there, see strings.c */
};

#define STRINGS_LEAF 0x80000000u

struct strings {
	struct chunks text;
	size_t text_len; /* of all strings, with their NULs */
	struct string *v;
	size_t cap;
	uint32_t n; /* with the empty string */
	struct idhash hash;
	struct crit_node *nodes;
	size_t nodes_cap;
	uint32_t n_nodes;
	uint32_t root;
};

int strings_init(struct strings *t);
void strings_fini(struct strings *t);

/* The id of these bytes, given now when they are new. -E2BIG, -ENOMEM: the table is as before. */
int strings_add(struct strings *t, const char *s, size_t len, uint32_t *ret_id);

/* UINT32_MAX: it is not there. With an index. */
uint32_t strings_find(const struct strings *t, const char *s, size_t len);

/* What they take in memory. */
size_t strings_bytes(const struct strings *t);

/* Borrowed until strings_fini; "" for ids out of range. */
const char *strings_get(const struct strings *t, uint32_t id, size_t *ret_len);

#define STRINGS_COLUMNS 4

/*
 * Append strings from..to-1 to STRINGS_COLUMNS buffers, at most a batch: *ret_next is the first id
 * left out.
 */
int strings_encode(const struct strings *t, uint32_t from, uint32_t to, struct buf *columns,
		   uint32_t *ret_next);

/*
 * Append n decoded strings. With index, they can be found by strings_add. -EBADMSG, -E2BIG,
 * -ENOMEM.
 */
int strings_decode(struct strings *t, struct cursor *columns, uint32_t n, bool index);

#endif
