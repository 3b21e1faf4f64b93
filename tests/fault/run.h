/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a fault test does: the size of `make test-all`, of which `make test` takes a part
 * (part.h), or that of `make reliability-full`; and work shared among processes.
 */
#ifndef TESTS_FAULT_RUN_H
#define TESTS_FAULT_RUN_H

#include "part.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline bool run_full(void)
{
	return getenv("ASCRIBE_FAULT_FULL") != NULL;
}

static inline size_t run_size(size_t usual, size_t full)
{
	return run_full() ? full : usual;
}

/*
 * The step of a sweep: one failure in so many. Sanitizers are slow and look for other things, so
 * they take one in four of these.
 */
static inline size_t run_step(size_t usual, size_t full)
{
#ifdef __SANITIZE_ADDRESS__
	usual *= 4;
#endif
	return run_size(usual, full);
}

/*
 * Where a sample begins that cannot be all: another place each day, so that all of it is looked at
 * in time. ASCRIBE_FAULT_SEED repeats a run.
 */
static inline size_t run_offset(size_t below)
{
	const char *seed = getenv("ASCRIBE_FAULT_SEED");
	size_t n = seed ? strtoul(seed, NULL, 10) : (size_t)time(NULL) / 86400;
	return n * 7919 % below;
}

static inline double run_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/*
 * Are n random cases enough? Usually `usual` are. ASCRIBE_FAULT_SECONDS asks for as many as fit
 * into that time.
 */
static inline bool run_enough(size_t n, size_t usual, double begin)
{
	const char *seconds = getenv("ASCRIBE_FAULT_SECONDS");
	return seconds ? run_seconds() - begin > strtod(seconds, NULL) : n >= usual;
}

/* Memory that processes share. */
static inline void *run_shared(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

/*
 * work(ctx, k, n) in n processes, k from 0 to n - 1, as many as there are CPUs; how many of them
 * ended badly.
 */
static inline int run_parallel(void (*work)(void *ctx, size_t k, size_t n), void *ctx)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t n = cpus < 1 ? 1 : cpus > 8 ? 8 : (size_t)cpus;
	pid_t child[8];
	int bad = 0;
	fflush(NULL);
	for (size_t k = 0; k < n; k++) {
		child[k] = fork();
		if (!child[k]) {
			work(ctx, k, n);
			_exit(0);
		}
	}
	for (size_t k = 0; k < n; k++) {
		int status;
		bad += child[k] < 0 || waitpid(child[k], &status, 0) != child[k] || status != 0;
	}
	return bad;
}

#endif
