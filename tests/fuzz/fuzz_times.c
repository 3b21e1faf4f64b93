/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: durations and points in time as people write them. A byte chooses the time zone.
 *
 * Covers: util/times.c
 */
#include "fuzz/input.h"
#include "util/times.h"

#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const zones[] = { "UTC", "CET-1CEST,M3.5.0,M10.5.0/3", "XXX+11:30" };
	static uint8_t now_zone = 255;
	struct input in = { data, size };
	uint8_t zone = take_byte(&in) % 3;
	char *text = copy_of(in.p, in.left);
	int64_t ns = 1;
	if (zone != now_zone) {
		setenv("TZ", zones[zone], 1);
		tzset();
		now_zone = zone;
	}
	require(times_duration(text, &ns) || ns > 0);
	times_parse(text, 1777629600000000000, &ns);
	times_parse(text, INT64_MAX, &ns);
	times_parse(text, 0, &ns);
	free(text);
	return 0;
}
