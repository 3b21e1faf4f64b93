/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many processes that live for a few milliseconds. short LAUNCH COUNT COPIES [delete]: COPIES
 * copies of this program are made as ./s_<n>, started COUNT times in turn, two at a time. With
 * `delete` a copy goes right after its last start (the program is running by then) and each start
 * has a copy of its own. A copy burns 5-20 ms of CPU in work_<n % 4>. Prints the CPU seconds of all
 * children.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Four functions of the same shape; the volatile differs so that they are not folded into one. */
#define WORK(n) \
	__attribute__((noinline)) void work_##n(double seconds); \
	void work_##n(double seconds) \
	{ \
		double end = cpu() + seconds; \
		while (cpu() < end) \
			for (volatile int i = n; i < 20000; i++) \
				; \
	}
WORK(0)
WORK(1)
WORK(2)
WORK(3)

static int live(int n)
{
	void (*const work[])(double) = { work_0, work_1, work_2, work_3 };
	unsigned seed = (unsigned)n;
	work[n % 4](0.005 + 0.015 * rand_r(&seed) / RAND_MAX);
	return 0;
}

static void copy_self(const char *to)
{
	struct stat st;
	int in = open("/proc/self/exe", O_RDONLY),
	    out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	off_t at = 0;
	if (in < 0 || out < 0 || fstat(in, &st)) {
		perror(to);
		exit(1);
	}
	while (at < st.st_size)
		if (sendfile(out, in, &at, (size_t)(st.st_size - at)) <= 0)
			exit(1);
	close(in);
	close(out);
}

static void start(const char *path, int n)
{
	char number[16];
	snprintf(number, sizeof(number), "%d", n);
	pid_t p = vfork();
	if (p < 0)
		exit(1);
	if (!p) {
		execl(path, path, number, (char *)NULL);
		_exit(errno == ETXTBSY ? 126 : 127);
	}
}

static void wait_one(void)
{
	int status;
	if (wait(&status) < 0 || status) {
		fprintf(stderr, "a child failed: %d\n", status);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	char path[32];
	struct rusage u;
	if (argc == 2)
		return live(atoi(argv[1]));
	if (argc < 4)
		return 2;
	int count = atoi(argv[2]), copies = atoi(argv[3]);
	bool delete = argc > 4;
	for (int i = 0; i < copies && !delete; i++) {
		snprintf(path, sizeof(path), "./s_%d", i);
		copy_self(path);
	}
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "./s_%d", i % copies);
		if (i >= 2)
			wait_one();
		if (delete) {
			unlink(path);
			copy_self(path);
		}
		start(path, i); /* vfork: the exec has happened when this returns */
		if (delete)
			unlink(path);
	}
	for (int i = 0; i < 2; i++)
		wait_one();
	getrusage(RUSAGE_CHILDREN, &u);
	printf("{\"seconds\":%.6f}\n",
	       (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
	return 0;
}
