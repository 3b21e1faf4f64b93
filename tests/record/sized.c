/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows the sums of its arguments. sized CALLS MS: one call; after so many milliseconds two
 * threads, with their number as label `index`, call take() CALLS times with 0, 1, 2, ... bytes,
 * index + 1 times as many. Each call passes sized:taken with that number as arguments of all forms:
 *
 *   1 register   2 memory, signed, 4 bytes   3 constant 7   4 an array's element, 8 bytes
 *   5 negative   6 memory that is not there   7 floating point   8 of 3 bytes   9 a symbol
 */
#include "static_probe.h"

#include <ascribe/label.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long n_calls;
static long *volatile nowhere = (long *)16;

#if defined(__x86_64__)
#define NO_INTEGERS "8f@%%xmm0 3@%%rax 8@n_calls(%%rip)"
#define CONSTANT "4@$7"
#else
#define NO_INTEGERS "8f@d0 3@x0 8@n_calls"
#define CONSTANT "4@7"
#endif

__attribute__((noinline)) void take(long unused, unsigned long bytes);
void take(long unused, unsigned long bytes)
{
	volatile int narrow = (int)bytes;
	long array[8] = { 0 };
	long at = unused & 7;
	long *pointer = nowhere;
	array[at] = (long)bytes;
	STATIC_PROBE("sized", "taken", "0", "8@%0 -4@%1 " CONSTANT " 8@%2 -4@%3 8@%4 " NO_INTEGERS,
		     "r"(bytes), "m"(narrow), "m"(array[at]), "r"(-3), "m"(*pointer));
}

static void *run(void *index)
{
	struct ascribe_scope scope;
	ascribe_attach_int(&scope, "index", (long)index);
	for (long i = 0; i < n_calls; i++)
		take(i, (unsigned long)(i * ((long)index + 1)));
	ascribe_detach(&scope);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[2];
	n_calls = argc > 1 ? atol(argv[1]) : 100;
	take(0, 0);
	usleep(argc > 2 ? (useconds_t)atol(argv[2]) * 1000 : 0);
	for (long i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, run, (void *)i);
	for (long i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("%ld\n", n_calls * (n_calls - 1) / 2);
	return 0;
}
