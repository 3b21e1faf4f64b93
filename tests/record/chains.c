/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of calls that are known, in code without frame pointers: what the unwinder has to find is
 * written here.
 *
 *   chains KIND SECONDS [DEPTH]     plain, qsort, signal, altstack, alloca, realign, deep, vfork,
 *                                   thread, asm, turns
 *
 * Every kind burns CPU in leaf(), called by chain_c <- chain_b <- chain_a <- what KIND says <-
 * main.
 */
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile uint64_t sink;
static double end;
static int left; /* of chain_deep */

/* Return the CPU time of this process and of its children: as many samples on a busy host. */
static double now(void)
{
	struct timespec ts;
	struct rusage r;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	getrusage(RUSAGE_CHILDREN, &r);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9 +
	       (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

/* Ask the clock, a system call, only now and then: its own stacks are no chains. */
static bool time_left(void)
{
	static unsigned turn;
	static bool over;
	if (++turn % 16 == 0 && now() >= end)
		over = true;
	return !over;
}

/* What a value must survive keeps every function a real one with saved registers. */
static NOINLINE uint64_t leaf(uint64_t x)
{
	for (int i = 0; i < 4000; i++)
		x = x * 6364136223846793005ull + (x >> 33);
	sink += x;
	return x;
}

static NOINLINE uint64_t chain_c(uint64_t x)
{
	uint64_t a = x, b = x * 3;
	for (int i = 0; i < 16; i++)
		a += leaf(b + a);
	return a ^ b;
}

static NOINLINE uint64_t chain_b(uint64_t x)
{
	char room[200];
	memset(room, (int)x, sizeof(room));
	uint64_t v = chain_c(x + (uint8_t)room[x % 200]);
	return v + (uint8_t)room[v % 200];
}

static NOINLINE uint64_t chain_a(uint64_t x)
{
	return chain_b(x + 1) * 5 + x;
}

/* ---- ways to get there ---- */

static int compare(const void *a, const void *b)
{
	chain_a(*(const uint64_t *)a);
	return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : 1;
}

static NOINLINE void by_qsort(void)
{
	uint64_t v[4] = { 3, 1, 2, 0 };
	qsort(v, 4, sizeof(v[0]), compare);
}

static void on_signal(int n)
{
	chain_a((uint64_t)n);
}

/* A loop of its own, so that the signal hits in the middle of it, at any instruction. */
static NOINLINE void interrupted(void)
{
	for (int i = 0; i < 100; i++)
		sink += (uint64_t)i * sink;
	raise(SIGUSR1);
}

static NOINLINE void by_alloca(uint64_t x)
{
	char *room = alloca(64 + x % 512);
	memset(room, 1, 64);
	chain_a((uint64_t)room[x % 64]);
	sink += (uint64_t)room[3];
}

static NOINLINE void by_realign(uint64_t x)
{
	volatile char __attribute__((aligned(64))) room[128];
	char *more = alloca(x % 128 + 16); /* both: the old stack pointer is kept in memory */
	room[x % 128] = 1;
	more[0] = more[1] = 2;
	chain_a((uint64_t)room[x % 128] + (uint64_t)more[0]);
	sink += (uint64_t)room[5] + (uint64_t)more[1];
}

/*
 * Hand-written code without call frame information. Leaves leave the stack alone, or save and spoil
 * the frame pointer of a caller that needs it. One is between two C functions.
 */
#if defined(__x86_64__)
uint64_t asm_bare(uint64_t x);
uint64_t asm_saves(uint64_t x);
uint64_t asm_calls(uint64_t x, uint64_t (*function)(uint64_t));
__asm__(".text\n"
	".balign 16\n.globl asm_bare\n.type asm_bare, @function\nasm_bare: mov %rdi, %rax\nmov $20000, %ecx\n"
	"1: imul $3, %rax, %rax\ndec %ecx\njnz 1b\nret\n.size asm_bare, . - asm_bare\n"
	".balign 16\n.globl asm_saves\n.type asm_saves, @function\nasm_saves: push %rbx\npush %rbp\nsub $72, %rsp\n"
	"mov %rdi, %rbp\nmov $20000, %ebx\n2: imul $5, %rbp, %rbp\ndec %ebx\njnz 2b\nmov %rbp, %rax\n"
	"add $72, %rsp\npop %rbp\npop %rbx\nret\n.size asm_saves, . - asm_saves\n"
	".balign 16\n.globl asm_calls\n.type asm_calls, @function\nasm_calls: push %rbp\nmov $7, %ebp\n"
	"call *%rsi\nadd %rbp, %rax\npop %rbp\nret\n.size asm_calls, . - asm_calls\n");

static NOINLINE void by_asm(uint64_t x)
{
	char *room = alloca(64 + x % 512); /* its frame is found by the frame pointer */
	memset(room, 1, 64);
	sink += asm_bare(x) + asm_saves(x) + asm_calls(x, chain_a);
	sink += (uint64_t)room[3];
}
#else
static void by_asm(uint64_t x)
{
	chain_a(x);
}
#endif

static NOINLINE uint64_t by_deep(int n)
{
	uint64_t v = n ? by_deep(n - 1) : chain_a(7);
	return v * 3 + (uint64_t)n;
}

/*
 * Two ways to one function, turn by turn: their frames are equally large, so that the frames below
 * stand where those of the other way stood, with the same registers.
 */
static NOINLINE uint64_t at_turn(uint64_t (*chain)(uint64_t), uint64_t x)
{
	return chain(x) * 3 + x;
}

static NOINLINE uint64_t odd_chain(uint64_t x)
{
	return chain_a(x) + 1;
}

static NOINLINE uint64_t even_chain(uint64_t x)
{
	return chain_a(x) + 2;
}

static NOINLINE uint64_t odd_turn(uint64_t x)
{
	return at_turn(odd_chain, x) + 3;
}

static NOINLINE uint64_t even_turn(uint64_t x)
{
	return at_turn(even_chain, x) + 4;
}

static NOINLINE void by_vfork(void)
{
	pid_t child = vfork();
	if (!child) { /* runs on its parent's stack */
		for (int i = 0; i < 20; i++)
			chain_a((uint64_t)i);
		_exit(0);
	}
	waitpid(child, NULL, 0); /* for its CPU time */
}

static void *thread(void *arg)
{
	while (time_left())
		chain_a((uint64_t)(uintptr_t)arg);
	return NULL;
}

static NOINLINE void by_thread(void)
{
	pthread_t t;
	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, NULL);
}

static NOINLINE void run(const char *kind, uint64_t x)
{
	if (!strcmp(kind, "plain"))
		chain_a(x);
	else if (!strcmp(kind, "qsort"))
		by_qsort();
	else if (!strcmp(kind, "signal") || !strcmp(kind, "altstack"))
		interrupted();
	else if (!strcmp(kind, "alloca"))
		by_alloca(x);
	else if (!strcmp(kind, "realign"))
		by_realign(x);
	else if (!strcmp(kind, "asm"))
		by_asm(x);
	else if (!strcmp(kind, "deep"))
		by_deep(left);
	else if (!strcmp(kind, "turns"))
		sink += odd_turn(x) + even_turn(x);
	else if (!strcmp(kind, "vfork"))
		by_vfork();
	else if (!strcmp(kind, "thread"))
		by_thread();
	sink++;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "plain";
	struct sigaction sa = { .sa_handler = on_signal };
	end = now() + (argc > 2 ? atof(argv[2]) : 1);
	left = argc > 3 ? atoi(argv[3]) : 100;
	if (!strcmp(kind, "altstack")) {
		stack_t st = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
		sigaltstack(&st, NULL);
		sa.sa_flags = SA_ONSTACK;
	}
	sigaction(SIGUSR1, &sa, NULL);
	for (uint64_t x = 1; time_left(); x++)
		run(kind, x);
	return 0;
}
