/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a context switch costs: bench_switch SECONDS [nothing|RECORDER]. On each CPU two threads
 * wake each other through pipes, so that nearly all they do is switch. Prints JSON: CPU nanoseconds
 * of these threads for each switch (others on the machine do not count), switches, seconds. With
 * nothing or a recorder: what that costs of them (see toggle.h). LABELLED=1: the threads of a CPU
 * have a label, tenant.
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "toggle.h"

#define CPUS_MAX 256

static volatile int stop;
static int labelled;

struct side {
	int cpu, from, to, first;
	clockid_t clock;
	pid_t tid;
	unsigned long switches;
	double cpu_seconds;
};

static struct side side[2 * CPUS_MAX];
static int n_sides;

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
	struct ascribe_label_set labels;
	struct ascribe_scope scope;
	char c = 0;
	s->tid = gettid();
	CPU_ZERO(&set);
	CPU_SET((unsigned)s->cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	ascribe_set_init(&labels);
	ascribe_set_add_int(&labels, "tenant", s->cpu);
	if (labelled)
		ascribe_attach(&scope, &labels);
	getrusage(RUSAGE_THREAD, &a);
	double begin = now(CLOCK_THREAD_CPUTIME_ID);
	if (s->first && write(s->to, &c, 1) != 1)
		return NULL;
	while (!stop && read(s->from, &c, 1) == 1 && write(s->to, &c, 1) == 1)
		;
	s->cpu_seconds = now(CLOCK_THREAD_CPUTIME_ID) - begin;
	getrusage(RUSAGE_THREAD, &b);
	s->switches = (unsigned long)(b.ru_nvcsw - a.ru_nvcsw + b.ru_nivcsw - a.ru_nivcsw);
	if (labelled)
		ascribe_detach(&scope);
	close(s->to); /* the other side's read ends */
	return NULL;
}

static double switches_of(pid_t tid)
{
	char path[64], line[128];
	unsigned long n, all = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %lu", &n) == 1)
			all += n;
	if (f)
		fclose(f);
	return (double)all;
}

static struct reading look(void)
{
	struct reading r = { 0 };
	for (int i = 0; i < n_sides; i++) {
		r.ns += now(side[i].clock) * 1e9;
		r.done += switches_of(side[i].tid);
	}
	return r;
}

int main(int argc, char **argv)
{
	static pthread_t thread[2 * CPUS_MAX];
	double seconds = argc > 1 ? atof(argv[1]) : 1, cpu = 0;
	unsigned long switches = 0;
	int n = (int)sysconf(_SC_NPROCESSORS_ONLN), ab[2], ba[2];
	if (n > CPUS_MAX)
		n = CPUS_MAX;
	double begin = now(CLOCK_MONOTONIC);
	labelled = getenv("LABELLED") != NULL;
	for (int i = 0; i < n; i++) {
		if (pipe(ab) || pipe(ba))
			return 1;
		side[2 * i] = (struct side){ .cpu = i, .from = ba[0], .to = ab[1], .first = 1 };
		side[2 * i + 1] = (struct side){ .cpu = i, .from = ab[0], .to = ba[1] };
		pthread_create(&thread[2 * i], NULL, play, &side[2 * i]);
		pthread_create(&thread[2 * i + 1], NULL, play, &side[2 * i + 1]);
	}
	n_sides = 2 * n;
	for (int i = 0; i < n_sides; i++)
		pthread_getcpuclockid(thread[i], &side[i].clock);
	if (argc > 2)
		toggle(argv[2], seconds, look);
	else
		usleep((useconds_t)(seconds * 1e6));
	stop = 1;
	for (int i = 0; i < n_sides; i++) {
		pthread_join(thread[i], NULL);
		cpu += side[i].cpu_seconds;
		switches += side[i].switches;
	}
	if (argc > 2)
		return 0;
	printf("{\"ns\":%.1f,\"switches\":%lu,\"seconds\":%.3f,\"cpu\":%.3f}\n",
	       cpu / (double)switches * 1e9, switches, now(CLOCK_MONOTONIC) - begin, cpu);
	return 0;
}
