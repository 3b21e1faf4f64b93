/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mappings N SECONDS: map pieces of this program N times, executable and readable in turns, so that
 * no two of them become one. Then print how many there are, and use CPU time.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

static volatile unsigned long sum;

__attribute__((noinline)) static void burn(double seconds)
{
	const clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
	while (clock() < end)
		for (unsigned i = 0; i < 100000; i++)
			sum += i;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	long n = 0, most = atol(argv[1]);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	for (; n < most; n++) {
		int prot = n % 4 == 3 ? PROT_READ : PROT_READ | PROT_EXEC;
		if (mmap(NULL, PAGE, prot, MAP_PRIVATE, fd, n % 2 * PAGE) == MAP_FAILED)
			break;
	}
	printf("%ld\n", n);
	fflush(stdout);
	burn(atof(argv[2]));
	return 0;
}
