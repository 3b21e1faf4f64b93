/* SPDX-License-Identifier: Apache-2.0 */
/* Durations and points in time as people write them. */
#ifndef ASCRIBE_UTIL_TIMES_H
#define ASCRIBE_UTIL_TIMES_H

#include <stdint.h>

/*
 * "10s", "2m", "500ms", "1m30s", "1.5h", "10 minutes"; units ns us ms s m h d w, and the names of s
 * to w (sec, min, hour, days, ...). A bare number is seconds. More than 0, and less than 292 years.
 * -EINVAL, -ERANGE.
 */
int times_duration(const char *text, int64_t *ret_ns);

/*
 * RFC 3339 ("2026-05-01T10:00:00Z", "...+02:00", fractions; a space for the T). Local time
 * ("2026-05-01 10:00:00", "2026-05-01 10:00", "2026-05-01", "14:05": the last time that the clock
 * showed it). Epoch seconds ("1777629600", "1777629600.5"); "now", "now-1h"; a duration before now
 * ("-1h", "1h", "10 minutes ago"). -EINVAL, -ERANGE.
 */
int times_parse(const char *text, int64_t now_ns, int64_t *ret_ns);

#endif
