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

/*
 * Use the CPU for so long in the mean, half of that at least; returns for how long it was. As real
 * work it differs from time to time: what takes always the same is seen by samples of a fixed
 * frequency always at the same place.
 */
static inline double burn(double seconds)
{
	static __thread unsigned long long state;
	double begin = thread_cpu_s(), now = begin;
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	seconds *= 0.5 + (double)(state >> 33) / (1u << 31);
	while ((now = thread_cpu_s()) < begin + seconds)
		for (int i = 0; i < 1000; i++)
			__asm__ __volatile__("");
	return now - begin;
}

#endif
