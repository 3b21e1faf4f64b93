/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how often it was where. probed THREADS HITS [MS]: one hit(), by which a recorder learns of
 * it. After so many milliseconds each thread, with its number as label `index`, calls hit() and
 * passes the static probe probed:passed (number + 1) * HITS times. Prints how many hits there were.
 * The probe has a semaphore: it is passed where one traces it.
 */
#include "static_probe.h"

#include <ascribe/label.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((section(".probes"), used)) volatile unsigned short probed_passed_semaphore;

#define PASS() STATIC_PROBE("probed", "passed", "probed_passed_semaphore", "", "i"(0))

static long n_hits;
static unsigned long passed;

__attribute__((noinline)) void hit(long n);
void hit(long n)
{
	__asm__ volatile("" : : "r"(n) : "memory");
}

#ifdef __x86_64__
/* A function that begins with a nop of 5 bytes. Nobody calls it. */
__asm__(".type nops, @function\n"
	"nops: .byte 0x0f, 0x1f, 0x44, 0, 0\n"
	"ret\n"
	".size nops, . - nops\n");
#endif

static void *run(void *index)
{
	const long n = ((long)index + 1) * n_hits;
	struct ascribe_scope scope;
	ascribe_attach_int(&scope, "index", (long)index);
	for (long i = 0; i < n; i++) {
		hit(i);
		if (probed_passed_semaphore) {
			PASS();
			__atomic_fetch_add(&passed, 1, __ATOMIC_RELAXED);
		}
	}
	ascribe_detach(&scope);
	return NULL;
}

int main(int argc, char **argv)
{
	const long threads = argc > 2 ? atol(argv[1]) : 1;
	pthread_t t[64];
	n_hits = argc > 2 ? atol(argv[2]) : 1000;
	hit(-1);
	usleep(argc > 3 ? (useconds_t)atol(argv[3]) * 1000 : 0);
	for (long i = 0; i < threads; i++)
		pthread_create(&t[i], NULL, run, (void *)i);
	for (long i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	printf("{\"hits\": %ld, \"passed\": %lu}\n", threads * (threads + 1) / 2 * n_hits + 1,
	       passed);
	return 0;
}
