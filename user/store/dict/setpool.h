/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Label sets interned by content, with memory that does not move: what setpool_get gives stays
 * until setpool_clear. Id 0 is the empty set.
 *
 * Sets are found by a key without order, and compared without order: what is there already is never
 * sorted. A set remembers the order in which it came first, since it comes in that order again.
 */
#ifndef ASCRIBE_STORE_DICT_SETPOOL_H
#define ASCRIBE_STORE_DICT_SETPOOL_H

#include "labels/labels.h"
#include "util/chunks.h"
#include "util/idhash.h"

struct setpool_set {
	const struct label *labels; /* normalized */
	/* [n] where each label of the first list stands in `labels`; NULL: in order */
	const uint8_t *order;
	uint32_t n;
};

struct setpool {
	struct chunks chunks;
	struct setpool_set *sets;
	size_t cap;
	uint32_t n;    /* with the empty set */
	uint64_t seed; /* of the sets' keys */
	struct idhash hash, text_hash;
	struct setpool_text *texts;
	size_t texts_cap;
	uint32_t n_texts;
};

int setpool_init(struct setpool *p);
void setpool_fini(struct setpool *p);
/* Forget everything but the empty set. */
void setpool_clear(struct setpool *p);

/*
 * labels in any order; of those with the same key the first one counts. -ENOMEM, -E2BIG (more than
 * SET_LABELS_MAX, or too many sets): nothing was added.
 */
int setpool_add(struct setpool *p, const struct label *labels, size_t n, uint32_t *ret_id);
/* Find the id of a set that was added. labels: as above. */
bool setpool_find(const struct setpool *p, const struct label *labels, size_t n, uint32_t *ret_id);
/* What it takes in memory. */
size_t setpool_bytes(const struct setpool *p);
/* The empty set for ids out of range. */
size_t setpool_get(const struct setpool *p, uint32_t id, const struct label **ret);

#endif
