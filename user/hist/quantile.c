/* SPDX-License-Identifier: Apache-2.0 */
/* What a snapshot is asked. */
#include "hist/snapshot.h"

#include <math.h>

static struct hist_value value_of(const struct hist_snapshot *s, uint32_t index)
{
	uint64_t low = hist_bucket_low(s->bits, index), high = hist_bucket_high(s->bits, index);
	return (struct hist_value){ low, high, low + (high - low) / 2 };
}

struct hist_value hist_snapshot_at(const struct hist_snapshot *s, uint64_t rank)
{
	uint64_t below = 0;
	if (!s->total)
		return (struct hist_value){ 0, 0, 0 };
	if (rank >= s->total)
		rank = s->total - 1;
	unsigned row = 0;
	while (rank - below >= s->row_total[row])
		below += s->row_total[row++];
	const uint64_t *c = s->counts + s->at[row] - 1;
	uint32_t i = 0;
	while (rank - below >= c[i])
		below += c[i++];
	return value_of(s, (row << s->bits) + i);
}

/*
 * The double nearest to 0.9 is a little above it, and the 0.9 of 10 values are nine all the same.
 * So a product within a few roundings of a whole number is that number.
 */
static double rank_of(double q, uint64_t total)
{
	double rank = q * (double)total, whole = round(rank);
	return fabs(rank - whole) <= rank * 0x1p-50 ? whole : ceil(rank);
}

struct hist_value hist_snapshot_quantile(const struct hist_snapshot *s, double q)
{
	double rank = rank_of(q, s->total);
	if (!(rank >= 1))
		return hist_snapshot_at(s, 0);
	return hist_snapshot_at(s, rank >= 0x1p64 ? UINT64_MAX : (uint64_t)rank - 1);
}

void hist_snapshot_rank(const struct hist_snapshot *s, uint64_t value, uint64_t *ret_low,
			uint64_t *ret_high)
{
	uint32_t index = hist_bucket_index(s->bits, value), in_row = index & ((1u << s->bits) - 1);
	unsigned row = index >> s->bits;
	uint64_t below = 0, here = 0;
	for (unsigned r = 0; r < row; r++)
		below += s->row_total[r];
	if (s->at[row]) {
		const uint64_t *c = s->counts + s->at[row] - 1;
		for (uint32_t i = 0; i < in_row; i++)
			below += c[i];
		here = c[in_row];
	}
	*ret_low = value == hist_bucket_high(s->bits, index) ? below + here : below;
	*ret_high = below + here;
}

struct hist_sum hist_snapshot_sum(const struct hist_snapshot *s)
{
	struct hist_sum sum = { 0, 0 };
	uint64_t n;
	for (uint32_t i = 0; hist_snapshot_next(s, &i, &n); i++) {
		sum.low += (unsigned __int128)hist_bucket_low(s->bits, i) * n;
		sum.high += (unsigned __int128)hist_bucket_high(s->bits, i) * n;
	}
	return sum;
}

/* From the mean, not as the difference of two large squares. */
struct hist_moments hist_snapshot_moments(const struct hist_snapshot *s)
{
	struct hist_moments m = { .error = 1.0 / (2u << s->bits) };
	if (!s->total)
		return m;
	struct hist_sum sum = hist_snapshot_sum(s);
	long double total = (long double)s->total,
		    mean = ((long double)sum.low + (long double)sum.high) / 2 / total;
	long double var = 0, square = 0;
	uint64_t n;
	for (uint32_t i = 0; hist_snapshot_next(s, &i, &n); i++) {
		uint64_t low = hist_bucket_low(s->bits, i), high = hist_bucket_high(s->bits, i);
		long double mid = (long double)low + (long double)(high - low) / 2;
		var += (mid - mean) * (mid - mean) * (long double)n;
		square += mid * mid * (long double)n;
	}
	m.mean = (double)mean;
	m.deviation = (double)sqrtl(var / total);
	m.square_mean = (double)sqrtl(square / total);
	return m;
}
