/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both exact tests add up the weights of a distribution with one peak. Weights are relative to the
 * peak's and come from the ratio of neighbours, so there is no logarithm of a factorial and nothing
 * overflows.
 */
#include "query/stats.h"

#include "query/query.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define LARGE 10000.0	 /* expected counts from which the normal distribution is as good */
#define SAME (1 + 1e-7)	 /* weights that differ by rounding alone are equal */
#define NEGLIGIBLE 1e-18 /* of the smallest weight that matters */

struct peak {
	bool binomial;
	double k, n1, n2; /* hypergeometric: k draws of n1 + n2 */
	double odds;	  /* binomial of k with share / (1 - share) */
	double low, high, mode;
};

/* weight(x + 1) / weight(x) */
static double ratio(const struct peak *d, double x)
{
	if (d->binomial)
		return (d->k - x) / (x + 1) * d->odds;
	return (d->k - x) * (d->n1 - x) / ((x + 1) * (d->n2 - d->k + x + 1));
}

static double weight(const struct peak *d, double at)
{
	double w = 1;
	for (double x = d->mode; x < at && w > 0; x++)
		w *= ratio(d, x);
	for (double x = d->mode; x > at && w > 0; x--)
		w /= ratio(d, x - 1);
	return w;
}

struct sums {
	double all, tail;
};

static void add(struct sums *s, double w, double limit)
{
	s->all += w;
	if (w <= limit)
		s->tail += w;
}

static double two_sided(const struct peak *d, double at)
{
	double seen = weight(d, at), w = 1;
	struct sums s = { 0, 0 };
	if (seen < STATS_P_MIN)
		return STATS_P_MIN;
	double limit = seen * SAME, least = seen * NEGLIGIBLE;
	add(&s, 1, limit);
	for (double x = d->mode; x < d->high && w > least; x++)
		add(&s, w *= ratio(d, x), limit);
	w = 1;
	for (double x = d->mode; x > d->low && w > least; x--)
		add(&s, w /= ratio(d, x - 1), limit);
	return fmax(s.tail / s.all, STATS_P_MIN);
}

double stats_normal_p(double z)
{
	double p = erfc(fabs(z) / M_SQRT2);
	return p < STATS_P_MIN ? STATS_P_MIN : p;
}

static double clamp(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

static struct peak share_peak(double k, double n1, double n2)
{
	struct peak d = { .k = k, .n1 = n1, .n2 = n2 };
	d.low = k > n2 ? k - n2 : 0;
	d.high = k < n1 ? k : n1;
	d.mode = clamp(floor((k + 1) * (n1 + 1) / (n1 + n2 + 2)), d.low, d.high);
	return d;
}

double stats_share_p(uint64_t k1, uint64_t n1, uint64_t k2, uint64_t n2)
{
	double k = (double)k1 + (double)k2, n = (double)n1 + (double)n2;
	if (!n1 || !n2 || !k || k >= n)
		return 1;
	double a = (double)n1, b = (double)n2, rest = n - k;
	if (fmin(a, b) * fmin(k, rest) / n < LARGE) {
		struct peak d = share_peak(k, a, b);
		return two_sided(&d, (double)k1);
	}
	double pooled = k / n;
	return stats_normal_p(((double)k1 / a - (double)k2 / b) /
			      sqrt(pooled * (1 - pooled) * (1 / a + 1 / b)));
}

double stats_share_least_p(uint64_t k, uint64_t n1, uint64_t n2)
{
	uint64_t low = k > n2 ? k - n2 : 0, high = k < n1 ? k : n1;
	return fmin(stats_share_p(low, n1, k - low, n2), stats_share_p(high, n1, k - high, n2));
}

double stats_rate_p(uint64_t k1, double e1, uint64_t k2, double e2)
{
	double k = (double)k1 + (double)k2;
	if (!(e1 > 0) || !(e2 > 0) || k == 0)
		return 1;
	double share = e1 / (e1 + e2);
	if (k * fmin(share, 1 - share) >= LARGE)
		return stats_normal_p(((double)k1 - k * share) / sqrt(k * share * (1 - share)));
	struct peak d = { .binomial = true, .k = k, .odds = e1 / e2, .low = 0, .high = k };
	d.mode = clamp(floor((k + 1) * share), 0, k);
	return two_sided(&d, (double)k1);
}

double stats_rate_least_p(uint64_t k, double e1, double e2)
{
	return fmin(stats_rate_p(k, e1, 0, e2), stats_rate_p(0, e1, k, e2));
}

static int by_p(const void *a, const void *b, void *ctx)
{
	const double *p = ctx;
	double x = p[*(const size_t *)a], y = p[*(const size_t *)b];
	return (x > y) - (x < y);
}

int stats_adjust(const double *p, size_t n, double *q)
{
	size_t *order = malloc((n + !n) * sizeof(*order));
	double least = 1;
	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), by_p, (void *)p);
	for (size_t i = n; i-- > 0;) {
		least = fmin(least, p[order[i]] * (double)n / (double)(i + 1));
		q[order[i]] = least;
	}
	free(order);
	return 0;
}

/* Wilson's interval of k / n, n > 0. */
static void wilson(uint64_t k, uint64_t n, double z, double *ret_low, double *ret_high)
{
	double p = (double)k / (double)n, zz = z * z / (double)n;
	double mid = (p + zz / 2) / (1 + zz);
	double half = z * sqrt(p * (1 - p) / (double)n + zz / (4 * (double)n)) / (1 + zz);
	/* At the ends the formula gives 0 and 1 but for rounding. */
	*ret_low = k ? fmax(mid - half, 0) : 0;
	*ret_high = k < n ? fmin(mid + half, 1) : 1;
}

void query_interval(uint64_t k, uint64_t n, double *ret_low, double *ret_high)
{
	*ret_low = 0;
	*ret_high = 1;
	if (n)
		wilson(k, n, STATS_Z95, ret_low, ret_high);
}

void stats_change_interval(uint64_t k1, uint64_t n1, uint64_t k2, uint64_t n2, double z,
			   double *ret_low, double *ret_high)
{
	double l1, u1, l2, u2;
	*ret_low = -1;
	*ret_high = 1;
	if (!n1 || !n2)
		return;
	double p1 = (double)k1 / (double)n1, p2 = (double)k2 / (double)n2;
	wilson(k1, n1, z, &l1, &u1);
	wilson(k2, n2, z, &l2, &u2);
	*ret_low = p1 - p2 - hypot(p1 - l1, u2 - p2);
	*ret_high = p1 - p2 + hypot(u1 - p1, p2 - l2);
}

double stats_rate_ratio_low(uint64_t k1, double e1, uint64_t k2, double e2, double z)
{
	double low, high;
	if (!(e1 > 0) || !(e2 > 0) || !k1)
		return 0;
	wilson(k1, k1 + k2, z, &low, &high);
	return low < 1 ? low / (1 - low) * (e2 / e1) : INFINITY;
}

double stats_normal_z(double p)
{
	double low = 0, high = 10;
	while (high - low > 1e-9) {
		double mid = (low + high) / 2;
		if (stats_normal_p(mid) > 2 * p)
			low = mid;
		else
			high = mid;
	}
	return high;
}
