/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations as no honest program makes them; the sampler is compiled in. heap_odd lies: fire the
 * probes with sizes that cannot be, with an address that was never freed, and with frees of what
 * never was. heap_odd signals: allocate in a signal handler, in the middle of other allocations,
 * and see that errno and all blocks are as they were. heap_odd strict: allocate where no system
 * call is allowed but write and exit.
 */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#include "../../lib/heap.c"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>

static void lie(uintptr_t ptr, size_t size, uint64_t bytes)
{
	void *p = (void *)ptr;
	__asm__ volatile("" : "+r"(p), "+r"(size), "+r"(bytes));
	ascribe_heap_fire_alloc_(p, size, bytes);
}

static int lies(void)
{
	while (!otel_memory_alloc_semaphore)
		usleep(1000);
	lie(0x1000, 16, 524304); /* the recorder learns of the process */
	usleep(700000);
	for (int i = 0; i < 7; i++) {
		lie(0x2000, (size_t)1 << 63, (uint64_t)1 << 63);
		lie(0x2000, 0, 524288);
		lie(0x2000, 4096, 4095);
		lie(0x2000, 4096, UINT64_MAX);
		lie(0, 4096, 526000);
	}
	for (int i = 0; i < 11; i++) /* ten of them are not freed */
		lie(0x3000, 1 << 20, 1 << 20);
	for (uintptr_t i = 0; i < 13; i++)
		ascribe_heap_fire_free_((void *)(0x10000 + i));
	ascribe_heap_fire_free_((void *)0x3000);
	ascribe_heap_fire_free_((void *)0x3000);
	usleep(300000);
	return 0;
}

static volatile sig_atomic_t n_signals;

static void on_signal(int n)
{
	(void)n;
	void *p = mmap(NULL, 300000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED)
		munmap(p, 300000);
	n_signals = n_signals + 1;
}

static int signals(void)
{
	const struct itimerval often = { { 0, 200 }, { 0, 200 } };
	unsigned char *block[256] = { 0 };
	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &often, NULL);
	for (unsigned i = 0; i < 400000 || n_signals < 1000; i++) {
		unsigned char **b = &block[i % 256];
		errno = 77;
		free(*b);
		if (errno != 77)
			return 1;
		*b = malloc(1 + i % 9000);
		if (!*b)
			return 1;
		**b = (unsigned char)i;
	}
	puts("whole");
	return 0;
}

static void allocate(void)
{
	for (int i = 0; i < 1000; i++) {
		char *volatile p = malloc(100000);
		*p = 1;
		free(p);
	}
}

static int strict(void)
{
	static const char said[] = "whole\n";
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 32 << 20);
	while (!otel_memory_alloc_semaphore)
		usleep(1000);
	allocate();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return 1;
	allocate();
	syscall(SYS_exit, write(1, said, sizeof(said) - 1) != sizeof(said) - 1);
	return 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "signals";
	return !strcmp(what, "lies") ? lies() : !strcmp(what, "strict") ? strict() : signals();
}
