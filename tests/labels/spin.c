/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin SECONDS KEY=VALUE[:PERCENT] ...: one thread per label, each using PERCENT of a CPU (100 by
 * default) in spin_work(). An integer value becomes an integer label, "-" in place of KEY=VALUE no
 * label. At the end one line per thread: the label, its tid and the CPU seconds that it used.
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

struct spinner {
	pthread_t thread;
	char *key, *value;
	int percent;
	double seconds, used;
	long tid;
};

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* One slice of 20 ms: busy for its percentage, asleep for the rest. */
static __attribute__((noinline)) void spin_work(double busy, double idle)
{
	double end = now(CLOCK_THREAD_CPUTIME_ID) + busy;
	struct timespec rest = { 0, (long)(idle * 1e9) };
	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 10000; i++)
			;
	if (idle > 0)
		nanosleep(&rest, NULL);
}

static void *spin(void *arg)
{
	struct spinner *s = arg;
	struct ascribe_label_set set;
	struct ascribe_scope scope;
	double end = now(CLOCK_MONOTONIC) + s->seconds;
	s->tid = syscall(SYS_gettid);
	if (s->key) {
		char *rest;
		long long number = strtoll(s->value, &rest, 10);
		ascribe_set_init(&set);
		if (*s->value && !*rest)
			ascribe_set_add_int(&set, s->key, number);
		else
			ascribe_set_add_string(&set, s->key, s->value);
		ascribe_attach(&scope, &set);
	}
	while (now(CLOCK_MONOTONIC) < end)
		spin_work(0.02 * s->percent / 100, 0.02 * (100 - s->percent) / 100);
	if (s->key)
		ascribe_detach(&scope);
	s->used = now(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

int main(int argc, char **argv)
{
	struct spinner *s = argc > 2 ? calloc((size_t)argc, sizeof(*s)) : NULL;
	if (!s) {
		fprintf(stderr, "usage: %s SECONDS KEY=VALUE[:PERCENT] ...\n", argv[0]);
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		char *percent = strrchr(argv[i], ':');
		s[i].percent = percent ? atoi(percent + 1) : 100;
		s[i].seconds = atof(argv[1]);
		if (percent)
			*percent = 0;
		s[i].value = strchr(argv[i], '=');
		if (s[i].value) {
			*s[i].value++ = 0;
			s[i].key = argv[i];
		}
		pthread_create(&s[i].thread, NULL, spin, &s[i]);
	}
	for (int i = 2; i < argc; i++) {
		pthread_join(s[i].thread, NULL);
		printf("%s%s%s %ld %.3f\n", s[i].key ? s[i].key : "-", s[i].key ? "=" : "",
		       s[i].key ? s[i].value : "", s[i].tid, s[i].used);
	}
	free(s);
	return 0;
}
