/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a histogram, for questions, sums and storage. Rows of 2^bits counters of 64 bits, only
 * those in which something was counted. Not thread-safe; the histogram may be written while the
 * copy is taken.
 *
 * A value is known as its bucket. Where one number stands for it, it is the middle of the bucket,
 * and with E = 2^-(bits+1), for any values at all:
 *
 *   quantile, value at a rank    within E of the true one
 *   mean                         within E of the true one
 *   standard deviation           within E * root mean square of the values
 *   rank                         exact bounds
 */
#ifndef ASCRIBE_HIST_SNAPSHOT_H
#define ASCRIBE_HIST_SNAPSHOT_H

#include "hist/hist.h"

#define HIST_ROWS_MAX 65

struct hist_snapshot {
	uint8_t bits;
	uint64_t total;
	uint64_t row_total[HIST_ROWS_MAX]; /* by index >> bits */
	/* Where the row begins in counts, plus one; 0: an empty row */
	uint32_t at[HIST_ROWS_MAX];
	uint64_t *counts;
	size_t n, cap; /* of counts */
};

/*
 * Empty; bits <= HIST_BITS_MAX. hist_snapshot_fini frees what it came to hold and leaves it empty.
 */
void hist_snapshot_init(struct hist_snapshot *s, unsigned bits);
void hist_snapshot_fini(struct hist_snapshot *s);

/*
 * All below that change a snapshot leave it as it was when they fail: -ENOMEM, or -EOVERFLOW when
 * it would count more than 2^64 - 1 values.
 */

/* Add what a histogram holds now, of whatever precision; the snapshot then has the lower one. */
int hist_snapshot_add(struct hist_snapshot *s, const struct hist *h, struct err *err);

/* Add another snapshot. The result has the lower precision of the two. */
int hist_snapshot_merge(struct hist_snapshot *s, const struct hist_snapshot *other,
			struct err *err);

/*
 * Lower the precision: exactly what recording with `bits` would have given. bits above that of the
 * snapshot: no change.
 */
int hist_snapshot_coarsen(struct hist_snapshot *s, unsigned bits, struct err *err);

/* Count n values more in the bucket of an index below HIST_BUCKETS(bits). */
int hist_snapshot_count(struct hist_snapshot *s, uint32_t index, uint64_t n, struct err *err);

/* The first bucket at or behind *index in which something was counted; false: there is none. */
bool hist_snapshot_next(const struct hist_snapshot *s, uint32_t *index, uint64_t *ret_count);

struct hist_value {
	uint64_t low, high; /* the true value is one of these */
	uint64_t value;	    /* the middle */
};

/*
 * The value at a rank, 0 <= rank < total, of the values in ascending order. An empty snapshot gives
 * 0.
 */
struct hist_value hist_snapshot_at(const struct hist_snapshot *s, uint64_t rank);

/*
 * The smallest value that at least the share q of all values do not exceed. Its rank is ceil(q *
 * total), counted from 1, where q * total is as good as a double (exact below 2^50 values). q
 * outside of 0 .. 1, and NaN, ask for the smallest or the greatest value.
 */
struct hist_value hist_snapshot_quantile(const struct hist_snapshot *s, double q);

/*
 * How many values are <= value: at least *ret_low, at most *ret_high; equal where a bucket ends at
 * `value`.
 */
void hist_snapshot_rank(const struct hist_snapshot *s, uint64_t value, uint64_t *ret_low,
			uint64_t *ret_high);

struct hist_moments {
	double error; /* E */
	double mean;
	double deviation;   /* standard deviation of the values (not of a sample) */
	double square_mean; /* root mean square: what the error of the deviation is a part of */
};

/* All 0 but for the error when nothing was counted. */
struct hist_moments hist_snapshot_moments(const struct hist_snapshot *s);

/* The sum of all values lies between these; 2^128 is not reached. */
struct hist_sum {
	unsigned __int128 low, high;
};
struct hist_sum hist_snapshot_sum(const struct hist_snapshot *s);

#endif
