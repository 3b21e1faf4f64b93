/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ASCRIBE_HTTP_CLOCK_H
#define ASCRIBE_HTTP_CLOCK_H

#include "util/clock.h"

#define HTTP_NS 1000000000ull

static inline uint64_t http_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

#endif
