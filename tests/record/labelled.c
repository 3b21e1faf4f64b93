/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads whose labels are known. labelled MODE [ARGUMENT]; every mode prints the CPU seconds that it
 * spent under each set of labels, by the clock of the thread itself, as JSON. Built with -DPLUGIN
 * it is the library that mode `dlopen` opens.
 */
#include <ascribe/label.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) double burn(double seconds);
double burn(double seconds)
{
	double begin = now(CLOCK_THREAD_CPUTIME_ID), t = begin;
	while (t < begin + seconds) {
		for (volatile int i = 0; i < 2000; i++)
			;
		t = now(CLOCK_THREAD_CPUTIME_ID);
	}
	return t - begin;
}

#ifdef PLUGIN

/* The slot of this library is another one than the executable's. */
double plugin_work(const char *endpoint, double seconds);
double plugin_work(const char *endpoint, double seconds)
{
	struct ascribe_scope scope;
	ascribe_attach_string(&scope, "endpoint", endpoint);
	seconds = burn(seconds);
	ascribe_detach(&scope);
	return seconds;
}

#else

static void be(const char *thread, int cpu)
{
	cpu_set_t set;
	prctl(PR_SET_NAME, thread);
	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/*
 * ---- share: threads a and b at 3:1, in bursts of random length so that no timer keeps step with
 * them ----
 */

struct sharer {
	const char *tenant;
	int cpu;
	double duty, wall, used;
};

static void *share_thread(void *arg)
{
	struct sharer *s = arg;
	unsigned seed = (unsigned)s->tenant[0];
	double end = now(CLOCK_MONOTONIC) + s->wall;
	be(s->tenant, s->cpu);
	ASCRIBE_LABEL_SCOPE("tenant", s->tenant);
	while (now(CLOCK_MONOTONIC) < end) {
		double busy = 0.001 + 0.009 * rand_r(&seed) / RAND_MAX,
		       rest = busy * (1 - s->duty) / s->duty;
		struct timespec ts = { 0, (long)(rest * 1e9) };
		burn(busy);
		nanosleep(&ts, NULL);
	}
	s->used = now(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

static void share(double wall)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	struct sharer v[2] = { { "a", 0, 0.75, wall, 0 }, { "b", n > 1, 0.25, wall, 0 } };
	pthread_t t[2];
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, share_thread, &v[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("{\"a\":%.6f,\"b\":%.6f}\n", v[0].used, v[1].used);
}

/* ---- nest: one after the other, each set for a time of its own ---- */

static void nest(double s)
{
	struct ascribe_scope tenant, query, override, back;
	double t[8];
	t[0] = burn(1 * s);
	ascribe_attach_string(&tenant, "tenant", "x");
	t[1] = burn(2 * s);
	ascribe_attach_int(&query, "query_id", 7);
	t[2] = burn(3 * s);
	ascribe_attach_string(&override, "tenant", "y");
	t[3] = burn(4 * s);
	ascribe_detach(&override);
	t[2] += burn(1 * s);
	ascribe_attach_int(&back, "query_id", -8);
	t[4] = burn(2 * s);
	ascribe_detach(&back);
	ascribe_detach(&query);
	t[1] += burn(1 * s);
	/* Put aside and taken back, as around a coroutine. */
	const struct ascribe_record_header *mine = ascribe_swap(NULL);
	t[0] += burn(1 * s);
	ascribe_swap(mine);
	t[1] += burn(1 * s);
	ascribe_detach(&tenant);
	t[0] += burn(1 * s);
	printf("{\"none\":%.6f,\"x\":%.6f,\"x7\":%.6f,\"y7\":%.6f,\"x-8\":%.6f}\n", t[0], t[1],
	       t[2], t[3], t[4]);
}

/* ---- cross: threads that all change their labels, each among its own ---- */

static void *cross_thread(void *arg)
{
	char thread[16], tenant[16];
	int n = (int)(long)arg;
	double end = now(CLOCK_MONOTONIC) + 2;
	snprintf(thread, sizeof(thread), "cross-%d", n);
	be(thread, -1);
	for (unsigned i = 0; now(CLOCK_MONOTONIC) < end; i++) {
		snprintf(tenant, sizeof(tenant), "%d.%u", n, i % 3);
		ASCRIBE_LABEL_SCOPE("tenant", tenant);
		burn(0.0003);
	}
	return NULL;
}

static void cross(void)
{
	pthread_t t[6];
	for (long i = 0; i < 6; i++)
		pthread_create(&t[i], NULL, cross_thread, (void *)i);
	for (int i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
	puts("{}");
}

/*
 * ---- relation: a new set every few hundred nanoseconds; y is always x * 7919 % 1000003, z the
 * text of x + y ----
 */

static void relation(double seconds)
{
	struct ascribe_label_set set;
	struct ascribe_scope scope;
	char text[40];
	long long x = 1, y;
	double begin = now(CLOCK_THREAD_CPUTIME_ID), used = 0;
	unsigned long changes = 0;
	for (; used < seconds; used = now(CLOCK_THREAD_CPUTIME_ID) - begin) {
		for (int i = 0; i < 1000; i++, changes++) {
			x = (x * 48271 + 11) % 2147483647;
			y = x * 7919 % 1000003;
			snprintf(text, sizeof(text), "%lld", x + y);
			/* The very same memory: it must never be seen half built */
			ascribe_set_init(&set);
			ascribe_set_add_int(&set, "x", x);
			ascribe_set_add_int(&set, "y", y);
			ascribe_set_add_string(&set, "z", text);
			ascribe_attach(&scope, &set);
			for (volatile int k = 0; k < 200; k++)
				;
			ascribe_detach(&scope);
		}
	}
	printf("{\"changes\":%lu,\"seconds\":%.6f}\n", changes, used);
}

/* ---- queries: many values, each for a short time ---- */

static void queries(long n)
{
	double total = 0;
	for (long i = 0; i < n; i++) {
		ASCRIBE_LABEL_SCOPE("query_id", (long long)i);
		total += burn(0.0001);
	}
	printf("{\"n\":%ld,\"seconds\":%.6f}\n", n, total);
}

/* ---- forks: a child without exec inherits the labels, then takes its own ---- */

static void forks(void)
{
	struct ascribe_scope scope, own;
	ascribe_attach_string(&scope, "tenant", "parent");
	for (int i = 0; i < 4; i++) {
		fflush(stdout);
		pid_t p = fork();
		if (!p) {
			prctl(PR_SET_NAME, "child");
			burn(0.15);
			ascribe_attach_string(&own, "tenant", "child");
			burn(0.15);
			_exit(0);
		}
		waitpid(p, NULL, 0);
	}
	burn(0.3);
	puts("{\"parent\":0.9,\"child\":0.6}");
}

/* ---- exits: threads that come and go, their stacks and TLS used again ---- */

static void *exits_thread(void *arg)
{
	int odd = (int)(long)arg & 1;
	be(odd ? "odd" : "even", -1);
	burn(0.001);
	ASCRIBE_LABEL_SCOPE("tenant", odd ? "odd" : "even");
	burn(0.004);
	return NULL;
}

static void thread_exits(void)
{
	for (long i = 0; i < 400; i++) {
		pthread_t t;
		pthread_create(&t, NULL, exits_thread, (void *)i);
		pthread_join(t, NULL);
	}
	puts("{}");
}

/* ---- orphan: the first thread ends long before the process ---- */

static void *orphan_thread(void *arg)
{
	ASCRIBE_LABEL_SCOPE("tenant", "orphan");
	printf("{\"seconds\":%.6f}\n", burn(*(double *)arg));
	exit(0);
}

static void orphan(double seconds)
{
	static double s;
	pthread_t t;
	s = seconds;
	pthread_create(&t, NULL, orphan_thread, &s);
	sleep(1);
	pthread_exit(NULL);
}

/* ---- dlopen: the library has a slot of its own; opened only after a while ---- */

static void dlopened(const char *path)
{
	struct ascribe_scope scope;
	ascribe_attach_string(&scope, "tenant", "exe");
	double alone = burn(1);
	void *lib = dlopen(path, RTLD_NOW);
	double (*work)(const char *, double) =
		lib ? (double (*)(const char *, double))dlsym(lib, "plugin_work") : NULL;
	if (!work) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	work("/early", 0.2); /* the recorder may still be looking for the new slot */
	double both = work("/sort", 1);
	alone += burn(0.5);
	printf("{\"alone\":%.6f,\"both\":%.6f}\n", alone, both);
}

/*
 * ---- ratio: labels a and b at 3:1 of this thread's own CPU time, whatever else the machine does,
 * in turns of random length ----
 */

static void ratio(double seconds)
{
	double sum[2] = { 0, 0 };
	unsigned state = 1;
	while (sum[0] + sum[1] < seconds) {
		double turn = 0.0003 + 0.002 * (double)rand_r(&state) / (double)RAND_MAX;
		{
			ASCRIBE_LABEL_SCOPE("tenant", "a");
			sum[0] += burn(3 * turn);
		}
		ASCRIBE_LABEL_SCOPE("tenant", "b");
		sum[1] += burn(turn);
	}
	printf("{\"a\":%.6f,\"b\":%.6f}\n", sum[0], sum[1]);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "1";
	if (!strcmp(mode, "share"))
		share(atof(arg));
	else if (!strcmp(mode, "ratio"))
		ratio(atof(arg));
	else if (!strcmp(mode, "nest"))
		nest(atof(arg));
	else if (!strcmp(mode, "cross"))
		cross();
	else if (!strcmp(mode, "relation"))
		relation(atof(arg));
	else if (!strcmp(mode, "queries"))
		queries(atol(arg));
	else if (!strcmp(mode, "forks"))
		forks();
	else if (!strcmp(mode, "exits"))
		thread_exits();
	else if (!strcmp(mode, "orphan"))
		orphan(atof(arg));
	else if (!strcmp(mode, "dlopen"))
		dlopened(arg);
	else
		return 2;
	return 0;
}

#endif
