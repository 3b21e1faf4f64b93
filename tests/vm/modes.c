/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that are booted in another way (boot SERIES+MODE): isolated CPUs, a locked-down kernel,
 * many CPUs, cgroup v1, and a kernel whose types are not known.
 */
#include "answers.h"
#include "commands.h"
#include "control.h"
#include "tests.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* `guest burn`, for as long as it is let. cpu: the one to run on, -1: any. */
static pid_t burn(int cpu)
{
	pid_t child = fork();
	if (child)
		return child;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu < 0 ? 0 : cpu, &set);
	if (cpu >= 0 && sched_setaffinity(0, sizeof(set), &set))
		_exit(126);
	execlp("guest", "guest", "burn", "600000", NULL);
	_exit(127);
}

static double samples(const char *store, const char *key, const char *value)
{
	json_t *r = ask("report %s --by %s -n 0", store, key);
	const double n = rows(r, "samples", key, value, NULL);
	json_decref(r);
	return n;
}

static bool file_has(const char *path, const char *text)
{
	char line[256] = "";
	FILE *f = fopen(path, "re");
	const bool has = f && fgets(line, sizeof(line), f) && strstr(line, text);
	if (f)
		fclose(f);
	return has;
}

/* ---- CPU 1 has no tick and is isolated ---- */

#define KINDS 64

struct interrupts { /* of CPU 1 */
	char name[KINDS][8];
	double n[KINDS];
	int kinds;
};

struct disturbance {
	struct interrupts interrupts;
	double all;	 /* of them, without works */
	double works;	 /* interrupts to itself (irq_work), which wake a reader of a ring */
	double switches; /* of the thread that alone runs there */
};

/* Each line of /proc/interrupts has a number for each CPU. */
static struct interrupts interrupts_now(void)
{
	char line[1000];
	struct interrupts i = { 0 };
	FILE *f = fopen("/proc/interrupts", "re");
	while (f && i.kinds < KINDS && fgets(line, sizeof(line), f))
		i.kinds += sscanf(line, " %7[^:]: %*u %lf", i.name[i.kinds], &i.n[i.kinds]) == 2;
	if (f)
		fclose(f);
	return i;
}

static double switches_of(pid_t process)
{
	char path[64], line[256];
	double sum = 0, n;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)process);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "nonvoluntary_ctxt_switches: %lf", &n) == 1 ||
		    sscanf(line, "voluntary_ctxt_switches: %lf", &n) == 1)
			sum += n;
	if (f)
		fclose(f);
	return sum;
}

static struct disturbance disturbance_now(pid_t process)
{
	return (struct disturbance){ .interrupts = interrupts_now(),
				     .switches = switches_of(process) };
}

static struct disturbance disturbance_since(pid_t process, const struct disturbance *from)
{
	struct disturbance d = disturbance_now(process);
	d.switches -= from->switches;
	for (int i = 0; i < d.interrupts.kinds; i++) {
		d.interrupts.n[i] -= from->interrupts.n[i];
		*(strcmp(d.interrupts.name[i], "IWI") ? &d.all : &d.works) += d.interrupts.n[i];
	}
	return d;
}

static void show(const char *what, const struct disturbance *d)
{
	printf("nohz| %s: %.0f interrupts, %.0f switches", what, d->all, d->switches);
	for (int i = 0; i < d->interrupts.kinds; i++)
		if (d->interrupts.n[i] > 0)
			printf(", %s %.0f", d->interrupts.name[i], d->interrupts.n[i]);
	putchar('\n');
}

#define ISOLATED_MS 4000
#define WARM_MS 10000 /* until the recorder has the rules of the program, and copies no stacks */

/* What happens on CPU 1 for a while. */
static struct disturbance disturbed(pid_t process, const char *what)
{
	const struct disturbance begin = disturbance_now(process);
	rest(ISOLATED_MS);
	const struct disturbance d = disturbance_since(process, &begin);
	show(what, &d);
	return d;
}

/* Recorded meanwhile; the recorder's exit status. */
static int record_isolated(pid_t process, const char *options, struct disturbance *ret)
{
	pid_t recorder = record("-a %s", options);
	rest(WARM_MS);
	*ret = disturbed(process, options);
	return stop(recorder);
}

/* A thread of the highest priority that never gives way: nothing else runs there, ours included. */
static void test_never_gives_way(void)
{
	const struct sched_param p = { .sched_priority = 99 };
	bool can = put("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	pid_t busy = burn(1);
	can = can && !sched_setscheduler(busy, SCHED_FIFO, &p);
	const int status = run(NULL, 0, "ascribe record -q -a --wall -d 1 -o /tmp/fifo");
	end_child(busy);
	const double n = samples("/tmp/fifo", "comm", "guest");
	check(can && !status && n > 0, "nohz-fifo", "status %d, %.0f samples", status, n);
}

/*
 * The thread there is sampled, and disturbed by its samples only: by 1.4 times the interrupts of
 * plain perf's clock (user/sampler/events.c), and by no other thread.
 */
void test_nohz_full(void)
{
	const double wanted = ISOLATED_MS / 1000.0 * HZ;
	struct disturbance alone, plain, cpu, wall;
	check(file_has("/sys/devices/system/cpu/nohz_full", "1") &&
		      file_has("/sys/devices/system/cpu/isolated", "1"),
	      "nohz-mode", "CPU 1 is isolated, and has no tick");
	pid_t busy = burn(1);
	rest(500);
	alone = disturbed(busy, "alone");
	control_begin();
	plain = disturbed(busy, "plain perf");
	control_end();
	int status = record_isolated(busy, "-o /tmp/isolated", &cpu);
	int status_wall = record_isolated(busy, "--wall --waker -o /tmp/isolated-wall", &wall);
	end_child(busy);
	const double n = samples("/tmp/isolated", "comm", "guest");
	json_t *o = ask("stat /tmp/isolated"), *w = ask("stat /tmp/isolated-wall");
	const double fired = number(json_array_get(json_object_get(o, "cpus"), 1), "fired");
	/* Each copied stack wakes the recorder. */
	const double copied = number(json_object_get(o, "flagged"), "copied"),
		     copied_wall = number(json_object_get(w, "flagged"), "copied");
	json_decref(o);
	json_decref(w);
	check(!status && !status_wall && n > 0.6 * wanted && n > 0.6 * fired && n <= fired,
	      "nohz-samples", "status %d and %d, %.0f samples of %.0f", status, status_wall, n,
	      fired);
	const double most = 1.4 * plain.all + 40;
	check(cpu.all < most && wall.all < most && cpu.works <= copied + 20 &&
		      wall.works <= copied_wall + 20,
	      "nohz-interrupts",
	      "%.0f with plain perf, %.0f recorded, %.0f with waits, %.0f with none; woken %.0f "
	      "and %.0f, copied %.0f and %.0f",
	      plain.all, cpu.all, wall.all, alone.all, cpu.works, wall.works, copied, copied_wall);
	check(cpu.switches <= alone.switches + 2 && wall.switches <= alone.switches + 2,
	      "nohz-switches",
	      "%.0f recorded, %.0f with waits, %.0f with plain perf, %.0f with none", cpu.switches,
	      wall.switches, plain.switches, alone.switches);
	accounting("nohz-accounting", "/tmp/isolated", -1);
	accounting("nohz-wall-accounting", "/tmp/isolated-wall", -1);
	test_never_gives_way();
}

/* ---- what the kernel forbids ---- */

void test_integrity(void)
{
	check(file_has("/sys/kernel/security/lockdown", "[integrity]"), "lockdown-mode",
	      "integrity");
}

/* `check` and `record` say the same, and nothing is recorded. */
static void check_refused(const char *name, const char *of_check, const char *why,
			  const char *what_to_do)
{
	char checks[8000] = "", text[1000] = "", part[40];
	const int status_check = run(checks, sizeof(checks), "ascribe check 2>&1"),
		  status =
			  run(text, sizeof(text), "ascribe record -q -a -d 1 -o /tmp/refused 2>&1");
	char *line = strstr(checks, of_check);
	if (line)
		line[strcspn(line, "\n")] = 0;
	snprintf(part, sizeof(part), "%s-check", name);
	check(status_check == 1 && line && strstr(line, why) && strstr(line, what_to_do), part,
	      "status %d, %.200s", status_check, line ? line : "-");
	snprintf(part, sizeof(part), "%s-record", name);
	json_t *o = ask("stat /tmp/refused");
	check(status == 1 && strstr(text, why) && strstr(text, what_to_do) && !number(o, "stored"),
	      part, "status %d, %.0f stored, %.300s", status, number(o, "stored"), text);
	json_decref(o);
}

void test_confidentiality(void)
{
	check(file_has("/sys/kernel/security/lockdown", "[confidentiality]"), "lockdown-mode",
	      "confidentiality");
	check_refused("lockdown", "FAIL  lockdown", "lockdown", "lockdown=integrity");
}

void test_no_btf(void)
{
	check_refused("btf", "FAIL  BTF", "BTF", "CONFIG_DEBUG_INFO_BTF=y");
}

/* ---- many CPUs ---- */

#define PINNED 8

/* What `check` says of the programs: the size of the tables. */
static void tables_text(char *out, size_t cap)
{
	json_t *o = ask("check"), *c;
	size_t i;
	json_array_foreach(json_object_get(o, "checks"), i, c)
	{
		const char *name = json_string_value(json_object_get(c, "check")),
			   *text = json_string_value(json_object_get(c, "text"));
		if (name && text && !strcmp(name, "BPF"))
			snprintf(out, cap, "%s", text);
	}
	json_decref(o);
}

void test_many_cpus(void)
{
	struct timespec t0, t1;
	const int n_cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	pid_t pinned[PINNED];
	double least = 1e9, all = 0;
	char tables[200] = "";
	tables_text(tables, sizeof(tables));
	for (int i = 0; i < PINNED; i++)
		pinned[i] = burn(i * (n_cpus - 1) / (PINNED - 1));
	clock_gettime(CLOCK_MONOTONIC, &t0);
	pid_t recorder = record("-a -o /tmp/cpus");
	clock_gettime(CLOCK_MONOTONIC, &t1);
	rest(10000);
	for (int i = 0; i < PINNED; i++)
		end_child(pinned[i]);
	const int status = stop(recorder);
	for (int i = 0; i < PINNED; i++) {
		char tgid[32];
		snprintf(tgid, sizeof(tgid), "%d", (int)pinned[i]);
		const double n = samples("/tmp/cpus", "tgid", tgid);
		least = n < least ? n : least;
		all += n;
	}
	json_t *o = ask("stat /tmp/cpus");
	const json_t *own = json_object_get(o, "own");
	const size_t told = json_array_size(json_object_get(o, "cpus"));
	check(!status && (int)told == n_cpus, "cpus-recorded",
	      "status %d, %zu of %d CPUs, recorded after %.1f s; %s", status, told, n_cpus,
	      (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9, tables);
	check(least > 0, "cpus-pinned", "%.0f samples of %d processes, %.0f or more of each", all,
	      PINNED, least);
	check(adds_up(o) && number(own, "rss_bytes") > 0, "cpus-memory",
	      "fired %.0f, stored %.0f; the recorder has %.1f MiB", number(o, "fired"),
	      number(o, "stored"), number(own, "rss_bytes") / 0x1p20);
	json_decref(o);
	accounting("cpus-accounting", "/tmp/cpus", -1);
}

/* ---- cgroup v1 ---- */

#define CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define V1 "/sys/fs/cgroup/cpu"

/* A busy process in a cgroup that is made for it: of one hierarchy. */
static pid_t burn_in(const char *dir)
{
	char path[300];
	mkdir(dir, 0755);
	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	pid_t child = burn(-1);
	char text[32];
	snprintf(text, sizeof(text), "%d", (int)child);
	if (!put(path, text))
		printf("%s: %s\n", path, strerror(errno));
	return child;
}

/* Labels by the paths of v1. */
static void check_v1(void)
{
	pid_t work = burn_in(V1 "/work");
	mkdir(V1 "/docker", 0755);
	pid_t container = burn_in(V1 "/docker/" CONTAINER);
	rest(300);
	const int status = run(NULL, 0, "ascribe record -q -a -F 99 -d 2 -o /tmp/v1");
	end_child(work);
	end_child(container);
	const double n = samples("/tmp/v1", "cgroup", "/work"),
		     in = samples("/tmp/v1", "container_id", CONTAINER);
	char tgid[32];
	snprintf(tgid, sizeof(tgid), "%d", (int)work);
	const double all = samples("/tmp/v1", "tgid", tgid);
	check(!status && n > 10 && n == all && in > 10, "cgroup-v1",
	      "status %d, %.0f of %.0f samples in /work, %.0f of a container", status, n, all, in);
}

void test_cgroup_v1(void)
{
	char text[500] = "";
	check_v1();
	const int status = run(text, sizeof(text),
			       "ascribe record -q -d 1 -G " V1 "/work -o /tmp/refused 2>&1");
	check(status == 1 && strstr(text, "cgroups of v1"), "cgroup-v1-choice", "status %d, %.200s",
	      status, text);
}

/* As systemd's hybrid: controllers in v1, all processes in v2, too. */
void test_cgroup_hybrid(void)
{
	check_v1();
	test_cgroup();
}
