/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod's program: it computes for a fifth of the time, in a function that profiles can name.
 * KIND "private": it becomes a copy in /scratch that only its owner may read; "deleted": a copy
 * that is deleted once it runs. Each kind has a build id of its own: no name comes from another's
 * file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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

int main(int argc, char **argv)
{
	const struct timespec rest = { .tv_nsec = 80000000 };
	(void)argc;
	if (strcmp(KIND, "open") && strncmp(argv[0], "/scratch/", 9))
		become_copy(KIND);
	if (!strcmp(KIND, "deleted"))
		unlink(argv[0]);
	for (;;) {
		turn_the_wheel(0.02);
		nanosleep(&rest, NULL);
	}
}
