/* SPDX-License-Identifier: Apache-2.0 */
#include "store/file/levels.h"

const struct level levels[N_SEGMENT_LEVELS] = {
	{ "10s", 10 * SECOND_NS, 6 * HOUR_NS },
	{ "1m", MINUTE_NS, 6 * HOUR_NS },
	{ "5m", 5 * MINUTE_NS, DAY_NS },
	{ "20m", 20 * MINUTE_NS, DAY_NS },
	{ "1h", HOUR_NS, WEEK_NS },
	{ "4h", 4 * HOUR_NS, WEEK_NS },
	{ "1d", DAY_NS, 4 * WEEK_NS },
	{ "1w", WEEK_NS, 52 * WEEK_NS },
	{ "4w", 4 * WEEK_NS, 52 * WEEK_NS },
	{ "postings", HOUR_NS, 6 * HOUR_NS },
};

int64_t floor_div(int64_t a, int64_t b)
{
	int64_t q = a / b;
	return q - (a % b < 0);
}

int64_t slot_of(uint8_t level, int64_t t_ns)
{
	return floor_div(t_ns, levels[level].span_ns);
}
