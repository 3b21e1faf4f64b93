/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose work repeats with a clock: periodic PERIOD_NS SHARE SECONDS CPU. In each period
 * of CLOCK_MONOTONIC the first SHARE is spent in first_part, the rest in second_part. Prints the
 * CPU seconds that each took, by the thread's CPU clock.
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#define PART(name, spins) \
	__attribute__((noinline)) void name(uint64_t until_ns); \
	void name(uint64_t until_ns) \
	{ \
		while (now_ns(CLOCK_MONOTONIC) < until_ns) \
			for (volatile int i = 0; i < (spins); i++) \
				; \
	}
PART(first_part, 300)
PART(second_part, 301)

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	uint64_t period_ns = strtoull(argv[1], NULL, 0),
		 first_ns = (uint64_t)((double)period_ns * atof(argv[2]));
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(atoi(argv[4]), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		return 1;
	uint64_t used[2] = { 0 }, then = now_ns(CLOCK_THREAD_CPUTIME_ID),
		 now = now_ns(CLOCK_MONOTONIC);
	uint64_t begin = now - now % period_ns, end = now + (uint64_t)(atof(argv[3]) * 1e9);
	for (; begin < end; begin += period_ns)
		for (int part = 0; part < 2; part++) {
			if (part)
				second_part(begin + period_ns);
			else
				first_part(begin + first_ns);
			now = now_ns(CLOCK_THREAD_CPUTIME_ID);
			used[part] += now - then;
			then = now;
		}
	printf("{\"first\":%.6f,\"second\":%.6f}\n", (double)used[0] / 1e9, (double)used[1] / 1e9);
	return 0;
}
