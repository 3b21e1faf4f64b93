/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of `ascribe top`: rates of what its rows count, and how they are written. A rate is
 * CPUs in use, threads that wait, bytes or hits a second; of live memory it is the average itself.
 */
#ifndef ASCRIBE_TOP_NUMBERS_H
#define ASCRIBE_TOP_NUMBERS_H

#include "top/view.h"

#define NUMBER_MAX 80

/* Set the unit of a head by what a query answered. */
void numbers_choose(struct top_head *h, const struct query_info *info, enum query_metric metric);

/* The rate of so many samples, and the 95% interval of that. */
double view_rate(const struct top_view *v, uint64_t samples);
void view_interval(const struct top_view *v, uint64_t samples, double *ret_low, double *ret_high);
/* The samples that a row is ordered by. */
uint64_t view_row_samples(const struct top_view *v, const struct top_row *r);

/* Heads of columns: of rates, of rates with what a function calls, and of samples. */
const char *numbers_rate_head(const struct top_head *h);
const char *numbers_total_head(const struct top_head *h);
const char *numbers_samples_head(const struct top_head *h);

/* Write a rate, its interval, or samples, as the column has them. Return out. */
const char *numbers_rate(const struct top_head *h, double rate, char out[NUMBER_MAX]);
const char *numbers_interval(const struct top_head *h, double low, double high,
			     char out[NUMBER_MAX]);
const char *numbers_samples(const struct top_head *h, uint64_t samples, char out[NUMBER_MAX]);
/* Write what all of it is, with its unit. Return out. */
const char *numbers_all(const struct top_head *h, char out[NUMBER_MAX]);

#endif
