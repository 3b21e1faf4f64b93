/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a context switch costs: bench_switch SECONDS. On each CPU two threads wake each other through pipes, so that nearly all they do is
 * switch. Prints JSON: CPU nanoseconds of these threads for each switch (others on the machine do not count), switches, seconds.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CPUS_MAX 256

static volatile int stop;

struct side {
	int cpu, from, to, first;
	unsigned long switches;
	double cpu_seconds;
};

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *play(void *arg)
{
	struct side *s = arg;
	struct rusage a, b;
	cpu_set_t set;
	char c = 0;
	CPU_ZERO(&set);
	CPU_SET((unsigned)s->cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	getrusage(RUSAGE_THREAD, &a);
	double begin = now(CLOCK_THREAD_CPUTIME_ID);
	if (s->first && write(s->to, &c, 1) != 1)
		return NULL;
	while (!stop && read(s->from, &c, 1) == 1 && write(s->to, &c, 1) == 1)
		;
	s->cpu_seconds = now(CLOCK_THREAD_CPUTIME_ID) - begin;
	getrusage(RUSAGE_THREAD, &b);
	s->switches = (unsigned long)(b.ru_nvcsw - a.ru_nvcsw + b.ru_nivcsw - a.ru_nivcsw);
	close(s->to); /* the other side's read ends */
	return NULL;
}

int main(int argc, char **argv)
{
	static struct side side[2 * CPUS_MAX];
	static pthread_t thread[2 * CPUS_MAX];
	double seconds = argc > 1 ? atof(argv[1]) : 1, cpu = 0;
	unsigned long switches = 0;
	int n = (int)sysconf(_SC_NPROCESSORS_ONLN), ab[2], ba[2];
	if (n > CPUS_MAX)
		n = CPUS_MAX;
	double begin = now(CLOCK_MONOTONIC);
	for (int i = 0; i < n; i++) {
		if (pipe(ab) || pipe(ba))
			return 1;
		side[2 * i] = (struct side){ .cpu = i, .from = ba[0], .to = ab[1], .first = 1 };
		side[2 * i + 1] = (struct side){ .cpu = i, .from = ab[0], .to = ba[1] };
		pthread_create(&thread[2 * i], NULL, play, &side[2 * i]);
		pthread_create(&thread[2 * i + 1], NULL, play, &side[2 * i + 1]);
	}
	usleep((useconds_t)(seconds * 1e6));
	stop = 1;
	for (int i = 0; i < 2 * n; i++) {
		pthread_join(thread[i], NULL);
		cpu += side[i].cpu_seconds;
		switches += side[i].switches;
	}
	printf("{\"ns\":%.1f,\"switches\":%lu,\"seconds\":%.3f,\"cpu\":%.3f}\n", cpu / (double)switches * 1e9, switches,
	       now(CLOCK_MONOTONIC) - begin, cpu);
	return 0;
}
