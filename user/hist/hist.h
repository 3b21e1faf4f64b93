/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log-linear histogram that is written while it is read: counts of u64 values (nanoseconds,
 * bytes, frames), each known to 2^-(bits+1) of itself (include/hist_bucket.h). Any value may be
 * recorded; recording never allocates, fails or waits for another thread.
 *
 *   struct hist            one mapping of memory: a table from the logarithm of a value to a row of
 *                          counters. A row is taken from the mapping when the first value needs it,
 *                          and memory that nobody needed is never touched.
 *   hist_record            for any number of threads: one atomic add
 *   hist_record_own        for the one thread that owns this histogram: plain instructions, a fifth
 *                          of the time
 *   multi.h                one such histogram per thread, behind one name
 *   snapshot.h             everything that is asked of a histogram is asked of a copy
 *
 * Counters are 32 bits wide, so that 1% of precision over the whole range of u64 takes less than 16
 * KiB. When one reaches 2^31 that much is carried into `high`, the second half of the mapping,
 * untouched until then. Invariants:
 *
 *   1. the count of a bucket is high * 2^31 + count;
 *   2. only who holds `lock` changes high, or reads more than one counter: a snapshot sees no carry
 *      half done;
 *   3. who records never waits for the lock: a carry that finds it taken is left to the next value
 *      of that bucket. Only when a counter has come to 3/4 of its range meanwhile, 2^30 values
 *      later, does a thread wait.
 */
#ifndef ASCRIBE_HIST_HIST_H
#define ASCRIBE_HIST_HIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hist_bucket.h"
#include "util/err.h"

struct hist {
	/*
	 * By the highest bit of a value: how far it is shifted, and where its row begins. A value's
	 * counter is count[(place >> 6) + (value >> (place & 63))]. Below 64: no row yet.
	 */
	uint32_t place[64];
	uint8_t bits;
	uint8_t taken[64]; /* which row each place of the arena went to: its shift, 0: free */
	uint32_t lock;	   /* 0 or 1 */
	uint32_t carried;  /* high is in use */
	uint32_t overflow; /* a bucket passed 2^63: no snapshot is right any more */
	uint32_t *high;	   /* by index */
	size_t map_bytes;
	uint32_t count[] __attribute__((aligned(64)));
};

/* The smallest precision whose error is at most `error` (0.01: 1%); at most HIST_BITS_MAX. */
unsigned hist_bits(double error);

/* bits <= HIST_BITS_MAX, else -EINVAL. */
int hist_new(unsigned bits, struct hist **ret);
void hist_free(struct hist *h);

/* Bytes of memory that are in use, in whole rows. */
size_t hist_bytes(const struct hist *h);

/* n times the same value, by any thread, but not into a histogram with an owner. */
void hist_add(struct hist *h, uint64_t value, uint64_t n);

/* The slow ways of the calls below. */
uint32_t hist_row(struct hist *h, uint64_t value);
void hist_carry(struct hist *h, uint64_t value);

/* 0 belongs to the bucket of 1's power of two. */
HIST_INLINE uint32_t hist_place(const struct hist *h, uint64_t value)
{
	return __atomic_load_n(&h->place[hist_log2(value | 1)], __ATOMIC_RELAXED);
}

HIST_INLINE uint32_t *hist_counter_at(struct hist *h, uint32_t place, uint64_t value)
{
	return &h->count[(place >> 6) + (uint32_t)(value >> (place & 63))];
}

HIST_INLINE uint32_t *hist_counter(struct hist *h, uint64_t value)
{
	uint32_t place = hist_place(h, value);
	if (__builtin_expect(place < 64, 0))
		place = hist_row(h, value);
	return hist_counter_at(h, place, value);
}

/* True: the count has come to 2^31. */
HIST_INLINE bool hist_increment(uint32_t *c)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	/*
	 * One instruction instead of three: a load, an addition and a store of 32 bits, none of
	 * them torn
	 */
	bool negative;
	__asm__ volatile("addl $1, %0" : "+m"(*c), "=@ccs"(negative));
	return negative;
#else
	uint32_t n = __atomic_load_n(c, __ATOMIC_RELAXED) + 1;
	__atomic_store_n(c, n, __ATOMIC_RELAXED);
	return (int32_t)n < 0;
#endif
}

/* By any thread; not into a histogram with an owner. */
HIST_INLINE void hist_record(struct hist *h, uint64_t value)
{
	if (__builtin_expect(
		    (int32_t)__atomic_add_fetch(hist_counter(h, value), 1, __ATOMIC_RELAXED) < 0,
		    0))
		hist_carry(h, value);
}

/* By the one thread that writes this histogram; others may take snapshots meanwhile. */
HIST_INLINE void hist_record_own(struct hist *h, uint64_t value)
{
	if (__builtin_expect(hist_increment(hist_counter(h, value)), 0))
		hist_carry(h, value);
}

#endif
