/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that comes and goes while it is sampled, built without frame pointers. changes KIND SECONDS
 * ARGUMENT..., seconds of CPU:
 *
 *   dlopen SECONDS LIBRARY...   load each in turn, call its burn(seconds) from by_dlopen
 *   jit SECONDS                 make code in a new mapping each 20 ms; it calls leaf
 *   exec SECONDS PROGRAM...     burn in before_exec, then exec PROGRAM exec SECONDS with the other
 *                               programs
 *   run SECONDS                 burn in leaf
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile unsigned long sink;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

NOINLINE static void leaf(double until)
{
	while (now() < until)
		for (int i = 0; i < 5000; i++)
			sink += sink * 7 + (unsigned)i;
	sink++;
}

NOINLINE static int by_dlopen(const char *path, double seconds)
{
	void *lib = dlopen(path, RTLD_NOW);
	void (*burn)(double) = lib ? (void (*)(double))dlsym(lib, "burn") : NULL;
	if (!burn) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	burn(seconds);
	return 0;
}

/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };

static double until;

static void called(void)
{
	leaf(until);
	sink++;
}

NOINLINE static int by_jit(double seconds)
{
	for (double end = now() + seconds; now() < end;) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);
		if (p == MAP_FAILED)
			return 1;
		memcpy(p, code, sizeof(code));
		if (mprotect(p, 4096, PROT_READ | PROT_EXEC))
			return 1;
		until = now() + 0.02;
		((void (*)(void (*)(void)))p)(called);
	}
	return 0;
}

NOINLINE static void before_exec(double seconds)
{
	leaf(now() + seconds);
	sink++;
}

int main(int argc, char **argv)
{
	int rc = 0;
	if (argc < 3)
		return 2;
	double seconds = atof(argv[2]);
	if (!strcmp(argv[1], "dlopen")) {
		for (int i = 3; i < argc && !rc; i++)
			rc = by_dlopen(argv[i], seconds);
	} else if (!strcmp(argv[1], "jit")) {
		rc = by_jit(seconds);
	} else if (!strcmp(argv[1], "exec")) {
		before_exec(seconds);
		if (argc > 3) {
			char *next = argv[3];
			for (int i = 3; i < argc; i++)
				argv[i] = argv[i + 1];
			argv[0] = next;
			execv(next, argv);
			return 1;
		}
	} else {
		leaf(now() + seconds);
	}
	sink++;
	return rc;
}
