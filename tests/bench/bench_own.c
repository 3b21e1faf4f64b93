/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_own [ROUNDS]: what the profiler itself costs at `-a -F 99` while every CPU is busy, beside
 * `perf record -a -g -F 99` on the same load. CPU time and memory are those that the kernel gives
 * for the ended process (wait4). A short and a long recording: what the long one costs more is the
 * steady state, the rest is starting and ending.
 */
#include "bench.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SHORT_S 10
#define LONG_S 50
#define ROUNDS_MAX 20

enum tool { OURS, PERF, DWARF, N_TOOLS };
static const char *const tool_name[N_TOOLS] = { "ascribe record -a -F 99",
						"perf record -a -g -F 99",
						"perf record -a --call-graph dwarf -F 99" };

struct result {
	double short_s[ROUNDS_MAX], long_s[ROUNDS_MAX], rss[ROUNDS_MAX], after[ROUNDS_MAX];
};

static char ascribe[4200], store[4200], data[4200];
static bool without_build_ids; /* perf */

/* Of what the last program said. */
static const char *last_line(void)
{
	static char line[512];
	char path[4200];
	snprintf(path, sizeof(path), "%s/err", bench_tmp());
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		;
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = 0;
	return line;
}

static struct bench_cost run(const char *const *argv, const char *what)
{
	struct bench_cost c = bench_wait(bench_spawn(argv, NULL, "err"));
	if (c.status)
		bench_die("%s failed: status %d: %s", what, c.status, last_line());
	return c;
}

/*
 * perf 6.1 aborts at its end when some process has mapped a file with a build id longer than 20
 * bytes.
 */
static struct bench_cost record_perf(enum tool t, const char *seconds)
{
	const char *stacks = t == PERF ? "-g" : "--call-graph=dwarf";
	const char *const usual[] = { "perf", "record", "-q", "-a",    stacks,	"-F", "99",
				      "-o",   data,	"--", "sleep", seconds, NULL };
	const char *const less[] = { "perf", "record", "-q", "-a", stacks,  "-F",    "99", "-B",
				     "-N",   "-o",     data, "--", "sleep", seconds, NULL };
	for (int i = 0; i < 3; i++) { /* a CPU that goes away is another of its ends */
		struct bench_cost c =
			bench_wait(bench_spawn(without_build_ids ? less : usual, NULL, "err"));
		if (!c.status)
			return c;
		without_build_ids |= WIFSIGNALED(c.status);
	}
	return run(less, tool_name[t]);
}

static struct bench_cost record(enum tool t, unsigned s)
{
	char seconds[16];
	snprintf(seconds, sizeof(seconds), "%u", s);
	const char *const ours[] = { ascribe, "record", "-q", "-a",  "-F", "99",
				     "-d",    seconds,	"-o", store, NULL };
	return t == OURS ? run(ours, tool_name[t]) : record_perf(t, seconds);
}

/* From the recording to a table of functions: what perf has not done yet, symbols, included. */
static struct bench_cost read_back(enum tool t)
{
	const char *const ours[] = { ascribe, "report", store, NULL };
	/* Inlined calls take minutes with stacks of 8 KiB. */
	const char *const perf[] = {
		"perf", "script", "-i", data, t == DWARF ? "--no-inline" : NULL, NULL
	};
	if (t == OURS)
		return run(ours, "ascribe report");
	struct bench_cost c = bench_wait(bench_spawn(perf, NULL, "err"));
	if (c.status) /* on the same build ids; what it had done until then would be no figure */
		c.cpu_s = NAN;
	return c;
}

static void one_round(struct result res[N_TOOLS], int r)
{
	for (int t = 0; t < N_TOOLS; t++)
		res[t].short_s[r] = record((enum tool)t, SHORT_S).cpu_s;
	for (int t = 0; t < N_TOOLS; t++) {
		struct bench_cost c = record((enum tool)t, LONG_S);
		res[t].long_s[r] = c.cpu_s;
		res[t].rss[r] = c.rss_mib;
		res[t].after[r] = read_back((enum tool)t).cpu_s;
	}
}

static void tell(const char *who, const struct result *r, size_t n)
{
	double whole[ROUNDS_MAX], steady[ROUNDS_MAX], start[ROUNDS_MAX];
	for (size_t i = 0; i < n; i++) {
		double a_second = (r->long_s[i] - r->short_s[i]) / (LONG_S - SHORT_S);
		whole[i] = 100 * r->long_s[i] / LONG_S;
		steady[i] = 100 * a_second;
		start[i] = 1000 * (r->short_s[i] - a_second * SHORT_S);
	}
	figure("record/cpu", who, whole, n, 1);
	figure("record/steady", who, steady, n, 1);
	figure("record/start", who, start, n, 1);
	figure("record/memory", who, r->rss, n, 1);
	if (!isnan(r->after[0]))
		figure("read/table", who, r->after, n, 1);
}

int main(int argc, char **argv)
{
	static struct result res[N_TOOLS];
	char demo[4200], threads[16];
	int rounds = argc > 1 ? atoi(argv[1]) : 2;
	if (rounds < 1 || rounds > ROUNDS_MAX)
		bench_die("rounds: 1 to %d", ROUNDS_MAX);
	snprintf(ascribe, sizeof(ascribe), "%s/ascribe", bench_build());
	snprintf(demo, sizeof(demo), "%s/demo", bench_build());
	snprintf(store, sizeof(store), "%s/store", bench_tmp());
	snprintf(data, sizeof(data), "%s/perf.data", bench_tmp());
	snprintf(threads, sizeof(threads), "%u", bench_cpus(NULL));
	const char *const load[] = { demo, "--threads", threads, "--seconds", "100000", NULL };
	pid_t server = bench_spawn(load, NULL, NULL);
	bench_sleep_ms(500);
	record(PERF, 1); /* with build ids or without: better known before than in the middle */
	for (int r = 0; r < rounds; r++)
		one_round(res, r);
	kill(server, SIGKILL);
	bench_wait(server);
	printf("Own cost with %u busy CPUs (the demo server), %d rounds\n", bench_cpus(NULL),
	       rounds);
	tell("ascribe", &res[OURS], (size_t)rounds);
	tell("perf -g", &res[PERF], (size_t)rounds);
	tell("perf dwarf", &res[DWARF], (size_t)rounds);
	if (without_build_ids)
		puts("  perf aborted on a build id; it was then run with -B -N, which leaves out what it usually does at its end");
	bench_cleanup();
	return 0;
}
