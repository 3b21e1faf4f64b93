/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns N OTHER...: spin, then become the first other, which is a copy of this program; N times, in
 * turn. A copy called `long` spins for 10 ms of CPU time, any other for 1 ms.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	char left[16], *next[8] = { NULL };
	int n = argc > 2 && argc < 8 ? atoi(argv[1]) : 0;
	const char *name = strrchr(argv[0], '/');
	long until = cpu_us() + (name && !strcmp(name, "/long") ? 10000 : 1000);
	while (cpu_us() < until)
		;
	if (n <= 0)
		return 0;
	snprintf(left, sizeof(left), "%d", n - 1);
	next[0] = argv[2];
	next[1] = left;
	for (int i = 3; i < argc; i++)
		next[i - 1] = argv[i];
	next[argc - 1] = argv[0];
	execv(next[0], next);
	return 1;
}
