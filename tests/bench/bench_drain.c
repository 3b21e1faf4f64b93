/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_drain [ROUNDS]: samples that the kernel does not run because the profiler drains its
 * tables. Beside a program that nobody drains (what the machine itself skips: late timers, a
 * hypervisor), and beside the usual drain, a BPF hash map emptied once a second by batches. The
 * bpf() system calls of each drain are counted.
 */
#include "bench.h"

#include "bench.skel.h"
#include "sampler/events.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HZ_TOLD 4999
#define RECORD_MS 6000
#define DRAIN_MS 1000 /* of the hash map */
#define ENTRIES 40960
#define ROUNDS_MAX 20

struct tally {
	double expected, seen, stored;
	double drains_per_s;
	long long calls; /* of bpf(2), while it runs; -1: not known */
};

static struct bench_bpf *skel;

/* A counter of the bpf() calls of a process, -1 where the kernel has no such tracepoint. */
static int count_calls(pid_t tgid)
{
	struct event e;
	if (event_parse(&e, "syscalls:sys_enter_bpf", 1, NULL))
		return -1;
	e.attr.sample_period = 0;
	e.attr.disabled = 0;
	e.attr.inherit = 1;
	return (int)syscall(SYS_perf_event_open, &e.attr, tgid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static long long calls_so_far(int fd)
{
	uint64_t n;
	return fd >= 0 && !event_count(fd, &n) ? (long long)n : -1;
}

/* ---- programs of ours in here: with and without a drain ---- */

struct run {
	const struct event *event;
	int fd[BENCH_CPUS_MAX];
	struct bpf_link *link[BENCH_CPUS_MAX];
	unsigned n;
};

static void begin(struct run *r, struct bpf_program *prog, const struct event *e)
{
	const unsigned *cpu;
	struct err err;
	r->event = e;
	r->n = bench_cpus(&cpu);
	skel->bss->ran = 0;
	for (unsigned i = 0; i < r->n; i++) {
		if (event_open(e, (int)cpu[i], &r->fd[i], &err))
			bench_die("%s", err.text);
		r->link[i] = bpf_program__attach_perf_event(prog, r->fd[i]);
		if (!r->link[i])
			bench_die("attaching to %s: %s", e->name, strerror(errno));
	}
}

/* The events' own counts say what should have been seen. */
static void end(struct run *r, struct tally *t)
{
	for (unsigned i = 0; i < r->n; i++) {
		uint64_t ns = 0;
		ioctl(r->fd[i], PERF_EVENT_IOC_DISABLE, 0);
		event_count(r->fd[i], &ns);
		t->expected += (double)(ns / r->event->attr.sample_period);
		bpf_link__destroy(r->link[i]);
	}
	t->seen = (double)skel->bss->ran;
}

static double drain_map(void)
{
	static struct {
		uint64_t task, ns;
	} keys[ENTRIES];
	static uint64_t values[ENTRIES];
	__u32 batch, count = ENTRIES;
	int fd = bpf_map__fd(skel->maps.entries);
	if (bpf_map_lookup_and_delete_batch(fd, NULL, &batch, keys, values, &count, NULL) &&
	    errno != ENOENT)
		bench_die("draining the hash map: %s", strerror(errno));
	double sum = 0;
	for (__u32 i = 0; i < count; i++)
		sum += (double)values[i];
	return sum;
}

static struct tally run_undrained(const struct event *e)
{
	struct tally t = { .calls = 0 };
	struct run r;
	begin(&r, skel->progs.on_count, e);
	bench_sleep_ms(RECORD_MS);
	end(&r, &t);
	t.stored = t.seen;
	return t;
}

static struct tally run_map(const struct event *e)
{
	struct tally t = { .drains_per_s = 1000.0 / DRAIN_MS };
	struct run r;
	begin(&r, skel->progs.on_entry, e);
	int calls = count_calls(getpid());
	for (int i = 0; i < RECORD_MS / DRAIN_MS; i++) {
		bench_sleep_ms(DRAIN_MS);
		t.stored += drain_map();
	}
	t.calls = calls_so_far(calls);
	close(calls);
	end(&r, &t);
	t.stored += drain_map();
	return t;
}

/* ---- ascribe ---- */

static double drained_every(void)
{
	char path[4200], line[512];
	double s = 0;
	snprintf(path, sizeof(path), "%s/record.err", bench_tmp());
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *p = strstr(line, "drained every ");
		if (p)
			s = strtod(p + strlen("drained every "), NULL);
	}
	if (f)
		fclose(f);
	return s;
}

static double member(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

/* fired, what ran, what was stored: by `ascribe stat --json`. */
static void read_stat(const char *prog, const char *store, struct tally *t)
{
	char path[4200];
	json_error_t e;
	const char *const argv[] = { prog, "stat", store, "--json", NULL };
	if (bench_wait(bench_spawn(argv, "stat.json", NULL)).status)
		bench_die("%s stat failed", prog);
	snprintf(path, sizeof(path), "%s/stat.json", bench_tmp());
	json_t *root = json_load_file(path, 0, &e);
	if (!root)
		bench_die("%s stat: %s", prog, e.text);
	const json_t *lost = json_object_get(root, "lost");
	t->expected = member(root, "fired");
	t->seen = t->expected - member(lost, "not_run") - member(lost, "idle_not_run");
	t->stored = member(root, "stored");
	json_decref(root);
}

static struct tally run_ours(const struct event *e)
{
	char prog[4200], store[4200], hz[16];
	struct tally t = { 0 };
	snprintf(prog, sizeof(prog), "%s/ascribe", bench_build());
	snprintf(store, sizeof(store), "%s/store", bench_tmp());
	snprintf(hz, sizeof(hz), "%u", (unsigned)(1000000000u / e->attr.sample_period));
	const char *const argv[] = { prog,	  "record",    "-a", "-F",  hz,	 "-e",
				     "cpu-clock", "--explain", "-o", store, NULL };
	pid_t child = bench_spawn(argv, NULL, "record.err");
	for (int i = 0; i < 500 && !(t.drains_per_s = drained_every()); i++)
		bench_sleep_ms(20);
	int calls = count_calls(child);
	bench_sleep_ms(RECORD_MS);
	t.calls = calls_so_far(calls);
	close(calls);
	kill(child, SIGINT);
	if (bench_wait(child).status)
		bench_die("%s record failed", prog);
	t.drains_per_s = t.drains_per_s > 0 ? 1 / t.drains_per_s : 0;
	read_stat(prog, store, &t);
	return t;
}

/* ---- ---- */

static void add(struct tally *sum, const struct tally *t)
{
	sum->expected += t->expected;
	sum->seen += t->seen;
	sum->stored += t->stored;
	sum->drains_per_s = t->drains_per_s;
	sum->calls = t->calls < 0 || sum->calls < 0 ? -1 : sum->calls + t->calls;
}

static void print_tally(const char *what, const struct tally *t)
{
	printf("    %-42s %9.0f %9.0f %8.0f (%.3f %%) %9.0f %9.1f %12lld\n", what, t->expected,
	       t->seen, t->expected - t->seen,
	       t->expected ? 100 * (t->expected - t->seen) / t->expected : 0, t->stored,
	       t->drains_per_s, t->calls);
}

static void tell(const char *id, const char *who, const struct tally *t)
{
	double skipped = 100 * (t->expected - t->seen) / t->expected;
	figure(id, who, &skipped, 1, 1);
}

static void at_rate(unsigned hz, int rounds)
{
	struct event e;
	struct err err;
	struct tally none = { 0 }, ours = { 0 }, map = { 0 }, t;
	if (event_parse(&e, "cpu-clock", hz, &err))
		bench_die("%s", err.text);
	for (int r = 0; r < rounds; r++) {
		t = run_undrained(&e);
		add(&none, &t);
		t = run_ours(&e);
		add(&ours, &t);
		t = run_map(&e);
		add(&map, &t);
	}
	printf("\n  at %u Hz on %u busy CPUs, %d x %d s\n", hz, bench_cpus(NULL), rounds,
	       RECORD_MS / 1000);
	printf("    %-42s %9s %9s %18s %9s %9s %12s\n", "", "expected", "seen", "not run", "stored",
	       "drains/s", "bpf() calls");
	print_tally("no drain (counts only)", &none);
	print_tally("ascribe", &ours);
	print_tally("hash map, batch lookup + delete", &map);
	if (hz != HZ_TOLD)
		return;
	tell("drain/skipped", "ascribe", &ours);
	tell("drain/skipped", "a hash map that is drained", &map);
	tell("drain/skipped", "(without drains)", &none);
	double calls = (double)ours.calls;
	if (calls >= 0)
		figure("drain/calls", "ascribe", &calls, 1, 1);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 2;
	if (rounds < 1 || rounds > ROUNDS_MAX)
		bench_die("rounds: 1 to %d", ROUNDS_MAX);
	skel = bench_bpf__open_and_load();
	if (!skel)
		bench_die("loading the programs to compare with: %s", strerror(errno));
	bench_load_start("20", "label", NULL);
	printf("Samples that do not run: the kernel skips every sample of a CPU that is inside a bpf() map call\n");
	at_rate(999, rounds);
	at_rate(HZ_TOLD, rounds);
	bench_bpf__destroy(skel);
	bench_cleanup();
	return 0;
}
