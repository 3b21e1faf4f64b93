/* SPDX-License-Identifier: Apache-2.0 */
/* Durations and points in time as people write them. */
#ifndef ASCRIBE_UTIL_TIMES_H
#define ASCRIBE_UTIL_TIMES_H

#include <stdint.h>

/*
 * "10s", "2m", "500ms", "1m30s", "1.5h"; units ns us ms s m h d w; a bare number is seconds. More
 * than 0, and less than 292 years. -EINVAL, -ERANGE.
 */
int times_duration(const char *text, int64_t *ret_ns);

/*
 * RFC 3339 ("2026-05-01T10:00:00Z", "...+02:00", fractions; a space for the T; without a zone:
 * local time), epoch seconds ("1777629600", "1777629600.5"), "now", "now-1h". now_ns is what `now`
 * means. -EINVAL, -ERANGE.
 */
int times_parse(const char *text, int64_t now_ns, int64_t *ret_ns);

#endif
