/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_sample [ROUNDS]: the run time of our BPF program for one sample, by the kernel's own statistics
 * (BPF_ENABLE_STATS), beside an empty program and the usual way. The ways take turns within each round.
 */
#include "bench.h"

#include "bench.skel.h"
#include "collect/events.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define HZ 999
#define MEASURE_MS 1000
#define LIMIT_US 2.5
#define ROUNDS_MAX 101

enum way { WAY_EMPTY, WAY_USUAL, WAY_OURS, N_WAYS };
static const char *const way_name[N_WAYS] = { "empty program", "stack ids + hash map", "ascribe" };

struct load {
	const char *what, *frames, *label, *cold;
	int rounds_in; /* of so many of the given rounds, one is done for this load */
};

static const struct load load[] = {
	{ "20 frames, 1 label", "20", "label", NULL, 1 },
	{ "20 frames, no label", "20", NULL, NULL, 2 },
	{ "50 frames, 1 label", "50", "label", NULL, 2 },
	{ "20 frames, 1 label, a load that misses the caches", "20", "label", "cold", 2 },
};

static struct event event;
static struct bench_bpf *skel;

struct links {
	struct bpf_link *v[BENCH_CPUS_MAX];
	unsigned n;
};

static void attach(struct links *l, struct bpf_program *prog)
{
	const unsigned *cpu;
	struct err err;
	l->n = bench_cpus(&cpu);
	for (unsigned i = 0; i < l->n; i++) {
		int fd;
		if (event_open(&event, (int)cpu[i], &fd, &err))
			bench_die("%s", err.text);
		l->v[i] = bpf_program__attach_perf_event(prog, fd); /* enables it too */
		if (!l->v[i])
			bench_die("attaching to %s: %s", event.name, strerror(errno));
	}
}

static void detach(struct links *l)
{
	while (l->n)
		bpf_link__destroy(l->v[--l->n]);
}

/* Mean run time of a program while we sleep. */
static double measure(int prog_fd)
{
	struct bpf_prog_info a = { 0 }, b = { 0 };
	__u32 size = sizeof(a);
	bench_sleep_ms(100); /* the first samples fill caches and tables */
	if (bpf_obj_get_info_by_fd(prog_fd, &a, &size))
		bench_die("bpf_prog_info: %s", strerror(errno));
	bench_sleep_ms(MEASURE_MS);
	size = sizeof(b);
	if (bpf_obj_get_info_by_fd(prog_fd, &b, &size))
		bench_die("bpf_prog_info: %s", strerror(errno));
	if (b.run_cnt - a.run_cnt < 100)
		bench_die("only %llu samples in %d ms", (unsigned long long)(b.run_cnt - a.run_cnt), MEASURE_MS);
	return (double)(b.run_time_ns - a.run_time_ns) / (double)(b.run_cnt - a.run_cnt);
}

static double measure_program(struct bpf_program *prog)
{
	struct links l;
	attach(&l, prog);
	double ns = measure(bpf_program__fd(prog));
	detach(&l);
	return ns;
}

/* ---- our own program, in a recorder that runs as usual ---- */

/* The program `name` among the descriptors of a process: a descriptor of our own, or -1. */
static int program_of(pid_t tgid, const char *name)
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
		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &size) && !strcmp(info.name, name))
			found = fd;
		else if (fd >= 0)
			close(fd);
	}
	if (d)
		closedir(d);
	return found;
}

static void wait_for_samples(int prog_fd)
{
	bool any = false;
	for (int i = 0; i < 500 && !any; i++) {
		struct bpf_prog_info info = { 0 };
		__u32 size = sizeof(info);
		bench_sleep_ms(20);
		if (bpf_obj_get_info_by_fd(prog_fd, &info, &size))
			bench_die("bpf_prog_info: %s", strerror(errno));
		any = info.run_cnt > 0;
	}
}

static double measure_ours(void)
{
	char prog[4200], store[4200], hz[16];
	snprintf(prog, sizeof(prog), "%s/ascribe", bench_build());
	snprintf(store, sizeof(store), "%s/store", bench_tmp());
	snprintf(hz, sizeof(hz), "%d", HZ);
	const char *const argv[] = { prog, "record", "-q", "-a", "-F", hz, "-e", "cpu-clock", "-o", store, NULL };
	pid_t child = bench_spawn(argv, NULL, "record.err");
	int fd = -1;
	for (int i = 0; fd < 0 && i < 500; i++) {
		bench_sleep_ms(20);
		fd = program_of(child, "on_event");
	}
	if (fd < 0)
		bench_die("%s record did not start (see how: %s record -d 1s)", prog, prog);
	wait_for_samples(fd);
	bench_sleep_ms(400); /* processes become known */
	double ns = measure(fd);
	close(fd);
	kill(child, SIGINT);
	if (bench_wait(child).status)
		bench_die("%s record failed", prog);
	return ns;
}

/* ---- ---- */

/* The depth that most user stacks have under the load. */
static unsigned depth(void)
{
	struct links l;
	memset(skel->bss->frames, 0, sizeof(skel->bss->frames));
	attach(&l, skel->progs.on_depth);
	bench_sleep_ms(300);
	detach(&l);
	unsigned most = 0;
	for (unsigned i = 0; i < 128; i++)
		if (skel->bss->frames[i] > skel->bss->frames[most])
			most = i;
	return most;
}

static double run_load(const struct load *c, int rounds)
{
	double ns[N_WAYS][ROUNDS_MAX], best[N_WAYS], median[N_WAYS];
	bench_load_start(c->frames, c->label, c->cold);
	unsigned deep = depth();
	for (int r = 0; r < rounds; r++) {
		ns[WAY_EMPTY][r] = measure_program(skel->progs.on_empty);
		ns[WAY_USUAL][r] = measure_program(skel->progs.on_stackid);
		ns[WAY_OURS][r] = measure_ours();
	}
	bench_load_stop();
	for (int w = 0; w < N_WAYS; w++) {
		median[w] = bench_median(ns[w], (size_t)rounds);
		best[w] = ns[w][0];
	}
	printf("\n  %s (user stacks of %u frames, measured); %d rounds\n", c->what, deep, rounds);
	for (int w = 0; w < N_WAYS; w++)
		printf("    %-24s median %6.0f ns   best %6.0f   above empty %6.0f   %5.2f x the usual way\n", way_name[w],
		       median[w], best[w], median[w] - median[WAY_EMPTY], median[w] / median[WAY_USUAL]);
	return median[WAY_OURS];
}

int main(int argc, char **argv)
{
	struct err err;
	int rounds = argc > 1 ? atoi(argv[1]) : 7;
	if (rounds < 1 || rounds > ROUNDS_MAX)
		bench_die("rounds: 1 to %d", ROUNDS_MAX);
	if (event_parse(&event, "cpu-clock", HZ, &err))
		bench_die("%s", err.text);
	setpriority(PRIO_PROCESS, 0, -10); /* what else runs here is sampled too: let it be little */
	int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (stats < 0)
		bench_die("BPF statistics: %s (root is needed)", strerror(errno));
	skel = bench_bpf__open_and_load();
	if (!skel)
		bench_die("loading the programs to compare with: %s", strerror(errno));
	printf("BPF run time per sample, cpu-clock at %d Hz on %u busy CPUs (the kernel's statistics, their own cost included)\n",
	       HZ, bench_cpus(NULL));
	for (size_t i = 0; i < sizeof(load) / sizeof(load[0]); i++) {
		double ns = run_load(&load[i], (rounds + load[i].rounds_in - 1) / load[i].rounds_in);
		if (i == 0)
			bench_verdict("BPF run time per sample", ns / 1000, LIMIT_US, "us");
	}
	bench_bpf__destroy(skel);
	close(stats);
	bench_cleanup();
	return 0;
}
