/* SPDX-License-Identifier: Apache-2.0 */
/*
 * high_load THREADS: a service of very many label values. Each thread serves requests of half a
 * millisecond of CPU, each with a query id that was never seen before and one of 200 tenants, in
 * one of 32,768 stacks. Ends with its parent.
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 5
#define WORK_NS 500000
#define NOINLINE __attribute__((noinline, noclone))

static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static NOINLINE void work(void)
{
	for (uint64_t until = now() + WORK_NS; now() < until;)
		for (volatile int i = 0; i < 5000; i++)
			;
}

static void call(uint64_t path, unsigned depth);

/* Three bits of the path say which of eight functions is next. */
#define STEP(n) \
	static NOINLINE void step_##n(uint64_t path, unsigned depth) \
	{ \
		call(path, depth); \
		__asm__ __volatile__("" : : : "memory"); \
	}
STEP(0)
STEP(1)
STEP(2)
STEP(3)
STEP(4)
STEP(5)
STEP(6)
STEP(7)

static NOINLINE void call(uint64_t path, unsigned depth)
{
	static void (*const next[8])(uint64_t, unsigned) = { step_0, step_1, step_2, step_3,
							     step_4, step_5, step_6, step_7 };
	if (depth)
		next[path & 7](path >> 3, depth - 1);
	else
		work();
	__asm__ __volatile__("" : : : "memory");
}

static void serve(uint64_t *state)
{
	char query[40], tenant[16];
	snprintf(query, sizeof(query), "%016llx%016llx", (unsigned long long)draw(state),
		 (unsigned long long)draw(state));
	snprintf(tenant, sizeof(tenant), "tenant-%u", (unsigned)(draw(state) % 200));
	ASCRIBE_LABEL_SCOPE("tenant", tenant);
	ASCRIBE_LABEL_SCOPE("query_id", query);
	call(draw(state), DEPTH);
}

static void *run(void *arg)
{
	uint64_t state = (uint64_t)getpid() << 32 | (uintptr_t)arg;
	for (;;)
		serve(&state);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	for (int i = 1; i < (argc > 1 ? atoi(argv[1]) : 2); i++)
		if (pthread_create(&thread, NULL, run, (void *)(uintptr_t)i))
			return 1;
	run(NULL);
	return 0;
}
