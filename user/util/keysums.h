/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by a 64-bit key, in bounded memory. When the table is full, the caller makes room: by giving
 * up (-ENOBUFS), or by keysums_shrink, which keeps the keys with the largest sums.
 */
#ifndef ASCRIBE_UTIL_KEYSUMS_H
#define ASCRIBE_UTIL_KEYSUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keysum {
	uint64_t key; /* plus 1; 0: a free slot */
	uint64_t samples, value;
};

struct keysums {
	struct keysum *v; /* [cap], open addressing */
	size_t n, cap;	  /* cap: 0 or a power of two */
	size_t max_cap;	  /* 3/4 of it may be used */
	/* At most this many samples of any key were taken away by keysums_shrink */
	uint64_t missed;
};

/* Keep at most so many bytes, also while the table grows. At least a few keys fit. */
void keysums_init(struct keysums *k, size_t bytes);
/* Return how many keys have room. */
static inline size_t keysums_max(const struct keysums *k)
{
	return k->max_cap / 4 * 3;
}

void keysums_fini(struct keysums *k);
size_t keysums_bytes(const struct keysums *k);

/*
 * Add to the sums of a key below UINT64_MAX. -ENOMEM; -ENOBUFS: the key is new and there is no
 * room.
 */
int keysums_add(struct keysums *k, uint64_t key, uint64_t samples, uint64_t value);
/* Return the sums of a key; NULL: there are none. */
struct keysum *keysums_find(const struct keysums *k, uint64_t key);

/* Have the memory of a key fetched: it is asked for soon. */
void keysums_prefetch(const struct keysums *k, uint64_t key);

/*
 * Take the same number of samples away from every key and drop those that have none left, until
 * half of the table is free (Misra and Gries). A key that had more than `missed` samples in all is
 * never dropped. Values stay.
 */
void keysums_shrink(struct keysums *k);

/*
 * Keep the keys with the most samples, as long as their costs sum up to at most `budget`. Free what
 * the others took. -ENOMEM.
 */
int keysums_keep(struct keysums *k, uint64_t budget, uint64_t (*cost)(uint64_t key));

/*
 * Move the sums to the front of v[], free no memory; the table must then be given up. Return how
 * many.
 */
size_t keysums_pack(struct keysums *k);

#endif
