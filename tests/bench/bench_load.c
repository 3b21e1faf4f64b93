/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_load CPU FRAMES [label] [cold]: keep one CPU busy with a user stack of exactly FRAMES
 * frames by frame pointers. With `label`, one label is attached. With `cold`, the work walks memory
 * larger than the caches. Ends with its parent.
 */
#include <ascribe/label.h>

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define COLD_BYTES (256u << 20)
#define KEEP(x) __asm__ __volatile__("" : : "r"(x) : "memory")

static uint8_t *cold;
static volatile int stop; /* never set */

__attribute__((noinline)) static void work(void)
{
	uint64_t v = 1;
	/* A leaf would have no frame otherwise, and hide its caller */
	KEEP(__builtin_frame_address(0));
	while (!stop) {
		v = v * 6364136223846793005u + 1442695040888963407u;
		if (cold)
			v ^= cold[(v >> 33) % COLD_BYTES]++;
		KEEP(v);
	}
}

/* NOLINTNEXTLINE(misc-no-recursion): that is its purpose */
__attribute__((noinline)) static void deeper(unsigned frames)
{
	if (frames)
		deeper(frames - 1);
	else
		work();
	KEEP(frames); /* not a tail call */
}

/* Where the chain of frame pointers ends: nothing of the start of the process is in the stack. */
__attribute__((noinline)) static void from_the_bottom(unsigned frames)
{
	void (*f)(unsigned) = deeper;
#if defined(__x86_64__)
	__asm__ __volatile__("and $-16, %%rsp\n\txor %%ebp, %%ebp\n\tcall *%1"
			     :
			     : "D"(frames), "S"(f)
			     : "memory");
#elif defined(__aarch64__)
	register uint64_t x0 __asm__("x0") = frames;
	__asm__ __volatile__("mov x29, xzr\n\tblr %1" : : "r"(x0), "r"(f) : "memory");
#endif
	__builtin_unreachable();
}

int main(int argc, char **argv)
{
	cpu_set_t set;
	struct ascribe_label_set labels;
	struct ascribe_scope scope;
	int frames = argc > 2 ? atoi(argv[2]) : 0;
	if (frames < 3 || frames > 120)
		return fprintf(stderr, "usage: bench_load CPU FRAMES(3..120) [label] [cold]\n"), 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&set);
	CPU_SET(atoi(argv[1]), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		return perror("bench_load: sched_setaffinity"), 1;
	for (int i = 3; i < argc; i++) {
		if (!strcmp(argv[i], "cold")) {
			cold = malloc(COLD_BYTES);
			if (!cold)
				return perror("bench_load"), 1;
			memset(cold, 1, COLD_BYTES);
		}
		if (!strcmp(argv[i], "label")) {
			ascribe_set_init(&labels);
			ascribe_set_add_int(&labels, "query_id", 42);
			ascribe_attach(&scope, &labels);
		}
	}
	/*
	 * Besides `deeper`, one frame is the work and one the bottom: its return address is inside
	 * from_the_bottom.
	 */
	from_the_bottom((unsigned)frames - 3);
	return 0;
}
