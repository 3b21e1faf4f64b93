/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switches RATE SECONDS: context switches at a rate, or as many as there can be. On each CPU two
 * threads wake each other through pipes, in bursts each millisecond. Prints how many there were a
 * second.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CPUS_MAX 512
#define BURST_NS 1000000

static struct side {
	int from, to, cpu, first;
	unsigned long switches;
} side[2 * CPUS_MAX];
static double per_burst; /* round trips: two switches each */
static struct timespec end;

static void on_cpu(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		exit(1);
}

static int over(const struct timespec *t)
{
	return t->tv_sec > end.tv_sec || (t->tv_sec == end.tv_sec && t->tv_nsec >= end.tv_nsec);
}

/* The first side: so many round trips each millisecond. What it is behind by is not made up for. */
static void pace(const struct side *s)
{
	struct timespec next, now;
	double due = 0;
	char c = 0;
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (now = next; !over(&now); clock_gettime(CLOCK_MONOTONIC, &now)) {
		for (due += per_burst; due >= 1; due--)
			if (write(s->to, &c, 1) != 1 || read(s->from, &c, 1) != 1)
				exit(1);
		next = now;
		next.tv_nsec += BURST_NS;
		if (next.tv_nsec >= 1000000000) {
			next.tv_sec++;
			next.tv_nsec -= 1000000000;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
}

static void *play(void *arg)
{
	struct side *s = arg;
	struct rusage u;
	char c;
	on_cpu(s->cpu);
	if (s->first)
		pace(s);
	else
		while (read(s->from, &c, 1) == 1 && write(s->to, &c, 1) == 1)
			;
	getrusage(RUSAGE_THREAD, &u);
	s->switches = (unsigned long)(u.ru_nvcsw + u.ru_nivcsw);
	close(s->to); /* the other side's read ends */
	return NULL;
}

int main(int argc, char **argv)
{
	static pthread_t thread[2 * CPUS_MAX];
	int n = (int)sysconf(_SC_NPROCESSORS_ONLN), ab[2], ba[2];
	unsigned long switches = 0;
	if (argc != 3)
		return 2;
	n = n > CPUS_MAX ? CPUS_MAX : n;
	per_burst = atof(argv[1]) / n / 2 / 1000;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += atoi(argv[2]);
	for (int i = 0; i < n; i++) {
		if (pipe(ab) || pipe(ba))
			return 1;
		side[2 * i] = (struct side){ ba[0], ab[1], i, 1, 0 };
		side[2 * i + 1] = (struct side){ ab[0], ba[1], i, 0, 0 };
		pthread_create(&thread[2 * i], NULL, play, &side[2 * i]);
		pthread_create(&thread[2 * i + 1], NULL, play, &side[2 * i + 1]);
	}
	for (int i = 0; i < 2 * n; i++) {
		pthread_join(thread[i], NULL);
		switches += side[i].switches;
	}
	printf("%.0f\n", (double)switches / atof(argv[2]));
	return 0;
}
