/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads that wait. waits MODE SECONDS CPU [NICE]; every mode prints, as JSON, what the threads
 * themselves say. That is their clocks, and the kernel's own account of each thread
 * (/proc/thread-self/schedstat: time on a CPU, time in its queue).
 *   shares   thread `worker`, tenant "a", in turns of 100 ms: sleeps 30, spins 50, waits for a
 *            mutex that another holds 20
 *   pair     threads `left`, tenant "l", and `right`, tenant "r", the latter at nice NICE, both
 *            spinning on one CPU
 *   victim   thread `victim`, tenant "v": sleeps 2 ms, spins 0.3 ms
 *   spin     spins, unlabelled
 *   steps    8 threads `steps`, spinning on one CPU in turns of 0.15 ms, each turn under another of
 *            32 labels "step" of their own
 *   crowd    40 threads that sleep 2 to 3 ms, over and over; beside them one thread `once` after
 *            the other, which sleeps 1 s, its only wait
 *   many     10,000 threads `many`, which wait for 0.5 to 2.5 s at a time
 *   convoy   16 threads `convoy`, tenants "x" and "y", at one mutex, which two functions wait for;
 *            between two locks they pause for 50 us, now and then for 100 ms. Prints the time that
 *            each function waited, and all time that each tenant's threads did not run
 *   session  32 threads `strange` that sleep 1 ms, each time at another depth of the stack; beside
 *            them a thread `session`, which sleeps 3.5 s, and then 4 times 0.3 s, each time at
 *            another depth. Prints how long it slept the 4 times
 *   lengths  thread `sleeper`, tenant "s": sleeps of 46 us to 24 ms; quantiles of how long it was
 *            blocked, and in the queue
 */
#include <ascribe/label.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Not a constant: gcc then looks into the hash of short keys, and warns of what is not so. */
static const char *volatile tenant_key = "tenant";
static double seconds;
static int cpu;

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Seconds in the queue of a CPU so far, of this thread, by the kernel. */
static double queued(void)
{
	static __thread int fd = -1;
	char text[100] = "";
	unsigned long long run, delay = 0;
	if (fd < 0)
		fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	if (pread(fd, text, sizeof(text) - 1, 0) <= 0 ||
	    sscanf(text, "%llu %llu", &run, &delay) != 2)
		exit(2);
	return (double)delay / 1e9;
}

static void be(const char *name, int nice)
{
	cpu_set_t set;
	prctl(PR_SET_NAME, name);
	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	if (cpu >= 0)
		sched_setaffinity(0, sizeof(set), &set);
	if (nice)
		setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), nice);
}

static void pause_for(double s)
{
	struct timespec t = { (time_t)s, (long)((s - (double)(time_t)s) * 1e9) };
	nanosleep(&t, NULL);
}

/* What the thread did from begin_account on. */
struct account {
	double wall, run, runq;
};

static struct account account_now(void)
{
	return (struct account){ now(CLOCK_MONOTONIC), now(CLOCK_THREAD_CPUTIME_ID), queued() };
}

static void print_account(const char *name, struct account a)
{
	struct account b = account_now();
	printf("\"%s\":{\"wall\":%.6f,\"run\":%.6f,\"runq\":%.6f}", name, b.wall - a.wall,
	       b.run - a.run, b.runq - a.runq);
}

/* ---- shares ---- */

#define MANY 10000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t hold, held, go;

static void *holder(void *unused)
{
	be("holder", 0);
	for (;;) {
		sem_wait(&hold);
		pthread_mutex_lock(&mutex);
		sem_post(&held);
		sem_wait(&go);
		pause_for(0.02);
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

__attribute__((noinline)) void sleep_here(void);
void sleep_here(void)
{
	pause_for(0.03);
	__asm__ volatile(""); /* no tail call */
}

__attribute__((noinline)) void spin_here(double s);
void spin_here(double s)
{
	double end = now(CLOCK_THREAD_CPUTIME_ID) + s;
	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 2000; i++)
			;
}

__attribute__((noinline)) void lock_here(void);
void lock_here(void)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

static void shares(void)
{
	pthread_t t;
	double slept = 0, spun = 0, locked = 0, at[5];
	struct ascribe_scope scope;
	sem_init(&hold, 0, 0);
	sem_init(&held, 0, 0);
	sem_init(&go, 0, 0);
	pthread_create(&t, NULL, holder, NULL);
	be("worker", 0);
	pause_for(1); /* the recorder gets to know us */
	ascribe_attach_string(&scope, tenant_key, "a");
	struct account a = account_now();
	do {
		sem_post(&hold);
		at[0] = now(CLOCK_MONOTONIC);
		sleep_here();
		at[1] = now(CLOCK_MONOTONIC);
		spin_here(0.05);
		at[2] = now(CLOCK_MONOTONIC);
		sem_wait(&held); /* long since */
		sem_post(&go);
		at[3] = now(CLOCK_MONOTONIC);
		lock_here();
		at[4] = now(CLOCK_MONOTONIC);
		slept += at[1] - at[0];
		spun += at[2] - at[1];
		locked += at[4] - at[3];
	} while (at[4] < a.wall + seconds);
	printf("{\"sleep\":%.6f,\"spin\":%.6f,\"lock\":%.6f,", slept, spun, locked);
	print_account("worker", a);
	puts("}");
	ascribe_detach(&scope);
}

/* ---- pair ---- */

static int nice_right, first;
static pthread_barrier_t barrier;

static void *spin_as(void *arg)
{
	struct ascribe_scope scope;
	const char *name = arg;
	be(name, *name == 'r' ? nice_right : 0);
	char tenant[2] = { *name, 0 };
	pause_for(1);
	pthread_barrier_wait(&barrier);
	/* Not before: on a busy host it may be seconds until both are here. */
	ascribe_attach_string(&scope, tenant_key, tenant);
	struct account a = account_now();
	while (now(CLOCK_MONOTONIC) < a.wall + seconds)
		spin_here(0.001);
	flockfile(stdout);
	putchar(first++ ? ',' : '{');
	print_account(tenant, a);
	funlockfile(stdout);
	ascribe_detach(&scope);
	return NULL;
}

static void pair(void)
{
	pthread_t l, r;
	static char left[] = "left", right[] = "right";
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&l, NULL, spin_as, left);
	pthread_create(&r, NULL, spin_as, right);
	pthread_join(l, NULL);
	pthread_join(r, NULL);
	puts("}");
}

/* ---- victim, spin ---- */

static void victim(void)
{
	struct ascribe_scope scope;
	be("victim", 0);
	pause_for(1);
	ascribe_attach_string(&scope, tenant_key, "v");
	struct account a = account_now();
	while (now(CLOCK_MONOTONIC) < a.wall + seconds) {
		pause_for(0.002);
		spin_here(0.0003);
	}
	printf("{");
	print_account("v", a);
	puts("}");
	ascribe_detach(&scope);
}

static void spin(void)
{
	be("noisy", 0);
	double end = now(CLOCK_MONOTONIC) + seconds;
	while (now(CLOCK_MONOTONIC) < end)
		spin_here(0.01);
}

/* ---- steps ---- */

#define STEPPERS 8
#define STEPS 32
#define STEP_SWITCHES 800 /* of each thread, then it is enough */

static long switches(void)
{
	struct rusage r;
	getrusage(RUSAGE_THREAD, &r);
	return r.ru_nvcsw + r.ru_nivcsw;
}

static void *steps_of(void *arg)
{
	long from = (long)arg * STEPS;
	struct ascribe_scope scope;
	be("steps", 0);
	pause_for(1);
	pthread_barrier_wait(&barrier);
	double end = now(CLOCK_MONOTONIC) + seconds;
	long enough = switches() + STEP_SWITCHES;
	for (long i = 0; now(CLOCK_MONOTONIC) < end && switches() < enough; i++) {
		ascribe_attach_int(&scope, "step", from + i % STEPS);
		spin_here(0.00015);
		sched_yield();
		ascribe_detach(&scope);
	}
	return NULL;
}

static void steps(void)
{
	pthread_t t[STEPPERS];
	pthread_barrier_init(&barrier, NULL, STEPPERS);
	for (long i = 0; i < STEPPERS; i++)
		pthread_create(&t[i], NULL, steps_of, (void *)i);
	for (long i = 0; i < STEPPERS; i++)
		pthread_join(t[i], NULL);
}

/* ---- lengths ---- */

#define SLEEPS_MAX 100000

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void print_quantiles(const char *name, double *v, size_t n)
{
	static const double q[] = { 0.5, 0.9, 0.99 };
	qsort(v, n, sizeof(*v), compare);
	printf("\"%s\":{\"n\":%zu", name, n);
	for (size_t i = 0; i < 3; i++)
		printf(",\"p%.0f\":%.9f", 100 * q[i], v[(size_t)((double)n * q[i])]);
	printf(",\"max\":%.9f}", v[n - 1]);
}

static void lengths(void)
{
	static double off[SLEEPS_MAX], runq[2 * SLEEPS_MAX];
	struct ascribe_scope scope;
	uint64_t seed = 88172645463325252ull;
	size_t n = 0, n_runq = 0;
	be("sleeper", 0);
	pause_for(1);
	ascribe_attach_string(&scope, tenant_key, "s");
	struct account a = account_now();
	double before = queued();
	for (double t = a.wall; t < a.wall + seconds && n < SLEEPS_MAX; n++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		/* Half and nine tenths of them end within a bucket, not at its edge */
		double q = queued(), length = 46e-6 * (double)(1 << (seed >> 20) % 9);
		/* It was preempted between two sleeps: these waits are recorded, too */
		if (q > before)
			runq[n_runq++] = q - before;
		t = now(CLOCK_MONOTONIC);
		pause_for(length * (1 + (double)(seed >> 40 & 0xff) / 256));
		double end = now(CLOCK_MONOTONIC);
		before = queued();
		runq[n_runq++] = before - q;
		off[n] = end - t - (before - q);
		t = end;
	}
	printf("{");
	print_account("s", a);
	printf(",");
	print_quantiles("off", off, n);
	printf(",");
	print_quantiles("queue", runq, n_runq);
	puts("}");
	ascribe_detach(&scope);
}

static void *nap(void *arg)
{
	be("nap", 0);
	for (unsigned i = *(unsigned *)arg;; i = i * 1103515245 + 12345)
		pause_for(2e-3 + 1e-3 * (double)(i >> 24) / 256);
	return NULL;
}

static __attribute__((noinline)) void waits_only_once(void)
{
	pause_for(1);
	__asm__ volatile(""); /* no tail call */
}

static void *once(void *unused)
{
	be("once", 0);
	waits_only_once();
	return unused;
}

static void crowd(void)
{
	static unsigned naps[40];
	pthread_t thread, last[64];
	unsigned n = 0;
	for (unsigned i = 0; i < 40; i++) {
		naps[i] = i + 1;
		pthread_create(&thread, NULL, nap, &naps[i]);
	}
	pause_for(1);
	for (; n < 64 && 0.1 * n < seconds; n++) {
		pthread_create(&last[n], NULL, once, NULL);
		pause_for(0.1);
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(last[i], NULL);
	printf("{\"once\":%u}\n", n);
}

/* ---- many ---- */

/* A call site is known by the depth of the stack, among other things. */
__attribute__((noinline)) void sleep_at_depth(double s, unsigned depth);
void sleep_at_depth(double s, unsigned depth)
{
	volatile char *deeper = __builtin_alloca(32 + depth);
	deeper[0] = 0;
	pause_for(s);
	deeper[0] = 0;
}
__attribute__((noinline)) void session_waits(unsigned turn);
void session_waits(unsigned turn)
{
	sleep_at_depth(0.3, 64 * turn);
	__asm__ volatile("nop" ::: "memory"); /* no tail call */
}
static void *strange(void *unused)
{
	be("strange", 0);
	for (unsigned i = 1;; i++)
		sleep_at_depth(1e-3, 16 * (i % 16384));
	return unused;
}
static void *session(void *waited)
{
	be("session", 0);
	/* So the 4 waits are expected to be longer than the highest threshold, 2.1 s */
	pause_for(3.5);
	double from = now(CLOCK_MONOTONIC);
	for (unsigned turn = 1; turn <= 4; turn++)
		session_waits(turn);
	*(double *)waited = now(CLOCK_MONOTONIC) - from;
	return NULL;
}
static void sessions(void)
{
	pthread_t thread;
	double waited;
	for (unsigned i = 0; i < 32; i++)
		pthread_create(&thread, NULL, strange, NULL);
	pause_for(1);
	pthread_create(&thread, NULL, session, &waited);
	pthread_join(thread, NULL);
	printf("{\"waited\":%.6f}\n", waited);
}
static pthread_barrier_t all_there;
static double many_end;

static __attribute__((noinline)) void many_wait(double s)
{
	pause_for(s);
	__asm__ volatile(""); /* no tail call */
}

static void *one_of_many(void *arg)
{
	double s = *(double *)arg;
	be("many", 0);
	pthread_barrier_wait(&all_there);
	while (now(CLOCK_MONOTONIC) < many_end)
		many_wait(s);
	return NULL;
}

static void many(void)
{
	static double s[MANY];
	static pthread_t thread[MANY];
	pthread_attr_t small;
	unsigned n = 0;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	pthread_barrier_init(&all_there, NULL, MANY + 1);
	for (; n < MANY; n++) {
		s[n] = 0.5 + 2.0 * n / MANY;
		int rc = pthread_create(&thread[n], &small, one_of_many, &s[n]);
		if (rc) {
			fprintf(stderr, "thread %u: %s\n", n, strerror(rc));
			exit(77);
		}
	}
	many_end = now(CLOCK_MONOTONIC) + seconds;
	pthread_barrier_wait(&all_there);
	for (n = 0; n < MANY; n++)
		pthread_join(thread[n], NULL);
	printf("{\"least\":%f}\n", MANY * seconds);
}

/* ---- convoy ---- */

enum { READ, WRITE, SHORT, LONG, N_CONVOY };

struct convoy {
	pthread_t thread;
	unsigned i;
	double waited[N_CONVOY], all;
};

static pthread_mutex_t convoy_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Time that this thread did not run. */
static double waited_now(void)
{
	return now(CLOCK_MONOTONIC) - now(CLOCK_THREAD_CPUTIME_ID);
}

__attribute__((noinline)) void convoy_read(void);
void convoy_read(void)
{
	pthread_mutex_lock(&convoy_mutex);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void convoy_write(void);
void convoy_write(void)
{
	pthread_mutex_lock(&convoy_mutex);
	__asm__ volatile("nop" ::: "memory"); /* not the same as convoy_read */
}

__attribute__((noinline)) void convoy_short(void);
void convoy_short(void)
{
	pause_for(50e-6);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void convoy_long(void);
void convoy_long(void)
{
	/* Another stack pointer in the system call: another call site */
	volatile char deeper[512] = "";
	pause_for(deeper[1] ? 1 : 0.1);
}

static void *convoy_thread(void *arg)
{
	struct convoy *c = arg;
	struct ascribe_scope scope;
	uint64_t seed = 88172645463325252ull + c->i;
	be("convoy", 0);
	ascribe_attach_string(&scope, tenant_key, c->i % 2 ? "x" : "y");
	double all = waited_now(), end = now(CLOCK_MONOTONIC) + seconds;
	while (now(CLOCK_MONOTONIC) < end) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		bool read = seed >> 62 == 0, is_long = seed >> 53 == 0;
		double at = waited_now();
		if (read)
			convoy_read();
		else
			convoy_write();
		c->waited[read ? READ : WRITE] += waited_now() - at;
		spin_here(read ? 20e-6 : 60e-6);
		pthread_mutex_unlock(&convoy_mutex);
		at = waited_now();
		if (is_long)
			convoy_long();
		else
			convoy_short();
		c->waited[is_long ? LONG : SHORT] += waited_now() - at;
	}
	c->all = waited_now() - all;
	ascribe_detach(&scope);
	return NULL;
}

static void convoy(void)
{
	static const char *const name[] = { "convoy_read", "convoy_write", "convoy_short",
					    "convoy_long" };
	static struct convoy c[16];
	double sum[N_CONVOY] = { 0 }, all[2] = { 0 };
	pause_for(1); /* the recorder gets to know us */
	for (unsigned i = 0; i < 16; i++) {
		c[i].i = i;
		pthread_create(&c[i].thread, NULL, convoy_thread, &c[i]);
	}
	for (unsigned i = 0; i < 16; i++) {
		pthread_join(c[i].thread, NULL);
		all[i % 2] += c[i].all;
		for (unsigned k = 0; k < N_CONVOY; k++)
			sum[k] += c[i].waited[k];
	}
	printf("{\"x\":%.6f,\"y\":%.6f,\"functions\":{", all[1], all[0]);
	for (unsigned k = 0; k < N_CONVOY; k++)
		printf("%s\"%s\":%.6f", k ? "," : "", name[k], sum[k]);
	puts("}}");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = { { "shares", shares },   { "pair", pair },	  { "victim", victim },
		      { "spin", spin },	      { "steps", steps }, { "lengths", lengths },
		      { "crowd", crowd },     { "many", many },	  { "convoy", convoy },
		      { "session", sessions } };
	if (argc < 4)
		return 2;
	seconds = atof(argv[2]);
	cpu = atoi(argv[3]);
	nice_right = argc > 4 ? atoi(argv[4]) : 0;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		modes[i].run();
		fflush(stdout);
		_exit(0);
	}
	return 2;
}
