/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaks TENANTS LEAKER KIB SECONDS: each thread, with its number as label `tenant`, holds 4 to
 * 12 MiB in blocks that it replaces at random, 2 MiB of them a second. LEAKER also allocates KIB
 * KiB a second in leak(), and keeps them.
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
#define TURNS 20 /* a second */

static long leaker, kib, seconds;

struct kept {
	struct kept *next;
	char bytes[1024 - sizeof(void *)];
};

__attribute__((noinline)) struct kept *leak(struct kept *to);
struct kept *leak(struct kept *to)
{
	struct kept *k = malloc(sizeof(*k));
	if (k) {
		k->next = to;
		memset(k->bytes, 1, sizeof(k->bytes));
	}
	return k ? k : to;
}

static void *run(void *index)
{
	const long me = (long)index;
	const size_t n = ((size_t)4 << 20) / BLOCK * (size_t)(1 + me % 3);
	void **block = calloc(n, sizeof(*block));
	struct kept *kept = NULL;
	struct ascribe_scope scope;
	unsigned random = (unsigned)me + 1;
	ascribe_attach_int(&scope, "tenant", me);
	for (size_t i = 0; block && i < n; i++)
		block[i] = malloc(BLOCK);
	for (long turn = 0; block && turn < seconds * TURNS; turn++) {
		for (size_t i = 0; i < ((size_t)2 << 20) / BLOCK / TURNS; i++) {
			random = random * 1103515245 + 12345;
			void **b = &block[(random >> 8) % n];
			free(*b);
			*b = malloc(BLOCK);
		}
		for (long i = 0; me == leaker && i < kib / TURNS; i++)
			kept = leak(kept);
		usleep(1000000 / TURNS);
	}
	ascribe_detach(&scope);
	return kept;
}

int main(int argc, char **argv)
{
	pthread_t thread[200];
	const long n = argc > 4 ? atol(argv[1]) : 0;
	if (n < 1 || n > 200)
		return 2;
	leaker = atol(argv[2]);
	kib = atol(argv[3]);
	seconds = atol(argv[4]);
	for (long i = 0; i < n; i++)
		pthread_create(&thread[i], NULL, run, (void *)i);
	for (long i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
