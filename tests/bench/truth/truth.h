/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that knows its own truth: PROGRAM TRIALS MILLISECONDS FIRST. Its thread is called
 * truth.N in each trial, N counting from FIRST, for MILLISECONDS of its CPU time. Then it prints
 *
 *   truth.N THREE ONE ALL
 *
 * CPU seconds in three(), in one() and of the trial, by the thread's clock. Turns have random
 * lengths, and are shorter than a sampling period. A program includes this file, and defines by(),
 * which calls the function that it gets.
 */
#ifndef TRUTH_H
#define TRUTH_H

#ifndef THREE /* what a program has elsewhere, as in a library */
#include "parts.h"
#define THREE three
#define ONE one
#endif

#ifdef NO_LABELS
#define LABEL(value)
#elif defined(__cplusplus)
#include <ascribe/label.hpp>
#define LABEL(value) ascribe::scope label("part", value)
#else
#include <ascribe/label.h>
#define LABEL(value) ASCRIBE_LABEL_SCOPE("part", value)
#endif

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

typedef void part_fn(unsigned n);

#ifdef __cplusplus
static void by(part_fn *part, unsigned n);
#else
static NOINLINE void by(part_fn *part, unsigned n);
#endif

static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static __thread double took[2]; /* by three() and one() in this trial */

static NOINLINE void timed_three(unsigned n)
{
	const double begin = cpu();
	THREE(n); /* calls three */
	took[0] += cpu() - begin;
}

static NOINLINE void timed_one(unsigned n)
{
	const double begin = cpu();
	ONE(n); /* calls one */
	took[1] += cpu() - begin;
}

static NOINLINE void run(unsigned n)
{
	{
		LABEL("three");
		by(timed_three, 3 * n);
	}
	{
		LABEL("one");
		by(timed_one, n);
	}
	sink = sink + 1; /* no tail call */
}

static NOINLINE void trials(char **argv)
{
	const int n = atoi(argv[1]), first = atoi(argv[3]);
	const double seconds = atof(argv[2]) / 1e3;
	unsigned state = (unsigned)first + 1;
	for (int i = first; i < first + n; i++) {
		char name[16];
		took[0] = took[1] = 0;
		snprintf(name, sizeof(name), "truth.%d", i);
		prctl(PR_SET_NAME, name);
		const double begin = cpu();
		while (cpu() - begin < seconds)
			run(20 + (unsigned)rand_r(&state) % 80);
		const double all = cpu() - begin;
		prctl(PR_SET_NAME, "rest");
		printf("%s %.9f %.9f %.9f\n", name, took[0], took[1], all);
	}
	fflush(stdout);
}

#ifndef NO_MAIN
int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	trials(argv);
	sink = sink + 1; /* no tail call */
	return 0;
}
#endif

#endif
