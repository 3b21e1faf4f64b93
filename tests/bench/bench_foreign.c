/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_foreign [ROUNDS]: what reading labels costs the sampling program for one sample, by the
 * kernel's own statistics. Two recorders sample the same load at the same time, at rates that are
 * prime to each other: one reads the labels, the other was told not to. The figure is the
 * difference of their means, by the part of the runs that had labels.
 */
#include "bench.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEASURE_MS 1000
#define ROUNDS_MAX 101
#define LOADS_MAX 16

static const struct kind {
	const char *name, *what;
} kinds[] = {
	{ "own", "own ABI, two labels" },
	{ "otel", "OpenTelemetry, ids and 36 bytes" },
	{ "custom", "custom-labels, ten labels" },
	{ "path", "a label path of 4 steps" },
};

static const char recipe[] = "recipe bench\n"
			     "file bench_labelled_path\n"
			     "label session = symbol bench_server deref deref +8 u64 +8\n";

static void read_stats(int prog_fd, double *ret_ns, double *ret_runs)
{
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);
	if (bpf_obj_get_info_by_fd(prog_fd, &info, &size))
		bench_die("bpf_prog_info: %s", strerror(errno));
	*ret_ns = (double)info.run_time_ns;
	*ret_runs = (double)info.run_cnt;
}

/*
 * The program on_event of a process: a descriptor of our own, or -1. Not `but`: before its exec a
 * child has our descriptors.
 */
static int program_of(pid_t tgid, unsigned but, unsigned *ret_id)
{
	char path[64], file[400], line[128];
	int found = -1;
	snprintf(path, sizeof(path), "/proc/%d/fdinfo", tgid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && found < 0 && (e = readdir(d));) {
		unsigned id = 0;
		snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
		FILE *f = fopen(file, "re");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "prog_id: %u", &id) == 1)
				break;
		if (f)
			fclose(f);
		struct bpf_prog_info info = { 0 };
		__u32 size = sizeof(info);
		int fd = id ? bpf_prog_get_fd_by_id(id) : -1;
		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &size) &&
		    !strcmp(info.name, "on_event") && id != but) {
			found = fd;
			*ret_id = id;
		} else if (fd >= 0) {
			close(fd);
		}
	}
	if (d)
		closedir(d);
	return found;
}

struct recorder {
	pid_t tgid;
	int prog;
	unsigned id;
};

static struct recorder start(bool with_labels, const char *hz, unsigned but, const char *tgids)
{
	char prog[PATH_MAX + 32], store[PATH_MAX + 32], recipes[PATH_MAX + 32];
	snprintf(prog, sizeof(prog), "%s/ascribe", bench_build());
	snprintf(store, sizeof(store), "%s/%s", bench_tmp(), with_labels ? "with" : "without");
	snprintf(recipes, sizeof(recipes), "%s/bench.recipe", bench_tmp());
	const char *const argv[] = { prog, "record",	"-q", "-p",  tgids,	  "-F",	   hz,
				     "-e", "cpu-clock", "-o", store, "--recipes", recipes, NULL };
	setenv("ASCRIBE_LABELS", with_labels ? "yes" : "none", 1);
	struct recorder r = { bench_spawn(argv, NULL, "record.err"), -1, 0 };
	double ns, runs = 0;
	for (int i = 0; runs == 0 && i < 1000; i++) {
		bench_sleep_ms(20);
		if (r.prog < 0)
			r.prog = program_of(r.tgid, but, &r.id);
		if (r.prog >= 0)
			read_stats(r.prog, &ns, &runs);
	}
	if (r.prog < 0)
		bench_die("%s record did not start", prog);
	return r;
}

static void stop(struct recorder *r)
{
	close(r->prog);
	kill(r->tgid, SIGINT);
	if (bench_wait(r->tgid).status)
		bench_die("ascribe record failed");
}

static void measure(const struct recorder r[2], double ret_ns[2])
{
	double ns[2], runs[2], ns_then, runs_then;
	for (int i = 0; i < 2; i++)
		read_stats(r[i].prog, &ns[i], &runs[i]);
	bench_sleep_ms(MEASURE_MS);
	for (int i = 0; i < 2; i++) {
		read_stats(r[i].prog, &ns_then, &runs_then);
		if (runs_then - runs[i] < 100)
			bench_die("only %.0f samples in %d ms", runs_then - runs[i], MEASURE_MS);
		ret_ns[i] = (ns_then - ns[i]) / (runs_then - runs[i]);
	}
}

/*
 * The samples that had the label. What others do on this host runs the program too, and leaves it
 * at once, so the figure is divided by the part that was ours. The labels must have been read, or
 * the figure means nothing.
 */
static double labelled_samples(const char *key)
{
	char command[2 * PATH_MAX + 256], text[64];
	snprintf(command, sizeof(command),
		 "%s/ascribe report %s/with --by %s --json 2>/dev/null | jq "
		 "'[.rows[] | select(.key.%s != null) | .samples] | add // 0'",
		 bench_build(), bench_tmp(), key, key);
	FILE *f = popen(command, "r"); /* NOLINT(cert-env33-c): a benchmark */
	double n = f && fgets(text, sizeof(text), f) ? atof(text) : 0;
	if (f)
		pclose(f);
	if (n < 100)
		bench_die("the label '%s' is on %.0f samples only", key, n);
	return n;
}

static void run(const struct kind *k, int rounds)
{
	static const char *const key[] = { "tenant", "trace_id", "key_9", "session" };
	double ns[2], with[ROUNDS_MAX], without[ROUNDS_MAX], more[ROUNDS_MAX];
	char path[PATH_MAX + 64], cpu[16], tgids[16 * LOADS_MAX] = "";
	const unsigned *cpus;
	pid_t load[BENCH_CPUS_MAX];
	unsigned n = bench_cpus(&cpus);
	snprintf(path, sizeof(path), "%s/bench/bench_labelled_%s", bench_build(), k->name);
	for (unsigned i = 0; i < n && i < LOADS_MAX; i++) {
		snprintf(cpu, sizeof(cpu), "%u", cpus[i]);
		const char *const argv[] = { path, cpu, NULL };
		load[i] = bench_spawn(argv, NULL, NULL);
		snprintf(tgids + strlen(tgids), sizeof(tgids) - strlen(tgids), "%s%d", i ? "," : "",
			 load[i]);
	}
	struct recorder r[2];
	r[0] = start(true, "999", 0, tgids);
	r[1] = start(false, "997", r[0].id, tgids);
	bench_sleep_ms(700);
	for (int i = 0; i < rounds; i++) {
		measure(r, ns);
		with[i] = ns[0];
		without[i] = ns[1];
		more[i] = ns[0] - ns[1];
	}
	double unused, runs;
	read_stats(r[0].prog, &unused, &runs);
	for (int i = 0; i < 2; i++)
		stop(&r[i]);
	for (unsigned i = 0; i < n && i < LOADS_MAX; i++) {
		kill(load[i], SIGKILL);
		bench_wait(load[i]);
	}
	double share = labelled_samples(key[k - kinds]) / runs;
	printf("    %-34s with %5.0f ns, without %5.0f; on %.0f%% of the runs\n", k->what,
	       bench_median(with, (size_t)rounds), bench_median(without, (size_t)rounds),
	       share * 100);
	snprintf(path, sizeof(path), "label-sample/%s", k->name);
	figure(path, "ascribe", more, (size_t)rounds, share);
}

int main(int argc, char **argv)
{
	char path[PATH_MAX + 32];
	int rounds = argc > 1 ? atoi(argv[1]) : 9;
	if (rounds < 1 || rounds > ROUNDS_MAX)
		bench_die("rounds: 1 to %d", ROUNDS_MAX);
	bench_first();
	int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (stats < 0)
		bench_die("BPF statistics: %s (root is needed)", strerror(errno));
	snprintf(path, sizeof(path), "%s/bench.recipe", bench_tmp());
	FILE *f = fopen(path, "we");
	if (!f || fputs(recipe, f) < 0 || fclose(f))
		bench_die("%s: %s", path, strerror(errno));
	printf("BPF run time that labels add to a sample, %d rounds of 1 s: two recorders on the same load, one of which does not\n"
	       "read labels\n",
	       rounds);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		run(&kinds[i], rounds);
	close(stats);
	bench_cleanup();
	return 0;
}
