/* SPDX-License-Identifier: Apache-2.0 */
/* Work for the examples: CPU time of the calling thread. */
#ifndef ASCRIBE_EXAMPLES_BURN_H
#define ASCRIBE_EXAMPLES_BURN_H

#include <time.h>

static inline double thread_cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Use the CPU for so long; returns for how long it was. */
static inline double burn(double seconds)
{
	double begin = thread_cpu_s(), now = begin;
	while ((now = thread_cpu_s()) < begin + seconds)
		for (int i = 0; i < 1000; i++)
			__asm__ __volatile__("");
	return now - begin;
}

#endif
