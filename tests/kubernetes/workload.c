/* SPDX-License-Identifier: Apache-2.0 */
/* A pod's program: it computes for a fifth of the time, in a function that profiles can name. */
#include <time.h>

static volatile unsigned long sum;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) void turn_the_wheel(double seconds)
{
	for (double end = now() + seconds; now() < end;)
		for (int i = 0; i < 10000; i++)
			sum += (unsigned long)i;
}

int main(void)
{
	const struct timespec rest = { .tv_nsec = 80000000 };
	for (;;) {
		turn_the_wheel(0.02);
		nanosleep(&rest, NULL);
	}
}
