/* SPDX-License-Identifier: Apache-2.0 */
/* leaderless MS SECONDS: the first thread ends after MS ms, the second one works until then. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void second_leaf(void)
{
	for (int i = 0; i < 100000; i++)
		sink += sink * 7;
}

static void *second_thread(void *arg)
{
	double end = now() + atof(arg);
	while (now() < end)
		second_leaf();
	exit(0);
}

int main(int argc, char **argv)
{
	pthread_t t;
	if (argc != 3 || pthread_create(&t, NULL, second_thread, argv[2]))
		return 1;
	usleep((useconds_t)atoi(argv[1]) * 1000);
	pthread_exit(NULL);
}
