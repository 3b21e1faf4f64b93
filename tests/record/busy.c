/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads for the accounting. busy MODE SECONDS [CPU]; prints the CPU seconds that were used as JSON.
 *   spin      one thread, user mode
 *   syscalls  getppid in a loop, as many as go
 *   deep      a random walk of call chains up to 100 frames deep: nearly every stack is a new one
 *   faults    pages read for the first time: all are the kernel's page of zeros
 *   switches  two threads that wake each other through a pipe
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) void spin_here(void);
void spin_here(void)
{
	for (volatile int i = 0; i < 100000; i++)
		;
}

static unsigned long n_calls;

static void syscalls(void)
{
	for (int i = 0; i < 1000; i++)
		syscall(SYS_getppid);
	n_calls += 1000;
}

/* A path of random turns: 2^depth different stacks. */
static uint64_t seed = 88172645463325252ull;

__attribute__((noinline)) void left(int depth);
__attribute__((noinline)) void right(int depth);

static inline void turn(int depth)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	for (volatile int i = 0; i < 300; i++)
		;
	if (!depth)
		return;
	if (seed & 1)
		left(depth - 1);
	else
		right(depth - 1);
	__asm__ volatile(""); /* no tail call */
}

void left(int depth)
{
	turn(depth);
	__asm__ volatile("nop");
}

void right(int depth)
{
	turn(depth);
	__asm__ volatile("nop; nop");
}

static void deep(void)
{
	left(100);
}

static void faults(void)
{
	size_t n = 64 << 20;
	volatile char *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		exit(1);
	madvise((void *)p, n, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < n; i += 4096)
		p[i];
	munmap((void *)p, n);
	n_calls += n / 4096;
}

static int there[2], back[2];

static void *answer(void *arg)
{
	char c;
	(void)arg;
	while (read(there[0], &c, 1) == 1)
		if (write(back[1], &c, 1) != 1)
			break;
	return NULL;
}

static void switches(void)
{
	static pthread_t t;
	char c = 0;
	if (!n_calls) {
		if (pipe(there) || pipe(back))
			exit(1);
		pthread_create(&t, NULL, answer, NULL);
	}
	for (int i = 0; i < 100; i++)
		if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			exit(1);
	n_calls += 100;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = { { "spin", spin_here },
		      { "syscalls", syscalls },
		      { "deep", deep },
		      { "faults", faults },
		      { "switches", switches } };
	if (argc < 3)
		return 2;
	if (argc > 3) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET((unsigned)atoi(argv[3]), &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(modes[i].name, argv[1]))
			continue;
		double end = now(CLOCK_MONOTONIC) + atof(argv[2]);
		while (now(CLOCK_MONOTONIC) < end)
			modes[i].run();
		printf("{\"seconds\":%.6f,\"calls\":%lu}\n", now(CLOCK_PROCESS_CPUTIME_ID),
		       n_calls);
		return 0;
	}
	return 2;
}
