/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ASCRIBE_HTTP_CLOCK_H
#define ASCRIBE_HTTP_CLOCK_H

#include <stdint.h>
#include <time.h>

#define HTTP_NS 1000000000ull

static inline uint64_t http_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * HTTP_NS + (uint64_t)t.tv_nsec;
}

#endif
