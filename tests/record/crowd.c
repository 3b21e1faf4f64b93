/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flood for budgets: crowd SECONDS. Threads of four tenants run through ever other chains of
 * calls, sleep now and then, and have ever other requests as a second label. At the end the CPU
 * seconds of each tenant come as JSON.
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TENANTS 4
#define DEPTH 40

static double limit, spent[TENANTS];

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t step(uint64_t path, int depth);

#define CALL(n) \
	__attribute__((noinline)) static uint64_t call_##n(uint64_t path, int depth) \
	{ \
		volatile uint64_t sum = step(path * 6364136223846793005u + n, depth - 1); \
		return sum + n; \
	}
/* clang-format off */
CALL(0) CALL(1) CALL(2) CALL(3) CALL(4) CALL(5) CALL(6) CALL(7)
	/* clang-format on */

	__attribute__((noinline)) static uint64_t step(uint64_t path, int depth)
{
	static uint64_t (*const call[])(uint64_t, int) = { call_0, call_1, call_2, call_3,
							   call_4, call_5, call_6, call_7 };
	if (!depth) {
		for (volatile int i = 0; i < 100000; i++)
			;
		return path;
	}
	return call[path >> 61](path, depth) + 1;
}

static void *run(void *arg)
{
	int tenant = (int)(intptr_t)arg;
	char name[16], request[32];
	uint64_t seed = (uint64_t)tenant + 1;
	snprintf(name, sizeof(name), "tenant%d", tenant);
	struct ascribe_scope outer;
	ascribe_attach_string(&outer, "tenant", name);
	while (now(CLOCK_MONOTONIC) < limit) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		struct ascribe_scope scope;
		snprintf(request, sizeof(request), "%llx", (unsigned long long)seed >> 54);
		ascribe_attach_string(&scope, "request", request);
		step(seed, DEPTH);
		if (!(seed >> 61))
			usleep(1500);
		ascribe_detach(&scope);
	}
	ascribe_detach(&outer);
	spent[tenant] = now(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[TENANTS];
	limit = now(CLOCK_MONOTONIC) + (argc > 1 ? atof(argv[1]) : 10);
	for (intptr_t i = 0; i < TENANTS; i++)
		if (pthread_create(&thread[i], NULL, run, (void *)i))
			return 1;
	for (int i = 0; i < TENANTS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < TENANTS; i++)
		printf("%s\"tenant%d\": %.3f", i ? ", " : "{", i, spent[i]);
	puts("}");
	return 0;
}
