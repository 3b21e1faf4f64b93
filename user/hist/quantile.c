/* SPDX-License-Identifier: Apache-2.0 */
/* What a snapshot is asked. */
#include "hist/snapshot.h"

#include <math.h>

static struct hist_value value_of(const struct hist_snapshot *s, uint32_t index)
{
	uint64_t low = hist_bucket_low(s->bits, index), high = hist_bucket_high(s->bits, index);
	return (struct hist_value){ low, high, low + (high - low) / 2 };
}

/* Four at a time: each addition to one sum would wait for the one before it. */
static uint64_t four(const uint64_t *c)
{
	return (c[0] + c[1]) + (c[2] + c[3]);
}

static uint64_t sum_of(const uint64_t *c, uint32_t n)
{
	uint64_t sum = 0;
	uint32_t i = 0;
	for (; i + 4 <= n; i += 4)
		sum += four(c + i);
	for (uint32_t k = i; k < i + 3; k++) /* no jump depends on n */
		sum += c[k < n ? k : 0] & -(uint64_t)(k < n);
	return sum;
}

/* Which of n counters has the value at *rank, below the sum of all; *rank is then that in it. */
static uint32_t find(const uint64_t *c, uint32_t n, uint64_t *rank)
{
	uint32_t i = 0;
	uint64_t left = *rank;
	for (uint64_t sum; i + 4 <= n && left >= (sum = four(c + i)); i += 4)
		left -= sum;
	if (i + 4 <= n) { /* no jump depends on which of the four */
		const uint64_t before[4] = { 0, c[i], c[i] + c[i + 1], c[i] + c[i + 1] + c[i + 2] };
		const unsigned at = (left >= before[1]) + (left >= before[2]) + (left >= before[3]);
		*rank = left - before[at];
		return i + at;
	}
	for (; left >= c[i]; i++)
		left -= c[i];
	*rank = left;
	return i;
}

struct hist_value hist_snapshot_at(const struct hist_snapshot *s, uint64_t rank)
{
	if (!s->total)
		return (struct hist_value){ 0, 0, 0 };
	if (rank >= s->total)
		rank = s->total - 1;
	const uint32_t row = find(s->row_total, HIST_ROWS_MAX, &rank);
	const uint32_t i = find(s->counts + s->at[row] - 1, 1u << s->bits, &rank);
	return value_of(s, (row << s->bits) + i);
}

/*
 * The double nearest to 0.9 is a little above it, and the 0.9 of 10 values are nine all the same.
 * So a product within a few roundings of a whole number is that number.
 */
struct hist_value hist_snapshot_quantile(const struct hist_snapshot *s, double q)
{
	const double rank = q * (double)s->total;
	if (!(rank >= 1))
		return hist_snapshot_at(s, 0);
	if (rank >= 0x1p63)
		return hist_snapshot_at(s, rank >= 0x1p64 ? UINT64_MAX : (uint64_t)rank - 1);
	const int64_t near = (int64_t)(rank + 0.5), whole = (int64_t)rank;
	const bool is_near = fabs(rank - (double)near) <= rank * 0x1p-50;
	return hist_snapshot_at(s, (uint64_t)(is_near ? near : whole + 1) - 1);
}

void hist_snapshot_rank(const struct hist_snapshot *s, uint64_t value, uint64_t *ret_low,
			uint64_t *ret_high)
{
	uint32_t index = hist_bucket_index(s->bits, value), in_row = index & ((1u << s->bits) - 1);
	unsigned row = index >> s->bits;
	uint64_t below = sum_of(s->row_total, row), here = 0;
	if (s->at[row]) {
		const uint64_t *c = s->counts + s->at[row] - 1;
		below += sum_of(c, in_row);
		here = c[in_row];
	}
	/* Of the bucket's greatest value the bits that are shifted away are all set. */
	const uint64_t away = (1ull << hist_bucket_shift(s->bits, value)) - 1;
	*ret_low = (value & away) == away ? below + here : below;
	*ret_high = below + here;
}

/*
 * The values of a row in units of its buckets' width: those of bucket i are first + i + half, in
 * the middle.
 */
struct row {
	const uint64_t *c; /* NULL: empty */
	unsigned shift;
	uint32_t first;
};

static struct row row_at(const struct hist_snapshot *s, unsigned row)
{
	const unsigned shift = hist_bucket_index_shift(s->bits, row << s->bits);
	return (struct row){ s->row_total[row] ? s->counts + s->at[row] - 1 : NULL, shift,
			     (row - shift) << s->bits };
}

struct hist_sum hist_snapshot_sum(const struct hist_snapshot *s)
{
	struct hist_sum sum = { 0, 0 };
	for (unsigned row = 0; row < 65u - s->bits; row++) {
		const struct row r = row_at(s, row);
		unsigned __int128 low = 0;
		for (uint32_t i = 0; r.c && i < 1u << s->bits; i++)
			low += (unsigned __int128)r.c[i] * (r.first + i);
		sum.low += low << r.shift;
		sum.high += (low << r.shift) +
			    (unsigned __int128)s->row_total[row] * ((1ull << r.shift) - 1);
	}
	return sum;
}

/* From the mean, not as the difference of two large squares. */
struct hist_moments hist_snapshot_moments(const struct hist_snapshot *s)
{
	struct hist_moments m = { .error = 1.0 / (2u << s->bits) };
	if (!s->total)
		return m;
	const struct hist_sum sum = hist_snapshot_sum(s);
	const double total = (double)s->total;
	m.mean = (double)(((long double)sum.low + (long double)sum.high) / 2 / s->total);
	double var = 0, square = 0;
	for (unsigned row = 0; row < 65u - s->bits; row++) {
		const struct row r = row_at(s, row);
		const double width = (double)(1ull << r.shift), half = (1 - 1 / width) / 2,
			     middle = r.first + half, away = middle - m.mean / width;
		double row_var = 0, row_square = 0;
		for (uint32_t i = 0; r.c && i < 1u << s->bits; i++) {
			const double n = (double)r.c[i];
			row_var += n * (i + away) * (i + away);
			row_square += n * (i + middle) * (i + middle);
		}
		var += row_var * width * width;
		square += row_square * width * width;
	}
	m.deviation = sqrt(var / total);
	m.square_mean = sqrt(square / total);
	return m;
}
