/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows what its calls spend their time on. in_calls ROUNDS MS: one parse(); after so many ms two
 * threads, with their number as label `index`, do ROUNDS times: parse(), which computes, sleeps,
 * calls lex(), which does likewise, and calls itself once; other(), which computes and sleeps; and
 * flee(), which parse() leaves by longjmp, before flee() computes. Print for each index the seconds
 * on a CPU, asleep, and for which it asked to sleep: in lex(), in parse() without lex(), and in
 * neither.
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum place { LEX, PARSE, NEITHER, PLACES };

struct thread {
	pthread_t id;
	long index, rounds;
	double cpu[PLACES], off[PLACES], asked[PLACES];
};

static double seconds(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void compute(struct thread *t, enum place at, double s)
{
	const double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
	double took;
	while ((took = seconds(CLOCK_THREAD_CPUTIME_ID) - begin) < s)
		;
	t->cpu[at] += took;
}

static void doze(struct thread *t, enum place at, useconds_t us)
{
	const double begin = seconds(CLOCK_MONOTONIC);
	usleep(us);
	t->off[at] += seconds(CLOCK_MONOTONIC) - begin;
	t->asked[at] += us / 1e6;
}

__attribute__((noinline)) void lex(struct thread *t);
void lex(struct thread *t)
{
	compute(t, LEX, 0.004);
	doze(t, LEX, 300);
}

/* depth: calls of itself. to: where it goes instead of returning; NULL: it returns. */
__attribute__((noinline)) void parse(struct thread *t, int depth, jmp_buf *to);
void parse(struct thread *t, int depth, jmp_buf *to)
{
	compute(t, PARSE, 0.003);
	if (to)
		longjmp(*to, 1);
	doze(t, PARSE, 500);
	lex(t);
	if (depth)
		parse(t, depth - 1, NULL);
	compute(t, PARSE, 0.002);
}

static void other(struct thread *t)
{
	compute(t, NEITHER, 0.003);
	doze(t, NEITHER, 400);
}

static void flee(struct thread *t)
{
	jmp_buf to;
	if (!setjmp(to))
		parse(t, 0, &to);
	compute(t, NEITHER, 0.005);
	doze(t, NEITHER, 700);
}

static void *run(void *arg)
{
	struct thread *t = arg;
	struct ascribe_scope scope;
	ascribe_attach_int(&scope, "index", t->index);
	for (long i = 0; i < t->rounds; i++) {
		parse(t, 1, NULL);
		other(t);
		flee(t);
	}
	ascribe_detach(&scope);
	return NULL;
}

static void put(const char *name, const double *of, const char *end)
{
	printf("\"%s\": {\"lex\": %.6f, \"parse\": %.6f, \"none\": %.6f}%s", name, of[LEX],
	       of[PARSE], of[NEITHER], end);
}

int main(int argc, char **argv)
{
	struct thread t[2] = { 0 }, first = { 0 };
	parse(&first, 0, NULL); /* so that a recorder learns of the process */
	usleep(argc > 2 ? (useconds_t)atol(argv[2]) * 1000 : 0);
	for (long i = 0; i < 2; i++) {
		t[i].index = i;
		t[i].rounds = argc > 2 ? atol(argv[1]) : 10;
		pthread_create(&t[i].id, NULL, run, &t[i]);
	}
	for (long i = 0; i < 2; i++) {
		pthread_join(t[i].id, NULL);
		printf("%s{", i ? ", " : "[");
		put("cpu", t[i].cpu, ", ");
		put("off", t[i].off, ", ");
		put("asked", t[i].asked, "}");
	}
	puts("]");
	return 0;
}
