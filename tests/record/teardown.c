/* SPDX-License-Identifier: Apache-2.0 */
/*
 * teardown MIB N: N children of a process of so much memory that end at once. What they use the CPU
 * for is giving up its pages. Prints {"tgid": own, "seconds": CPU of the children by their rusage}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	size_t size = argc == 3 ? (size_t)atoi(argv[1]) << 20 : 0;
	char *p =
		size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
		     : MAP_FAILED;
	struct rusage u;
	if (p == MAP_FAILED ||
	    madvise(p, size, MADV_NOHUGEPAGE)) /* many pages are slower to give up than few */
		return 1;
	memset(p, 1, size);
	for (int i = 0; i < atoi(argv[2]); i++) {
		pid_t child = fork();
		if (child < 0)
			return 1;
		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	}
	getrusage(RUSAGE_CHILDREN, &u);
	printf("{\"tgid\": %d, \"seconds\": %.6f}\n", getpid(),
	       (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
}
