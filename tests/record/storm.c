/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thousands of short processes a second. storm launch RATE SECONDS: hard links to this program,
 * ./p_0 to ./p_7, are started RATE times a second by vfork and exec. One takes 0 to 0.2 ms of CPU
 * time and exits. Prints how many there were and their CPU seconds. Linked statically, so that an
 * exec costs little.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COPIES 8
#define AT_ONCE 8 /* children that run */

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void start(unsigned n)
{
	char path[16];
	snprintf(path, sizeof(path), "./p_%u", n % COPIES);
	pid_t child = vfork();
	if (!child) {
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	if (child < 0)
		exit(1);
}

static int launch(const char *self, double rate, double seconds)
{
	unsigned started = 0, ended = 0;
	int status, failed = 0;
	for (unsigned i = 0; i < COPIES; i++) {
		char path[16];
		snprintf(path, sizeof(path), "./p_%u", i);
		if (link(self, path) && errno != EEXIST)
			return 1;
	}
	double begin = now(CLOCK_MONOTONIC);
	while (now(CLOCK_MONOTONIC) < begin + seconds || ended < started) {
		bool due = now(CLOCK_MONOTONIC) < begin + seconds &&
			   started < rate * (now(CLOCK_MONOTONIC) - begin);
		if (due && started - ended < AT_ONCE) {
			start(started++);
		} else if (started > ended) {
			ended += wait(&status) > 0;
			failed += !WIFEXITED(status) || WEXITSTATUS(status);
		} else {
			usleep(100);
		}
	}
	struct rusage u;
	getrusage(RUSAGE_CHILDREN, &u);
	printf("{\"processes\":%u,\"seconds\":%.3f}\n", started,
	       (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
	return failed != 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "launch"))
		return launch(argv[0], atof(argv[2]), atof(argv[3]));
	double end = now(CLOCK_PROCESS_CPUTIME_ID) + 1e-6 * (getpid() % 200);
	while (now(CLOCK_PROCESS_CPUTIME_ID) < end)
		;
	return 0;
}
