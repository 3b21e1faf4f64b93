/* SPDX-License-Identifier: Apache-2.0 */
#include "query/holder.h"

#include <string.h>

const char *const holder_waits_keys[2] = { "wait_in", "wait" };
const char *const holder_wakers_keys[2] = { "by.comm", QUERY_WAKER_FUNCTION };

static bool is_lock(const struct query_table_row *r)
{
	return !r->other && !strcmp(r->values[1], "lock");
}

static bool is_of(const struct query_table_row *r, const char *module)
{
	return !r->other && r->module && !strcmp(r->module, module);
}

/* The time of the waits for locks in a function, or in all of them. */
static double waited(const struct query_table *t, const char *function)
{
	double sum = 0;
	for (size_t i = 0; i < t->n_rows; i++)
		if (is_lock(&t->rows[i]) && (!function || !strcmp(t->rows[i].values[0], function)))
			sum += (double)t->rows[i].samples;
	return sum;
}

/* The time that a function of a program ended, or all of them. */
static double ended(const struct query_table *t, const char *module, const char *function)
{
	double sum = 0;
	for (size_t i = 0; i < t->n_rows; i++)
		if (is_of(&t->rows[i], module) &&
		    (!function || !strcmp(t->rows[i].values[1], function)))
			sum += (double)t->rows[i].samples;
	return sum;
}

const struct query_table_row *query_holder(const struct query_table *waits,
					   const struct query_table *wakers)
{
	const struct query_table_row *found = NULL, *first = NULL;
	double most = HOLDER_LEAST, all = waited(waits, NULL);
	for (size_t i = 0; !first && i < waits->n_rows; i++)
		if (is_lock(&waits->rows[i]) && waits->rows[i].module)
			first = &waits->rows[i];
	double all_ended = first ? ended(wakers, first->module, NULL) : 0;
	if (!(all > 0) || !(all_ended > 0))
		return NULL;
	for (size_t i = 0; i < wakers->n_rows && i < HOLDER_ROWS; i++) {
		const struct query_table_row *r = &wakers->rows[i];
		if (!is_of(r, first->module))
			continue;
		double over = ended(wakers, first->module, r->values[1]) / all_ended -
			      waited(waits, r->values[1]) / all;
		if (over <= most)
			continue;
		most = over;
		found = r;
	}
	return found;
}
