/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod's program: it computes for a fifth of the time, in a function that profiles can name.
 *   workload [BUSY_MS REST_MS [SECONDS [STATUS]]]: so long, then rests so long; it ends with STATUS
 *   after SECONDS (0: never). Its name is that of $COMM.
 * KIND "private": it becomes a copy in /scratch that only its owner may read; "deleted": a copy
 * that is deleted once it runs. Each kind has a build id of its own: no name comes from another's
 * file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <time.h>
#include <unistd.h>

#ifndef KIND
#define KIND "open"
#endif

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

static void become_copy(const char *name)
{
	char path[64];
	snprintf(path, sizeof(path), "/scratch/%s", name);
	int from = open("/proc/self/exe", O_RDONLY);
	int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
	while (sendfile(to, from, NULL, 1 << 20) > 0)
		;
	close(to);
	execl(path, path, NULL);
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	_exit(1);
}

static double argument(char **argv, int argc, int i, double other)
{
	return i < argc ? atof(argv[i]) : other;
}

int main(int argc, char **argv)
{
	if (strcmp(KIND, "open") && strncmp(argv[0], "/scratch/", 9))
		become_copy(KIND);
	if (!strcmp(KIND, "deleted"))
		unlink(argv[0]);
	if (getenv("COMM"))
		prctl(PR_SET_NAME, getenv("COMM"));
	const double busy = argument(argv, argc, 1, 20) / 1e3;
	const double rest = argument(argv, argc, 2, 80) / 1e3;
	const double seconds = argument(argv, argc, 3, 0);
	const time_t whole = (time_t)rest;
	const struct timespec pause = { whole, (long)((rest - (double)whole) * 1e9) };
	for (double end = now() + seconds; !seconds || now() < end;) {
		turn_the_wheel(busy);
		nanosleep(&pause, NULL);
	}
	return (int)argument(argv, argc, 4, 0);
}
