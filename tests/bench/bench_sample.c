/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_sample [ROUNDS]: the run time of our BPF program for one sample, by the kernel's own
 * statistics (BPF_ENABLE_STATS), beside an empty program and the usual way. All three run at the
 * same time, each on events of its own, at rates that are prime to each other. A slow moment of the
 * machine meets all, and the ratio stands.
 */
#include "bench.h"

#include "bench.skel.h"
#include "sampler/events.h"

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

#define HZ_OURS "999"
#define MEASURE_MS 1000
#define ROUNDS_MAX 101

enum way { WAY_EMPTY, WAY_USUAL, WAY_OURS, N_WAYS };
static const char *const way_name[N_WAYS] = { "(an empty program)", "stack ids and a hash map",
					      "ascribe" };
static const unsigned way_hz[N_WAYS] = { 991, 997, 999 };

struct load {
	const char *id, *what, *frames, *label, *cold;
};

static const struct load load[] = {
	{ "sample/frames20", "20 frames, 1 label", "20", "label", NULL },
	{ "sample/unlabelled20", "20 frames, no label", "20", NULL, NULL },
	{ "sample/frames50", "50 frames, 1 label", "50", "label", NULL },
	{ "sample/cold", "20 frames, 1 label, a load that misses the caches", "20", "label",
	  "cold" },
};

static struct bench_bpf *skel;

struct links {
	struct bpf_link *v[BENCH_CPUS_MAX];
	unsigned n;
};

static void attach(struct links *l, struct bpf_program *prog, unsigned hz)
{
	const unsigned *cpu;
	struct event e;
	struct err err;
	if (event_parse(&e, "cpu-clock", hz, &err))
		bench_die("%s", err.text);
	l->n = bench_cpus(&cpu);
	for (unsigned i = 0; i < l->n; i++) {
		int fd;
		if (event_open(&e, (int)cpu[i], &fd, &err))
			bench_die("%s", err.text);
		l->v[i] = bpf_program__attach_perf_event(prog, fd); /* enables it too */
		if (!l->v[i])
			bench_die("attaching to %s: %s", e.name, strerror(errno));
	}
}

static void detach(struct links *l)
{
	while (l->n)
		bpf_link__destroy(l->v[--l->n]);
}

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
 * The mean run time of each program for one sample while we sleep. Ours also runs at ticks that are
 * no samples: these are part of the cost, but do not count as samples.
 */
static void measure(const int prog_fd[N_WAYS], double ret_ns[N_WAYS])
{
	double ns[N_WAYS], runs[N_WAYS], ns_then, runs_then;
	uint64_t begin_ns[N_WAYS];
	const unsigned *cpu;
	unsigned n_cpus = bench_cpus(&cpu);
	for (int w = 0; w < N_WAYS; w++) {
		begin_ns[w] = bench_now_ns();
		read_stats(prog_fd[w], &ns[w], &runs[w]);
	}
	bench_sleep_ms(MEASURE_MS);
	for (int w = 0; w < N_WAYS; w++) {
		read_stats(prog_fd[w], &ns_then, &runs_then);
		if (w == WAY_OURS)
			runs_then = runs[w] + (double)(bench_now_ns() - begin_ns[w]) / 1e9 *
						      way_hz[w] * n_cpus;
		if (runs_then - runs[w] < 100)
			bench_die("%s: only %.0f samples in %d ms", way_name[w],
				  runs_then - runs[w], MEASURE_MS);
		ret_ns[w] = (ns_then - ns[w]) / (runs_then - runs[w]);
	}
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
		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &size) &&
		    !strcmp(info.name, name))
			found = fd;
		else if (fd >= 0)
			close(fd);
	}
	if (d)
		closedir(d);
	return found;
}

/* A recorder that samples; *ret_prog is a descriptor of its program. */
static pid_t start_ours(int *ret_prog)
{
	char prog[4200], store[4200];
	snprintf(prog, sizeof(prog), "%s/ascribe", bench_build());
	snprintf(store, sizeof(store), "%s/store", bench_tmp());
	const char *const argv[] = { prog, "record",	"-q", "-a",  "-F", HZ_OURS,
				     "-e", "cpu-clock", "-o", store, NULL };
	pid_t child = bench_spawn(argv, NULL, "record.err");
	double ns, runs = 0;
	int fd = -1;
	for (int i = 0; runs == 0 && i < 1000; i++) {
		bench_sleep_ms(20);
		if (fd < 0)
			fd = program_of(child, "on_event");
		if (fd >= 0)
			read_stats(fd, &ns, &runs);
	}
	if (fd < 0)
		bench_die("%s record did not start (see how: %s record -d 1s)", prog, prog);
	bench_sleep_ms(500); /* processes become known */
	*ret_prog = fd;
	return child;
}

static void stop_ours(pid_t child, int prog)
{
	close(prog);
	kill(child, SIGINT);
	if (bench_wait(child).status)
		bench_die("ascribe record failed");
}

/* ---- ---- */

/* The depth that most user stacks have under the load. */
static unsigned depth(void)
{
	struct links l;
	memset(skel->bss->frames, 0, sizeof(skel->bss->frames));
	attach(&l, skel->progs.on_depth, 999);
	bench_sleep_ms(300);
	detach(&l);
	unsigned most = 0;
	for (unsigned i = 0; i < 128; i++)
		if (skel->bss->frames[i] > skel->bss->frames[most])
			most = i;
	return most;
}

static void run_load(const struct load *c, int rounds)
{
	double ns[N_WAYS][ROUNDS_MAX], now[N_WAYS];
	struct links empty, usual;
	int prog[N_WAYS] = { bpf_program__fd(skel->progs.on_empty),
			     bpf_program__fd(skel->progs.on_stackid), -1 };
	bench_load_start(c->frames, c->label, c->cold);
	pid_t child = start_ours(&prog[WAY_OURS]);
	unsigned deep = depth();
	attach(&empty, skel->progs.on_empty, way_hz[WAY_EMPTY]);
	attach(&usual, skel->progs.on_stackid, way_hz[WAY_USUAL]);
	bench_sleep_ms(100);
	for (int r = 0; r < rounds; r++) {
		measure(prog, now);
		for (int w = 0; w < N_WAYS; w++)
			ns[w][r] = now[w];
	}
	detach(&usual);
	detach(&empty);
	stop_ours(child, prog[WAY_OURS]);
	bench_load_stop();
	printf("\n  %s (user stacks of %u frames, measured)\n", c->what, deep);
	for (int w = 0; w < N_WAYS; w++)
		figure(c->id, way_name[w], ns[w], (size_t)rounds, 1000);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 9;
	if (rounds < 1 || rounds > ROUNDS_MAX)
		bench_die("rounds: 1 to %d", ROUNDS_MAX);
	/* what else runs here is sampled too: let it be little */
	setpriority(PRIO_PROCESS, 0, -10);
	int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (stats < 0)
		bench_die("BPF statistics: %s (root is needed)", strerror(errno));
	skel = bench_bpf__open_and_load();
	if (!skel)
		bench_die("loading the programs to compare with: %s", strerror(errno));
	printf("BPF run time per sample, cpu-clock at %s Hz on %u busy CPUs, %d rounds of 1 s (the kernel's statistics, their\n"
	       "own cost included; all ways at the same time)\n",
	       HZ_OURS, bench_cpus(NULL), rounds);
	for (size_t i = 0; i < sizeof(load) / sizeof(load[0]); i++)
		run_load(&load[i], rounds);
	bench_bpf__destroy(skel);
	close(stats);
	bench_cleanup();
	return 0;
}
