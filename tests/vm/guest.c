/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests in a virtual machine profile: work whose code, labels and CPU seconds are known.
 *
 *	guest labels SECONDS       threads a, b and over, see below; at the end a line
 *	                           "NAME CPU-SECONDS" for each
 *	guest spin SECONDS [CPU]   two threads, main and second, always busy; pinned to CPU
 *	guest burn MILLISECONDS    one thread, that much CPU time
 *	guest brief N MS           N processes, one after the other, each a `guest burn MS`
 *	guest hits N               call guest_hit() N times
 *	guest lock ROUNDS          a thread holds a mutex for 20 ms a round, another one wants it
 *	guest touch PAGES          touch so many fresh pages, 512 at a time; prints its page faults
 *
 * Slices of work have pseudo-random lengths (a fixed seed): a fixed length could keep step with the
 * sampling.
 */
#include <ascribe/label.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double used(void)
{
	return now(CLOCK_THREAD_CPUTIME_ID);
}

static __attribute__((noinline)) void rest(double seconds)
{
	struct timespec t = { 0, (long)(seconds * 1e9) };
	nanosleep(&t, NULL);
}

/* The known call chain; the empty statement behind a call keeps it from becoming a jump. */
static __attribute__((noinline)) void inner(double until)
{
	while (used() < until)
		for (volatile int i = 0; i < 20000; i++)
			;
}

static __attribute__((noinline)) void middle(double until)
{
	inner(until);
	__asm__ volatile("");
}

static __attribute__((noinline)) void outer(double until)
{
	middle(until);
	__asm__ volatile("");
}

/*
 * Not by libc, whose functions have no frame pointers: the caller's frame would be missing in the
 * stack.
 */
static inline long raw_syscall(long number, long a, long b, long c)
{
#if defined(__aarch64__)
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#else
	long rc;
	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return rc;
#endif
}

/* Work in the kernel, reached by a known function. */
static __attribute__((noinline)) void syscalls(double until)
{
	static char buf[65536];
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	while (used() < until) {
		for (int i = 0; i < 4; i++) {
			if (raw_syscall(SYS_read, fd, (long)buf, sizeof(buf)) < 0 ||
			    raw_syscall(SYS_getppid, 0, 0, 0) < 0)
				abort();
		}
	}
	close(fd);
}

/* 1 to 6 ms. */
static double slice(unsigned *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	return 0.001 * (1 + (double)(*seed >> 16 & 0x7fff) / 0x8000 * 5);
}

static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (cpu >= 0 && sched_setaffinity(0, sizeof(set), &set))
		perror("sched_setaffinity");
}

/* ---- labels ---- */

static double end;
static _Atomic double used_a, used_b;

struct cpu_seconds {
	double query, total;
};

/* One slice under tenant, every second one with query_id inside it. */
static void labelled_slice(const char *tenant, long query, unsigned *seed, int n,
			   struct cpu_seconds *c)
{
	ASCRIBE_LABEL_SCOPE("tenant", tenant);
	double begin = used();
	if (n & 1) {
		struct ascribe_label_set set;
		struct ascribe_scope scope;
		ascribe_set_init(&set);
		ascribe_set_add_int(&set, "query_id", query);
		ascribe_attach(&scope, &set);
		outer(begin + slice(seed));
		ascribe_detach(&scope);
		c->query += used() - begin;
	} else {
		outer(begin + slice(seed));
	}
}

/* tenant=a on CPU 0: three quarters of it. */
static void *thread_a(void *arg)
{
	struct cpu_seconds *c = arg;
	unsigned seed = 1;
	double begin = now(CLOCK_MONOTONIC);
	prctl(PR_SET_NAME, "a");
	pin(0);
	for (int n = 0; now(CLOCK_MONOTONIC) < end; n++) {
		labelled_slice("a", 42, &seed, n, c);
		used_a = c->total = used();
		while (used() > 0.75 * (now(CLOCK_MONOTONIC) - begin))
			rest(0.001);
	}
	return NULL;
}

/* tenant=b on CPU 1: a third of what a had, however fast the machine is. */
static void *thread_b(void *arg)
{
	struct cpu_seconds *c = arg;
	unsigned seed = 2;
	prctl(PR_SET_NAME, "b");
	pin(1);
	for (int n = 0; now(CLOCK_MONOTONIC) < end; n++) {
		while (used() > used_a / 3 && now(CLOCK_MONOTONIC) < end)
			rest(0.001);
		labelled_slice("b", 7, &seed, n, c);
		used_b = c->total = used();
	}
	return NULL;
}

/* On CPU 1, in the kernel: tenant=d, in it tenant=e (overrides), then nothing; as much CPU as b. */
static void *thread_over(void *arg)
{
	struct cpu_seconds *c = arg;
	unsigned seed = 3;
	prctl(PR_SET_NAME, "over");
	pin(1);
	while (now(CLOCK_MONOTONIC) < end) {
		double ms = slice(&seed);
		{
			ASCRIBE_LABEL_SCOPE("tenant", "d");
			syscalls(used() + ms / 2);
			{
				ASCRIBE_LABEL_SCOPE("tenant", "e");
				syscalls(used() + ms);
			}
			syscalls(used() + ms / 2);
		}
		syscalls(used() + ms);
		c->total = used();
		while (used() > used_b && now(CLOCK_MONOTONIC) < end)
			rest(0.001);
	}
	return NULL;
}

static int labels(double seconds)
{
	pthread_t t[3];
	struct cpu_seconds c[3] = { 0 };
	end = now(CLOCK_MONOTONIC) + seconds;
	pthread_create(&t[0], NULL, thread_a, &c[0]);
	pthread_create(&t[1], NULL, thread_b, &c[1]);
	pthread_create(&t[2], NULL, thread_over, &c[2]);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("a %.4f\na42 %.4f\nb %.4f\nb7 %.4f\nover %.4f\n", c[0].total, c[0].query, c[1].total,
	       c[1].query, c[2].total);
	return 0;
}

/* ---- the rest ---- */

static void *second(void *arg)
{
	prctl(PR_SET_NAME, "second");
	while (now(CLOCK_MONOTONIC) < *(double *)arg)
		outer(used() + 0.005);
	return NULL;
}

static int spin(double seconds, int cpu)
{
	pthread_t t;
	double until = now(CLOCK_MONOTONIC) + seconds;
	pin(cpu);
	pthread_create(&t, NULL, second, &until);
	while (now(CLOCK_MONOTONIC) < until)
		outer(used() + 0.005);
	pthread_join(t, NULL);
	return 0;
}

static int brief(int n, char *ms)
{
	for (int i = 0; i < n; i++) {
		pid_t child = fork();
		if (!child) {
			execlp("guest", "guest", "burn", ms, NULL);
			_exit(127);
		}
		int status;
		if (child < 0 || waitpid(child, &status, 0) != child || status)
			return 1;
	}
	return 0;
}

static int touch(size_t pages)
{
	struct rusage r;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 512 * page;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || madvise(p, size, MADV_NOHUGEPAGE))
		return 1;
	for (size_t i = 0; i < pages; i++) {
		if (i % 512 == 0 && madvise(p, size, MADV_DONTNEED))
			return 1;
		p[i % 512 * page] = 1;
	}
	getrusage(RUSAGE_SELF, &r);
	printf("%ld\n", r.ru_minflt + r.ru_majflt);
	return 0;
}

__attribute__((noinline)) void guest_hit(long n);
void guest_hit(long n)
{
	__asm__ volatile("" : : "r"(n) : "memory");
}

static int hits(long n)
{
	while (n--)
		guest_hit(n);
	return 0;
}

pthread_mutex_t guest_mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int asked; /* rounds for which the other thread may wait */

static void *wait_for_lock(void *rounds)
{
	prctl(PR_SET_NAME, "waiter");
	for (int i = 0; i < *(const int *)rounds; i++) {
		while (asked <= i)
			rest(0.001);
		pthread_mutex_lock(&guest_mutex);
		pthread_mutex_unlock(&guest_mutex);
	}
	return NULL;
}

static int lock(int rounds)
{
	pthread_t t;
	if (pthread_create(&t, NULL, wait_for_lock, &rounds))
		return 1;
	for (int i = 0; i < rounds; i++) {
		pthread_mutex_lock(&guest_mutex);
		asked = i + 1;
		rest(0.02);
		pthread_mutex_unlock(&guest_mutex);
		rest(0.01);
	}
	return pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "labels"))
		return labels(atof(argv[2]));
	if (!strcmp(what, "spin"))
		return spin(atof(argv[2]), argc > 3 ? atoi(argv[3]) : -1);
	if (!strcmp(what, "hits"))
		return hits(atol(argv[2]));
	if (!strcmp(what, "burn"))
		return outer(used() + atof(argv[2]) / 1000), 0;
	if (!strcmp(what, "brief") && argc > 3)
		return brief(atoi(argv[2]), argv[3]);
	if (!strcmp(what, "lock"))
		return lock(atoi(argv[2]));
	if (!strcmp(what, "touch"))
		return touch((size_t)atol(argv[2]));
	fprintf(stderr, "usage: guest labels|spin|burn|brief|lock|touch ...\n");
	return 2;
}
