/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether two counts differ by more than chance. Samples are taken as independent draws: whoever
 * has bursts (one thread of many windows) sees somewhat more "changes" than the stated rate.
 */
#ifndef ASCRIBE_QUERY_STATS_H
#define ASCRIBE_QUERY_STATS_H

#include <stddef.h>
#include <stdint.h>

#define STATS_P_MIN 1e-30 /* smaller p-values are given as this */

/*
 * k1 of n1 beside k2 of n2, k <= n: the two-sided p-value for "the same share". Fisher's exact
 * test: the sum of all tables with these margins that are no more likely. The pooled two-proportion
 * z test stands in where each expected count is at least 10,000 and the two agree. 1 when a side is
 * empty.
 */
double stats_share_p(uint64_t k1, uint64_t n1, uint64_t k2, uint64_t n2);

/* The smallest p-value that counts with these margins can give, k = k1 + k2. */
double stats_share_least_p(uint64_t k, uint64_t n1, uint64_t n2);

/*
 * k1 events in exposure e1 beside k2 in e2 (time, or any measure > 0): the two-sided p-value for
 * "the same rate". Given k1 + k2, k1 is binomial with share e1 / (e1 + e2) then: exact, or by z, as
 * above. 1 when there is no exposure.
 */
double stats_rate_p(uint64_t k1, double e1, uint64_t k2, double e2);
double stats_rate_least_p(uint64_t k, double e1, double e2);

/* The two-sided p-value of z standard deviations of the normal distribution. */
double stats_normal_p(double z);

/*
 * Benjamini and Hochberg: from p[n] the q[n] with which taking all tests of q <= x for real makes
 * at most a share x of them wrong, on average. -ENOMEM.
 */
int stats_adjust(const double *p, size_t n, double *q);

/* z of the 95% interval: the 97.5% quantile of the normal distribution. */
#define STATS_Z95 1.959963984540054
/* The z that a normal variable is above with chance p, 1e-15 <= p <= 0.5. */
double stats_normal_z(double p);

/*
 * Interval of k1/n1 - k2/n2, z standard deviations to each side: Newcombe's, from the Wilson
 * intervals of both (his method 10). [-1, 1] when a side is empty.
 */
void stats_change_interval(uint64_t k1, uint64_t n1, uint64_t k2, uint64_t n2, double z,
			   double *ret_low, double *ret_high);

/*
 * The low end of that interval of (k1 / e1) / (k2 / e2), for events in exposures as above: from
 * Wilson's of k1 in k1 + k2. INFINITY when it has no bound; 0 when there is no exposure.
 */
double stats_rate_ratio_low(uint64_t k1, double e1, uint64_t k2, double e2, double z);

#endif
