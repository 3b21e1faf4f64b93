/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is busy for a while and then sleeps: bursts SECONDS SEED. Bursts take 20 to 400
 * ms, pauses 100 to 500 ms. Prints for each burst when it began and ended, in ns of realtime, and
 * the CPU ns that it took; when the pause before it began, and its ns.
 */
#include <inttypes.h>
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

static uint64_t draw(uint64_t *random, uint64_t from, uint64_t to)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return from + (*random >> 33) % (to - from);
}

__attribute__((noinline)) static void burst_of_work(uint64_t until_ns)
{
	while (now_ns(CLOCK_REALTIME) < until_ns)
		for (volatile int i = 0; i < 300; i++)
			;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	uint64_t random = strtoull(argv[2], NULL, 0),
		 end = now_ns(CLOCK_REALTIME) + (uint64_t)(atof(argv[1]) * 1e9);
	while (now_ns(CLOCK_REALTIME) < end) {
		uint64_t pause = draw(&random, 100, 500) * 1000000, begin, used,
			 paused = now_ns(CLOCK_REALTIME);
		nanosleep(&(struct timespec){ .tv_nsec = (long)pause }, NULL);
		begin = now_ns(CLOCK_REALTIME);
		used = now_ns(CLOCK_THREAD_CPUTIME_ID);
		burst_of_work(begin + draw(&random, 20, 400) * 1000000);
		used = now_ns(CLOCK_THREAD_CPUTIME_ID) - used;
		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", begin,
		       now_ns(CLOCK_REALTIME), used, paused, pause);
		fflush(stdout);
	}
	return 0;
}
