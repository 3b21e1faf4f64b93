/* SPDX-License-Identifier: Apache-2.0 */
#include "query/change.h"

#include "query/stats.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define NEAR 6	      /* steps in which a split by ranks is moved */
#define BURST_SHARE 2 /* a burst takes at most half of the steps from spec.from on */
#define AS_GOOD 0.999 /* of what a split explains: a burst is told rather than it */

/* The steps that were recorded, and their ranks. */
struct steps {
	size_t n;
	size_t *at;   /* step */
	double *rate; /* of each */
	double *rank;
	double ties; /* sum of t^3 - t over groups of t equal rates */
};

static int by_rate(const void *a, const void *b, void *ctx)
{
	const double *rate = ctx;
	double x = rate[*(const size_t *)a], y = rate[*(const size_t *)b];
	return (x > y) - (x < y);
}

/* Equal rates share the mean of their ranks. */
static void give_ranks(struct steps *s, const size_t *order)
{
	for (size_t i = 0, end; i < s->n; i = end) {
		end = i + 1;
		while (end < s->n && s->rate[order[end]] == s->rate[order[i]])
			end++;
		double t = (double)(end - i);
		for (size_t k = i; k < end; k++)
			s->rank[order[k]] = (double)(i + end + 1) / 2;
		s->ties += t * t * t - t;
	}
}

static void steps_fini(struct steps *s)
{
	free(s->at);
	free(s->rate);
	free(s->rank);
}

static int steps_init(struct steps *s, const double *rate, size_t n)
{
	size_t *order = malloc((n + 1) * sizeof(*order));
	*s = (struct steps){ 0, malloc((n + 1) * sizeof(*s->at)),
			     malloc((n + 1) * sizeof(*s->rate)), malloc((n + 1) * sizeof(*s->rank)),
			     0 };
	int rc = order && s->at && s->rate && s->rank ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++) {
		if (isnan(rate[i]))
			continue;
		order[s->n] = s->n;
		s->at[s->n] = i;
		s->rate[s->n++] = rate[i];
	}
	if (!rc) {
		qsort_r(order, s->n, sizeof(*order), by_rate, s->rate);
		give_ranks(s, order);
	}
	free(order);
	return rc;
}

/* The mean of v[n], n > 0. */
static double mean(const double *v, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return sum / (double)n;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The value that a share q of v[n] is not above. n > 0. -ENOMEM. */
static int quantile(const double *v, size_t n, double q, double *ret)
{
	double *copy = malloc(n * sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		copy[i] = v[i];
	qsort(copy, n, sizeof(*copy), by_value);
	*ret = copy[(size_t)(q * (double)(n - 1))];
	free(copy);
	return 0;
}

/* z of "the ranks from step i on are as those before", with the correction for ties. */
static double split_z(const struct steps *s, size_t i, double ranks_after)
{
	double m = (double)(s->n - i), k = (double)i, n = (double)s->n;
	double u = ranks_after - m * (m + 1) / 2, middle = m * k / 2;
	double variance = m * k / 12 * (n + 1 - s->ties / (n * (n - 1)));
	double off = fabs(u - middle) - 0.5;
	return variance > 0 && off > 0 ? off / sqrt(variance) : 0;
}

/* How much of the squares of differences two groups of n_in and n_out steps explain. */
static double explained(double n_in, double in, double n_out, double out)
{
	return n_in * n_out / (n_in + n_out) * (in - out) * (in - out);
}

/* Judge the best split, at which the rates differ most. */
static int judge_split(struct change *c, const struct steps *s, size_t i,
		       const struct change_spec *spec)
{
	double before = mean(s->rate, i), after = mean(s->rate + i, s->n - i), most, middle;
	bool more = after > before;
	int rc = quantile(s->rate, i, more ? 0.9 : 0.1, &most);
	rc = rc ? rc : quantile(s->rate + i, s->n - i, 0.5, &middle);
	if (rc)
		return rc;
	c->begin = s->at[i];
	c->inside = after;
	c->outside = before;
	c->explained = explained((double)i, before, (double)(s->n - i), after);
	bool large = fmin(fabs(after - before), fabs(middle - before)) >= spec->least &&
		     fmax(after, before) >= CHANGE_RATIO * fmin(after, before);
	if (large && (more ? middle > most : middle < most))
		c->kind = more ? CHANGE_MORE : CHANGE_LESS;
	return 0;
}

/* The split near i that leaves least of the squares of the differences from the means. */
static size_t sharpen(const struct steps *s, size_t i, const struct change_spec *spec)
{
	size_t best = i;
	double most = -INFINITY;
	for (size_t k = CHANGE_STEPS_MIN; k <= i + NEAR && k + CHANGE_STEPS_MIN <= s->n; k++) {
		double between = explained((double)k, mean(s->rate, k), (double)(s->n - k),
					   mean(s->rate + k, s->n - k));
		if (k + NEAR < i || s->at[k] < spec->from || between <= most)
			continue;
		most = between;
		best = k;
	}
	return best;
}

static int find_split(struct change *c, const struct steps *s, const struct change_spec *spec)
{
	double ranks = 0, best = -INFINITY;
	size_t at = 0, tried = 0;
	for (size_t i = s->n; i-- > CHANGE_STEPS_MIN;) {
		ranks += s->rank[i];
		if (s->at[i] < spec->from)
			break;
		if (s->n - i < CHANGE_STEPS_MIN)
			continue;
		double z = split_z(s, i, ranks);
		tried++;
		if (z <= best)
			continue;
		best = z;
		at = i;
	}
	if (!tried)
		return 0;
	c->p = fmin(1, stats_normal_p(best) * (double)tried);
	return judge_split(c, s, sharpen(s, at, spec), spec);
}

/* Nothing outside of it is above the level. */
static bool is_burst(const struct steps *s, size_t begin, size_t end, double level,
		     const struct change_spec *spec)
{
	size_t wanted = 0;
	for (size_t i = 0; i < s->n; i++) {
		wanted += s->at[i] >= spec->from;
		if ((i < begin || i >= end) && s->rate[i] > level)
			return false;
	}
	return (end - begin) * BURST_SHARE <= wanted && s->n - (end - begin) >= CHANGE_STEPS_MIN;
}

/* A burst that goes on is a change to more. */
static int find_burst(struct change *c, const struct steps *s, const struct change_spec *spec)
{
	size_t top = s->n;
	double usual;
	for (size_t i = 0; i < s->n; i++)
		if (s->at[i] >= spec->from && (top == s->n || s->rate[i] > s->rate[top]))
			top = i;
	if (top == s->n)
		return 0;
	int rc = quantile(s->rate, s->n, 0.5, &usual);
	if (rc)
		return rc;
	double level = (usual + s->rate[top]) / 2;
	if (!(s->rate[top] > level)) /* half of the steps are as high */
		return 0;
	size_t begin = top, end = top + 1;
	while (begin && s->at[begin - 1] >= spec->from && s->rate[begin - 1] > level)
		begin--;
	while (end < s->n && s->rate[end] > level)
		end++;
	if (!is_burst(s, begin, end, level, spec))
		return 0;
	double in = mean(s->rate + begin, end - begin), n_in = (double)(end - begin),
	       n_out = (double)s->n - n_in;
	double out = (mean(s->rate, s->n) * (double)s->n - in * n_in) / n_out;
	if (in - out < spec->least_burst || in < CHANGE_BURST_RATIO * out)
		return 0;
	double p = stats_rate_p((uint64_t)(in * n_in * spec->per_step), n_in,
				(uint64_t)(out * n_out * spec->per_step), n_out) *
		   (double)s->n;
	double good = explained(n_in, in, n_out, out);
	if (c->kind == CHANGE_NONE || good >= AS_GOOD * c->explained)
		*c = (struct change){ end == s->n ? CHANGE_MORE : CHANGE_BURST,
				      s->at[begin],
				      s->at[end - 1] + 1,
				      in,
				      out,
				      fmin(p, 1),
				      good };
	return 0;
}

int change_find(struct change *ret, const double *rate, size_t n, const struct change_spec *spec)
{
	struct steps s;
	*ret = (struct change){ .end = n, .p = 1 };
	int rc = steps_init(&s, rate, n);
	rc = rc ? rc : find_split(ret, &s, spec);
	if (!rc)
		rc = find_burst(ret, &s, spec);
	steps_fini(&s);
	return rc;
}
