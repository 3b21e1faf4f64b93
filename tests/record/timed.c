/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how long its calls take. timed THREADS CALLS MS: one spin(). After so many ms each thread,
 * with its number as label `index`, calls spin() (number + 1) * CALLS times. Then one thread calls
 * fall(), which calls itself to a depth of 20, and to 100; leap(), which leaves 7 times by longjmp;
 * and fork() in split(), whose call returns in both processes. At last a thread exits in quit().
 * Prints for each index two sums of nanoseconds of spin(): measured within the calls, and around
 * them.
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long n_calls;

struct thread {
	pthread_t id;
	long index;
	uint64_t inner_ns, outer_ns;
};

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((noinline)) uint64_t spin(uint64_t ns);
uint64_t spin(uint64_t ns)
{
	uint64_t begin = now_ns(), took;
	while ((took = now_ns() - begin) < ns)
		;
	return took;
}

__attribute__((noinline)) long fall(long depth);
long fall(long depth)
{
	long n = depth > 1 ? fall(depth - 1) : 0;
	__asm__ volatile("" : "+r"(n)); /* the call stays one */
	return n + 1;
}

__attribute__((noinline)) void leap(jmp_buf to, long n);
void leap(jmp_buf to, long n)
{
	longjmp(to, (int)n);
}

__attribute__((noinline)) pid_t split(void);
pid_t split(void)
{
	return fork();
}

__attribute__((noinline)) void *quit(void *unused);
void *quit(void *unused)
{
	pthread_exit(unused);
}

static void *run(void *arg)
{
	struct thread *t = arg;
	struct ascribe_scope scope;
	ascribe_attach_int(&scope, "index", t->index);
	for (long i = 0; i < (t->index + 1) * n_calls; i++) {
		uint64_t begin = now_ns();
		t->inner_ns += spin(20000);
		t->outer_ns += now_ns() - begin;
	}
	ascribe_detach(&scope);
	return NULL;
}

static void leave_calls(void)
{
	jmp_buf to;
	volatile long left = 7;
	pthread_t t;
	fall(20);
	fall(100);
	setjmp(to);
	if (left-- > 0)
		leap(to, 1);
	pid_t child = split();
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	pthread_create(&t, NULL, quit, NULL);
	pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	const long threads = argc > 3 ? atol(argv[1]) : 1;
	struct thread t[64] = { 0 };
	n_calls = argc > 3 ? atol(argv[2]) : 100;
	spin(0); /* so that a recorder learns of the process */
	usleep(argc > 3 ? (useconds_t)atol(argv[3]) * 1000 : 0);
	for (long i = 0; i < threads && i < 64; i++) {
		t[i].index = i;
		pthread_create(&t[i].id, NULL, run, &t[i]);
	}
	for (long i = 0; i < threads && i < 64; i++) {
		pthread_join(t[i].id, NULL);
		printf("%s{\"index\": %ld, \"inner\": %llu, \"outer\": %llu}", i ? ", " : "[", i,
		       (unsigned long long)t[i].inner_ns, (unsigned long long)t[i].outer_ns);
	}
	puts("]");
	leave_calls();
	return 0;
}
