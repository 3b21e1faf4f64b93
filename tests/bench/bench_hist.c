/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histograms: recording beside HdrHistogram_c and a bare atomic add, on one thread and on two;
 * questions; memory. All contenders take turns in each of many rounds; what is printed is the
 * median, and ratios are medians of the rounds' own ratios. Time is the CPU time of the thread, so
 * that other work on the host costs precision but adds nothing.
 */
#include "bench.h"

#include "hist/multi.h"
#include "hist/snapshot.h"

#include <hdr/hdr_histogram.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N_VALUES 4096
#define PASSES 256
#define ROUNDS 61
#define PAIR_PASSES 2048

static uint64_t values[N_VALUES];
static uint64_t counter __attribute__((aligned(64)));
static struct hist *own, *shared;
static struct hist_multi *multi;
static struct hdr_histogram *hdr;

/* ---- the contenders ---- */

#define CONTENDER(name, statement) \
	static __attribute__((noinline)) void name(unsigned passes) \
	{ \
		for (unsigned p = 0; p < passes; p++) { \
			for (unsigned i = 0; i < N_VALUES; i++) { \
				uint64_t v = values[i]; \
				statement; \
			} \
		} \
	}

CONTENDER(run_load, __asm__ volatile("" : : "r"(v)))
CONTENDER(run_atomic, __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
	  __asm__ volatile("" : : "r"(v)))
CONTENDER(run_own, hist_record_own(own, v))
CONTENDER(run_multi, hist_multi_record(multi, v))
CONTENDER(run_shared, hist_record(shared, v))
CONTENDER(run_hdr, hdr_record_value(hdr, (int64_t)v))
CONTENDER(run_hdr_atomic, hdr_record_value_atomic(hdr, (int64_t)v))

enum { LOAD, ATOMIC, OWN, MULTI, SHARED, HDR, HDR_ATOMIC, N_CONTENDERS };

static const struct {
	const char *what;
	void (*run)(unsigned passes);
} contenders[N_CONTENDERS] = {
	[LOAD] = { "the loop alone", run_load },
	[ATOMIC] = { "bare atomic add", run_atomic },
	[OWN] = { "hist_record_own", run_own },
	[MULTI] = { "hist_multi_record (per-thread shard)", run_multi },
	[SHARED] = { "hist_record (shared, lock-free)", run_shared },
	[HDR] = { "hdr_record_value", run_hdr },
	[HDR_ATOMIC] = { "hdr_record_value_atomic", run_hdr_atomic },
};

/* Times like those of requests, around 200 us; or all magnitudes alike. */
static void fill(bool all)
{
	srand48(7);
	for (unsigned i = 0; i < N_VALUES; i++) {
		double normal = sqrt(-2 * log(1 - drand48())) * cos(2 * M_PI * drand48());
		values[i] = all ? (uint64_t)(exp(drand48() * 28))
				: (uint64_t)(200e3 * exp(1.2 * normal));
	}
}

static void setup(void)
{
	hist_free(own);
	hist_free(shared);
	hist_multi_free(multi);
	if (hdr)
		hdr_close(hdr);
	if (hist_new(hist_bits(0.01), &own) || hist_new(hist_bits(0.01), &shared) ||
	    hist_multi_new(hist_bits(0.01), &multi) ||
	    hdr_init(1, 3600ll * 1000 * 1000 * 1000, 2, &hdr))
		bench_die("no memory");
}

static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* ---- one thread ---- */

static void one_thread(bool all)
{
	static double ns[N_CONTENDERS][ROUNDS];
	fill(all);
	setup();
	for (unsigned c = 0; c < N_CONTENDERS; c++)
		contenders[c].run(PASSES);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned c = 0; c < N_CONTENDERS; c++) {
			uint64_t begin = cpu_ns();
			contenders[c].run(PASSES);
			ns[c][round] = (double)(cpu_ns() - begin) / (PASSES * N_VALUES);
		}
	}
	printf("record, one thread, %s: ns per value, median of %d rounds\n",
	       all ? "values of 12 orders of magnitude alike" : "values around 200 us", ROUNDS);
	for (unsigned c = 0; c < N_CONTENDERS; c++)
		printf("  %-40s %6.2f\n", contenders[c].what, bench_median(ns[c], ROUNDS));
	if (all)
		return;
	figure("hist/shard", "ascribe", ns[MULTI], ROUNDS, 1);
	figure("hist/shard", "HdrHistogram_c", ns[HDR], ROUNDS, 1);
	figure("hist/own", "ascribe", ns[OWN], ROUNDS, 1);
	figure("hist/own", "HdrHistogram_c", ns[HDR], ROUNDS, 1);
	figure("hist/shared", "ascribe", ns[SHARED], ROUNDS, 1);
	figure("hist/shared", "HdrHistogram_c, atomic", ns[HDR_ATOMIC], ROUNDS, 1);
	figure("hist/shared", "(a bare atomic add)", ns[ATOMIC], ROUNDS, 1);
}

/* ---- two threads ---- */

struct runner {
	pthread_t thread;
	unsigned cpu, contender, passes;
	pthread_barrier_t *start;
	double rate; /* values per ns of CPU time */
};

static void *runner(void *arg)
{
	struct runner *r = arg;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(r->cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		bench_die("cannot run on CPU %u", r->cpu);
	contenders[r->contender].run(8);
	pthread_barrier_wait(r->start);
	uint64_t begin = cpu_ns();
	contenders[r->contender].run(r->passes);
	r->rate = (double)r->passes * N_VALUES / (double)(cpu_ns() - begin);
	pthread_barrier_wait(r->start);
	return NULL;
}

/* Values per ns of n threads together. */
static double rate(unsigned contender, unsigned n, unsigned passes)
{
	const unsigned *cpus;
	struct runner r[2];
	pthread_barrier_t start;
	double sum = 0;
	bench_cpus(&cpus);
	pthread_barrier_init(&start, NULL, n);
	for (unsigned i = 0; i < n; i++) {
		r[i] = (struct runner){
			.cpu = cpus[i], .contender = contender, .passes = passes, .start = &start
		};
		if (pthread_create(&r[i].thread, NULL, runner, &r[i]))
			bench_die("no thread");
	}
	for (unsigned i = 0; i < n; i++) {
		pthread_join(r[i].thread, NULL);
		sum += r[i].rate;
	}
	pthread_barrier_destroy(&start);
	return sum;
}

static void two_threads(void)
{
	static const unsigned which[] = { MULTI, SHARED, ATOMIC, HDR_ATOMIC };
	enum { N = sizeof(which) / sizeof(which[0]), PAIRS = 31 };
	static double gain[N][PAIRS], ns[N][PAIRS];
	const unsigned *cpus;
	if (bench_cpus(&cpus) < 2) {
		printf("record, two threads: this host has one CPU\n");
		return;
	}
	fill(false);
	setup();
	for (unsigned round = 0; round < PAIRS; round++) {
		for (unsigned k = 0; k < N; k++) {
			unsigned passes = which[k] == MULTI ? PAIR_PASSES : PAIR_PASSES / 16;
			double one = rate(which[k], 1, passes), two = rate(which[k], 2, passes);
			gain[k][round] = two / one;
			ns[k][round] = 2 / two;
		}
	}
	printf("record, two threads on two CPUs: values per CPU time beside one thread, median of %d rounds\n",
	       PAIRS);
	for (unsigned k = 0; k < N; k++)
		printf("  %-40s %6.2f x   %7.2f ns per value and thread\n",
		       contenders[which[k]].what, bench_median(gain[k], PAIRS),
		       bench_median(ns[k], PAIRS));
	figure("hist/two", "ascribe", gain[0], PAIRS, 1);
	figure("hist/two", "HdrHistogram_c, atomic", gain[3], PAIRS, 1);
}

/* ---- questions ---- */

static struct hist_snapshot full, part;
static struct hdr_histogram *hdr_other;
static volatile uint64_t sink;

static void ask_quantile(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sink = hist_snapshot_quantile(&full, (i % 1000) / 1000.0).value;
}

static void ask_rank(unsigned n)
{
	uint64_t low, high;
	for (unsigned i = 0; i < n; i++) {
		hist_snapshot_rank(&full, values[i % N_VALUES], &low, &high);
		sink = high;
	}
}

static void ask_hdr_quantile(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sink = (uint64_t)hdr_value_at_percentile(hdr, (i % 1000) / 10.0);
}

static void merge(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		hist_snapshot_merge(&full, &part, NULL);
}

static void merge_hdr(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		hdr_add(hdr, hdr_other);
}

static void take(unsigned n)
{
	struct hist_snapshot s;
	for (unsigned i = 0; i < n; i++) {
		hist_snapshot_init(&s, own->bits);
		hist_snapshot_add(&s, own, NULL);
		hist_snapshot_fini(&s);
	}
}

static void moments(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sink = (uint64_t)hist_snapshot_moments(&full).deviation;
}

static double time_of(void (*f)(unsigned), unsigned n)
{
	uint64_t begin = cpu_ns();
	f(n);
	return (double)(cpu_ns() - begin) / n;
}

/* Every bucket of the range in use: the most that there is to do. */
static void questions(void)
{
	static const struct {
		const char *what;
		void (*f)(unsigned);
		unsigned n;
		const char *figure, *who; /* NULL: none */
	} asked[] = {
		{ "quantile of a snapshot", ask_quantile, 2000, "quantile", "ascribe" },
		{ "hdr_value_at_percentile", ask_hdr_quantile, 100, "quantile", "HdrHistogram_c" },
		{ "rank of a value", ask_rank, 2000, NULL, NULL },
		{ "merge of two snapshots", merge, 200, "merge", "ascribe" },
		{ "hdr_add", merge_hdr, 50, "merge", "HdrHistogram_c" },
		{ "taking a snapshot", take, 200, "take", "ascribe" },
		{ "mean and standard deviation", moments, 100, NULL, NULL },
	};
	enum { N = sizeof(asked) / sizeof(asked[0]) };
	static double ns[N][ROUNDS];
	setup();
	srand48(3);
	for (unsigned i = 0; i < 200000; i++) {
		uint64_t v = (uint64_t)exp2(drand48() * 63.99);
		hist_record_own(own, v);
		hdr_record_value(hdr, (int64_t)(v >> 23));
	}
	hdr_init(1, 3600ll * 1000 * 1000 * 1000, 2, &hdr_other);
	hdr_add(hdr_other, hdr);
	hist_snapshot_init(&full, own->bits);
	hist_snapshot_init(&part, own->bits);
	hist_snapshot_add(&full, own, NULL);
	hist_snapshot_add(&part, own, NULL);
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned k = 0; k < N; k++)
			ns[k][round] = time_of(asked[k].f, asked[k].n);
	printf("questions, 1%%, every bucket in use: us, median of %d rounds\n", ROUNDS);
	for (unsigned k = 0; k < N; k++) {
		char id[64];
		snprintf(id, sizeof(id), "hist/%s", asked[k].figure);
		if (asked[k].figure)
			figure(id, asked[k].who, ns[k], ROUNDS, 1000);
		else
			printf("  %-40s %8.3f\n", asked[k].what,
			       bench_median(ns[k], ROUNDS) / 1000);
	}
	hist_snapshot_fini(&full);
	hist_snapshot_fini(&part);
	hdr_close(hdr_other);
}

/* ---- memory ---- */

static void memory(void)
{
	double all = (double)hist_bytes(own); /* as questions() left it */
	fill(false);
	setup();
	run_own(1);
	double some = (double)hist_bytes(own), theirs = (double)hdr_get_memory_size(hdr);
	figure("part/hist", "ascribe", &all, 1, 1024);
	figure("part/hist", "HdrHistogram_c", &theirs, 1, 1024);
	figure("part/hist-some", "ascribe", &some, 1, 1024);
	figure("part/hist-some", "HdrHistogram_c", &theirs, 1, 1024);
}

int main(void)
{
	one_thread(false);
	one_thread(true);
	two_threads();
	questions();
	memory();
	return 0;
}
