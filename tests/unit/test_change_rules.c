/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of short series beside the rules of change.h, which are written down once more: over all
 * splits, all pairs of steps and all runs. Rates are eighths, so that many are equal, and sums are
 * exact.
 */
#include "query/change.h"
#include "query/stats.h"
#include "unit/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define STEPS_MAX 26
#define TRIALS 4000
#define MOVED 6 /* steps that a split by ranks is moved at most */

struct series {
	double rate[STEPS_MAX];
	size_t n;
	/* those that were recorded */
	double v[STEPS_MAX];
	size_t at[STEPS_MAX], m;
};

static uint64_t random_state = 1;

static uint32_t draw(uint32_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % below;
}

/* ---- the rules ---- */

static double mean_of(const double *v, size_t from, size_t to)
{
	double sum = 0;
	for (size_t i = from; i < to; i++)
		sum += v[i];
	return sum / (double)(to - from);
}

/* The element that has floor(share * (to - from - 1)) others before it. */
static double quantile_of(const double *v, size_t from, size_t to, double share)
{
	size_t place = (size_t)(share * (double)(to - from - 1));
	for (size_t i = from;; i++) {
		size_t less = 0, same = 0;
		for (size_t k = from; k < to; k++) {
			less += v[k] < v[i];
			same += v[k] == v[i];
		}
		if (less <= place && place < less + same)
			return v[i];
	}
}

/* Mann and Whitney's z of a split before step i, from all pairs. */
static double pairs_z(const struct series *s, size_t i)
{
	double n = (double)s->m, k = (double)i, u = 0, ties = 0;
	for (size_t a = 0; a < s->m; a++)
		for (size_t b = 0; b < s->m; b++) {
			if (a >= i && b < i)
				u += s->v[a] > s->v[b] ? 1 : s->v[a] == s->v[b] ? 0.5 : 0;
			/* sum of t^2 - 1 over steps, which is t^3 - t over groups */
			for (size_t c = 0; c < s->m; c++)
				ties += s->v[a] == s->v[b] && s->v[a] == s->v[c];
		}
	double variance = (n - k) * k / 12 * (n + 1 - (ties - n) / (n * (n - 1)));
	double off = fabs(u - (n - k) * k / 2) - 0.5;
	return off > 0 ? off / sqrt(variance) : 0;
}

static double explains(double n_a, double a, double n_b, double b)
{
	return n_a * n_b / (n_a + n_b) * (a - b) * (a - b);
}

static double split_explains(const struct series *s, size_t i)
{
	return explains((double)i, mean_of(s->v, 0, i), (double)(s->m - i), mean_of(s->v, i, s->m));
}

static bool may_split(const struct series *s, const struct change_spec *spec, size_t i)
{
	return i >= CHANGE_STEPS_MIN && i + CHANGE_STEPS_MIN <= s->m && s->at[i] >= spec->from;
}

static void want_split(const struct series *s, const struct change_spec *spec, struct change *c)
{
	size_t at = s->m, tried = 0, best = s->m;
	for (size_t i = 0; i < s->m; i++) {
		if (!may_split(s, spec, i))
			continue;
		tried++;
		if (at == s->m || pairs_z(s, i) >= pairs_z(s, at)) /* the last of equal ones */
			at = i;
	}
	if (!tried)
		return;
	c->p = fmin(1, stats_normal_p(pairs_z(s, at)) * (double)tried);
	for (size_t i = 0; i < s->m; i++)
		if (may_split(s, spec, i) && i + MOVED >= at && i <= at + MOVED &&
		    (best == s->m || split_explains(s, i) > split_explains(s, best)))
			best = i;
	double before = mean_of(s->v, 0, best), after = mean_of(s->v, best, s->m),
	       middle = quantile_of(s->v, best, s->m, 0.5), high = quantile_of(s->v, 0, best, 0.9),
	       low = quantile_of(s->v, 0, best, 0.1);
	c->begin = s->at[best];
	c->inside = after;
	c->outside = before;
	c->explained = split_explains(s, best);
	if (fabs(after - before) < spec->least || fabs(middle - before) < spec->least ||
	    fmax(after, before) < CHANGE_RATIO * fmin(after, before))
		return;
	if (after > before && middle > high)
		c->kind = CHANGE_MORE;
	if (after < before && middle < low)
		c->kind = CHANGE_LESS;
}

/* The steps above a level, if they are one run in the range around the first highest. */
static bool one_run(const struct series *s, const struct change_spec *spec, double level,
		    size_t top, size_t *begin, size_t *end)
{
	size_t above = 0;
	*begin = *end = top;
	while (*begin && s->v[*begin - 1] > level && s->at[*begin - 1] >= spec->from)
		--*begin;
	while (*end < s->m && s->v[*end] > level)
		++*end;
	for (size_t i = 0; i < s->m; i++)
		above += s->v[i] > level;
	return above == *end - *begin;
}

static void want_burst(const struct series *s, const struct change_spec *spec, struct change *c)
{
	size_t top = s->m, in_range = 0, begin, end;
	for (size_t i = 0; i < s->m; i++) {
		if (s->at[i] < spec->from)
			continue;
		in_range++;
		top = top == s->m || s->v[i] > s->v[top] ? i : top;
	}
	if (!in_range)
		return;
	double level = (quantile_of(s->v, 0, s->m, 0.5) + s->v[top]) / 2;
	if (s->v[top] <= level) /* as all others */
		return;
	bool one = one_run(s, spec, level, top, &begin, &end);
	size_t n = end - begin, others = s->m - n;
	if (!one || 2 * n > in_range || others < CHANGE_STEPS_MIN)
		return;
	double in = mean_of(s->v, begin, end),
	       out = (mean_of(s->v, 0, s->m) * (double)s->m - in * (double)n) / (double)others;
	if (in - out < spec->least_burst || in < CHANGE_BURST_RATIO * out)
		return;
	double good = explains((double)n, in, (double)others, out);
	if (c->kind != CHANGE_NONE && good < 0.999 * c->explained)
		return;
	c->kind = end == s->m ? CHANGE_MORE : CHANGE_BURST;
	c->begin = s->at[begin];
	c->end = s->at[end - 1] + 1;
	c->inside = in;
	c->outside = out;
	c->explained = good;
	c->p = fmin(1, stats_rate_p((uint64_t)(in * (double)n * spec->per_step), (double)n,
				    (uint64_t)(out * (double)others * spec->per_step),
				    (double)others) *
			       (double)s->m);
}

/* ---- random series ---- */

/* A level, another one from some step on, and a burst: each is there or not. */
static void draw_series(struct series *s)
{
	double low = draw(5) / 8.0, shift = draw(2) ? (draw(17) - 8.0) / 8 : 0,
	       burst = draw(2) ? draw(17) / 8.0 : 0;
	uint32_t noise = 1 + draw(4), gaps = draw(3) ? 0 : 1 + draw(6);
	s->n = draw(STEPS_MAX + 1);
	s->m = 0;
	size_t split = draw((uint32_t)s->n + 2), begin = draw((uint32_t)s->n + 2),
	       end = begin + draw(6);
	for (size_t i = 0; i < s->n; i++) {
		double r = low + (i >= split ? shift : 0) + (i >= begin && i < end ? burst : 0) +
			   draw(noise) / 8.0;
		s->rate[i] = gaps && !draw(gaps + 1) ? NAN : fmax(r, 0);
		if (isnan(s->rate[i]))
			continue;
		s->at[s->m] = i;
		s->v[s->m++] = s->rate[i];
	}
}

static void check(const struct series *s, const struct change_spec *spec, const struct change *want)
{
	struct change c;
	assert_int_equal(change_find(&c, s->rate, s->n, spec), 0);
	bool same = c.kind == want->kind && c.begin == want->begin && c.end == want->end &&
		    near(c.inside, want->inside, 1e-9) && near(c.outside, want->outside, 1e-9) &&
		    near(c.p, want->p, 1e-9) && near(c.explained, want->explained, 1e-9);
	if (same)
		return;
	for (size_t i = 0; i < s->n; i++)
		print_message("%g ", s->rate[i]);
	fail_msg("from %zu, least %g %g: kind %d at %zu to %zu, p %g; want %d at %zu to %zu, p %g",
		 spec->from, spec->least, spec->least_burst, c.kind, c.begin, c.end, c.p,
		 want->kind, want->begin, want->end, want->p);
}

static void rules(void **state)
{
	size_t kinds[4] = { 0 };
	(void)state;
	for (size_t i = 0; i < TRIALS; i++) {
		struct series s;
		draw_series(&s);
		const struct change_spec spec = { .from = draw((uint32_t)s.n + 2),
						  .least = draw(4) / 8.0,
						  .least_burst = (1 + draw(6)) / 8.0,
						  .per_step = 1 + draw(3) * 7 };
		struct change want = { .end = s.n, .p = 1 };
		want_split(&s, &spec, &want);
		want_burst(&s, &spec, &want);
		check(&s, &spec, &want);
		kinds[want.kind]++;
	}
	for (size_t k = 0; k < 4; k++)
		assert_true(kinds[k] > TRIALS / 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(rules) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
