/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ASCRIBE_UTIL_CLOCK_H
#define ASCRIBE_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Read a clock, in nanoseconds. 0: there is no such clock. */
static inline uint64_t clock_ns(clockid_t id)
{
	struct timespec t = { 0 };
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
