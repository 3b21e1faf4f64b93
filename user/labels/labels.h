/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A label set in user space: labels sorted by key (bytewise), no key twice.
 */
#ifndef ASCRIBE_LABELS_LABELS_H
#define ASCRIBE_LABELS_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum label_type {
	LABEL_STRING = 0,
	LABEL_INT = 1,
};

/* Borrowed bytes: whoever hands out a struct label says how long they live. No NUL is promised. */
struct label {
	const char *key;
	const char *str; /* LABEL_STRING: the value, UTF-8 by courtesy, any bytes in fact */
	int64_t num;	 /* LABEL_INT: the value */
	uint32_t key_len;
	uint32_t str_len;
	enum label_type type;
};

/* Sort by key and drop all but the first of each key; returns how many stay. In place, stable. */
size_t labels_normalize(struct label *v, size_t n);

/*
 * The key of a set (ascribe/label_key.h): the same for the same labels in any order, any of them
 * any number of times; never 0. With seed 0 it is the set_id that a program publishes for these
 * labels. It is a hash: equal sets have equal keys, not the other way round. Sets that others
 * choose want a random seed. No allocation; 144 KiB for each thread that calls it, of which few are
 * touched.
 */
uint64_t labels_key(const struct label *v, size_t n, uint64_t seed);

/*
 * A key for tables in memory: the same for the same labels in any order. The sum of their hashes;
 * not the set_id. Lists in which a key comes twice have another one than the sets that they stand
 * for.
 */
uint64_t labels_list_key(const struct label *v, size_t n, uint64_t seed);

/* Bytes of its key and its value. */
static inline uint32_t label_bytes(const struct label *l)
{
	return l->key_len + (l->type == LABEL_INT ? 8u : l->str_len);
}

/*
 * Whether a list of n labels in any order is this normalized set of n labels: the same labels, none
 * of them twice. order: where in the set each label of the list is likely to be, a permutation;
 * NULL: where it is in the list.
 */
bool labels_match(const struct label *set, const uint8_t *order, const struct label *v, size_t n);

/* Find the label with this key in a normalized set; n: there is none. */
size_t labels_find(const struct label *set, size_t n, const struct label *key);

/* The same labels: both normalized. */
bool labels_equal(const struct label *a, size_t n_a, const struct label *b, size_t n_b);

/* All of the text is a decimal int64, or false. */
bool label_int(const char *text, size_t len, int64_t *ret);

/*
 * The value as text, decimal for integers: writes at most cap bytes with a NUL, returns the length
 * it has.
 */
size_t label_text(const struct label *l, char *out, size_t cap);

#endif
