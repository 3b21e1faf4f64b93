/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how often it was where. probed THREADS HITS [MS]: one hit(), by which a recorder learns of
 * it. After so many milliseconds each thread, with its number as label `index`, calls hit() and
 * passes the static probe probed:passed (number + 1) * HITS times. Prints how many hits there were.
 * The probe's note is as sys/sdt.h writes it, with a semaphore: it is passed where one traces it.
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((section(".probes"), used)) volatile unsigned short probed_passed_semaphore;

#define PASS() \
	__asm__ volatile("990: nop\n" \
			 ".pushsection .note.stapsdt,\"\",\"note\"\n" \
			 ".balign 4\n" \
			 ".4byte 992f-991f, 994f-993f, 3\n" \
			 "991: .asciz \"stapsdt\"\n" \
			 "992: .balign 4\n" \
			 "993: .8byte 990b, _.stapsdt.base, probed_passed_semaphore\n" \
			 ".asciz \"probed\"\n.asciz \"passed\"\n.asciz \"\"\n" \
			 "994: .balign 4\n" \
			 ".popsection\n" \
			 ".ifndef _.stapsdt.base\n" \
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
			 ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n" \
			 "_.stapsdt.base: .space 1\n" \
			 ".size _.stapsdt.base, 1\n" \
			 ".popsection\n" \
			 ".endif\n")

static long n_hits;
static unsigned long passed;

__attribute__((noinline)) void hit(long n);
void hit(long n)
{
	__asm__ volatile("" : : "r"(n) : "memory");
}

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
