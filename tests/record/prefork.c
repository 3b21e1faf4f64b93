/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that forks its workers: prefork WORKERS MAPPINGS SECONDS. It maps its program MAPPINGS
 * times, executable and apart from each other; each worker burns CPU time for so long. Says how
 * many workers there were.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned sink;

static double now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

__attribute__((noinline)) static void worker_burns(double until)
{
	while (now() < until)
		for (unsigned i = 0; i < 100000; i++)
			sink += i;
	sink++; /* no tail call */
}

int main(int argc, char **argv)
{
	int workers = argc > 3 ? atoi(argv[1]) : 1, mappings = argc > 3 ? atoi(argv[2]) : 1;
	double seconds = argc > 3 ? atof(argv[3]) : 1;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), made = 0;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *room = mmap(NULL, 2 * page * (size_t)(mappings + 1), PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < mappings; i++)
		if (mmap(room + 2 * page * (size_t)i, page, PROT_READ | PROT_EXEC,
			 MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
			return 1;
	double until = now() + seconds;
	for (; made < workers; made++) {
		pid_t child = fork();
		if (child < 0)
			break;
		if (!child) {
			worker_burns(until);
			_exit(0);
		}
	}
	worker_burns(until);
	while (wait(NULL) > 0)
		;
	printf("%d\n", made);
	return 0;
}
