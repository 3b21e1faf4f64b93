/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests of the built program in a virtual machine: record known work (guest.c), read what was
 * stored through the commands' JSON, compare. One line "PASS name: figures" or "FAIL name: figures"
 * each, at the end "RESULT n passed, m failed".
 *
 * `ascribe` and `guest` are found by PATH; stores are written to /tmp. The machine is emulated:
 * nothing here asks for more than 99 samples per second, or for any speed.
 */
#include "answers.h"
#include "commands.h"
#include "control.h"
#include "tests.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static bool checks_pass(void)
{
	json_t *o = ask("check"), *c;
	int good = 0;
	size_t i;
	json_array_foreach(json_object_get(o, "checks"), i, c)
	{
		const char *name = json_string_value(json_object_get(c, "check"));
		const char *result = json_string_value(json_object_get(c, "result"));
		const char *text = json_string_value(json_object_get(c, "text"));
		bool needed = name && (!strncmp(name, "BPF", 3) || !strcmp(name, "BTF") ||
				       !strcmp(name, "kernel symbols"));
		if (needed && result && !strcmp(result, "ok"))
			good++;
		else if (needed || (result && !strcmp(result, "FAIL")))
			printf("%s: %s\n", name ? name : "", text ? text : "");
	}
	bool ok = json_is_true(json_object_get(o, "ok")) && good == 4;
	json_decref(o);
	return ok;
}

/* The limits of what a keeper gives, by the unit test: the kernel tells what is still in use. */
static void test_keeper(void)
{
	char text[2000];
	int status =
		run(text, sizeof(text), "test_lent %s", getenv("ASCRIBE_TEST_ALL") ? "" : "quick");
	char *last = strstr(text, "FAILED");
	check(!status, "keeper", "test_lent ended with %d%s%.300s", status, last ? ": " : "",
	      last ? last : "");
}

static void test_check(void)
{
	check(checks_pass(), "check", "BPF, BPF for --wall, BTF, kernel symbols");
}

/*
 * Load the BPF programs of each compiler. A kernel's verifier may accept what one compiler makes
 * and refuse what another makes. /clang-N/ascribe was made by clang N.
 */
static void test_compilers(void)
{
	char tried[200] = "", path[300];
	bool ok = true;
	glob_t g;
	if (glob("/clang-*", 0, NULL, &g))
		g.gl_pathc = 0;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		snprintf(path, sizeof(path), "%s:/bin", g.gl_pathv[i]);
		setenv("PATH", path, 1);
		/* check loads what --wall --waker needs; --wall alone has other programs */
		int status = run(NULL, 0, "ascribe record -q --wall -o /tmp%s -- sleep 0.1",
				 g.gl_pathv[i]);
		bool good = checks_pass() && !status;
		size_t n = strlen(tried);
		snprintf(tried + n, sizeof(tried) - n, " %s%s", g.gl_pathv[i] + 1,
			 good ? "" : " (refused)");
		ok &= good;
	}
	setenv("PATH", "/bin", 1);
	check(ok && g.gl_pathc, "compilers", "made by%s", tried);
	globfree(&g);
}

static void test_selection(void)
{
	char tgid[32];
	pid_t one = spawn("guest", "spin", "60", NULL), two = spawn("guest", "spin", "60", NULL);
	snprintf(tgid, sizeof(tgid), "%d", one);
	control_begin();
	pid_t recorder = record("-p %d -o /tmp/tgid", one);
	rest(1000);
	int status = stop(recorder);
	double late = control_end();
	int status_tid = run(NULL, 0, "ascribe record -q -F 99 -d 1 -t %d -o /tmp/tid", one);
	end_child(one);
	end_child(two);
	json_t *r = ask("report /tmp/tgid --by tgid,thread");
	double n = SAMPLES(r, "tgid", tgid), all = number(r, "samples");
	check(!status && n > 10 && n == all && number(r, "outside") > 0 &&
		      SAMPLES(r, "thread", "second") > 0,
	      "select-tgid", "status %d, %.0f of %.0f samples, %.0f outside", status, n, all,
	      number(r, "outside"));
	json_decref(r);
	r = ask("report /tmp/tid --by tgid,thread");
	n = SAMPLES(r, "tgid", tgid, "thread", "guest");
	all = number(r, "samples");
	check(!status_tid && n > 10 && n == all, "select-tid", "status %d, %.0f of %.0f samples",
	      status_tid, n, all);
	json_decref(r);
	accounting("select-accounting", "/tmp/tgid", late);
}

/* In the v2 hierarchy, wherever it is mounted. */
void test_cgroup(void)
{
	const char *root = access("/sys/fs/cgroup/unified/cgroup.procs", F_OK)
				   ? "/sys/fs/cgroup"
				   : "/sys/fs/cgroup/unified";
	char work[40], below[60], procs[60];
	snprintf(work, sizeof(work), "%s/work", root);
	snprintf(below, sizeof(below), "%s/not", work);
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", work);
	bool made =
		(!mkdir(work, 0755) || errno == EEXIST) && (!mkdir(below, 0755) || errno == EEXIST);
	pid_t other = spawn("guest", "spin", "60", NULL);
	pid_t inside = fork();
	if (!inside) {
		put(procs, "0");
		execlp("guest", "guest", "spin", "60", NULL);
		_exit(127);
	}
	rest(200);
	int status = run(NULL, 0,
			 "ascribe record -q -F 99 -d 1 -G %s --exclude-cgroup %s -o /tmp/cgroup",
			 work, below);
	end_child(other);
	end_child(inside);
	char tgid[32];
	snprintf(tgid, sizeof(tgid), "%d", inside);
	json_t *r = ask("report /tmp/cgroup --by tgid,cgroup");
	double n = SAMPLES(r, "tgid", tgid, "cgroup", "/work"), all = number(r, "samples");
	check(made && !status && n > 10 && n == all, "select-cgroup",
	      "status %d, %.0f of %.0f samples in /work", status, n, all);
	json_decref(r);
}

static void test_command(void)
{
	int status =
		run(NULL, 0,
		    "ascribe record -q -F 99 -o /tmp/command -- sh -c 'guest burn 400; exit 7'");
	check(status == 7, "command-status", "exit status %d, 7 is right", status);
	json_t *r = ask("report /tmp/command --by comm");
	double n = SAMPLES(r, "comm", "guest");
	check(n >= 0.6 * 0.4 * HZ && n <= 1.3 * 0.4 * HZ + 5, "command-children",
	      "%.0f samples of 0.4 s in a child", n);
	json_decref(r);
}

/*
 * Processes that are gone before anybody could look at them. Where plain perf lost many ticks, as
 * on a starved machine, there are few samples of the known functions. Those that there are, of
 * whatever function, have exe and names all the same.
 */
static void test_brief(void)
{
	const double wanted = 60 * 0.012 * HZ;
	control_begin();
	int status = run(NULL, 0, "ascribe record -q -F 99 -o /tmp/brief -- guest brief 60 12");
	double late = control_end();
	double all, any, none,
		n = folded("/tmp/brief", "{comm=\"guest\",exe=~\".*guest\"}",
			   ";main;outer;middle;inner", "", &all);
	none = folded("/tmp/brief", "{comm=\"guest\"}", "[unknown]", "", &any);
	const bool few = late < wanted / 2 && n < 0.6 * (wanted - fmax(late, 0));
	const bool found = any > 20 && all >= 0.9 * any && none <= 0.1 * any && !few;
	check(!status && found, "brief",
	      "status %d, %.0f samples of the known functions, %.0f expected (plain perf lost %.0f); of %.0f samples %.0f have exe, %.0f no names",
	      status, n, wanted, late, any, all, none);
	if (!found)
		show_stacks("brief", "/tmp/brief", "{comm=\"guest\"}");
	accounting("brief-accounting", "/tmp/brief", late);
}

/*
 * CPU 1 goes and comes back while a recording runs: it is recorded again, and nothing is lost track
 * of.
 */
static void test_hotplug(void)
{
	pid_t recorder = record("-a -o /tmp/hotplug"), busy = spawn("guest", "spin", "60", NULL);
	rest(1000);
	bool off = put(CPU1_ONLINE, "0");
	rest(1000);
	bool on = put(CPU1_ONLINE, "1");
	/* the recorder looks for CPUs once a second */
	pid_t after = spawn("guest", "spin", "4", "1");
	int status_after = finish(after), status = stop(recorder);
	end_child(busy);
	char tgid[32];
	snprintf(tgid, sizeof(tgid), "%d", after);
	json_t *r = ask("report /tmp/hotplug --by tgid");
	double n = SAMPLES(r, "tgid", tgid);
	check(off && on && !status && !status_after, "hotplug",
	      "CPU 1 offline %d, online %d; recorder's status %d", off, on, status);
	/* `busy` runs there too: the pinned one gets half of the CPU or more. */
	check(n >= 25, "hotplug-returned", "%.0f samples on CPU 1 after it came back", n);
	json_decref(r);
	accounting("hotplug-accounting", "/tmp/hotplug", -1); /* the control went with the CPU */
}

static bool has_no_capability(pid_t process)
{
	char path[64], line[256];
	bool none = false;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)process);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		none |= !strcmp(line, "CapPrm:\t0000000000000000\n");
	if (f)
		fclose(f);
	return none;
}

/* The recorder has no capability: the keeper opens the events of a CPU that comes back. */
static void test_daemon(void)
{
	pid_t daemon = spawn("ascribe", "daemon", "-s", "/tmp/daemon"),
	      busy = spawn("guest", "spin", "120", NULL);
	for (int i = 0; i < 600 && !has_no_capability(daemon); i++)
		rest(100);
	const bool none = has_no_capability(daemon);
	rest(8000); /* it loads the programs, and records */
	put(CPU1_ONLINE, "0");
	rest(1500);
	put(CPU1_ONLINE, "1");
	pid_t after = spawn("guest", "spin", "6", "1");
	int status_after = finish(after);
	kill(daemon, SIGTERM);
	int status = finish(daemon);
	end_child(busy);
	char tgid[2][32];
	snprintf(tgid[0], sizeof(tgid[0]), "%d", busy);
	snprintf(tgid[1], sizeof(tgid[1]), "%d", after);
	json_t *r = ask("report /tmp/daemon --by tgid");
	const double n = SAMPLES(r, "tgid", tgid[0]), back = SAMPLES(r, "tgid", tgid[1]);
	json_decref(r);
	r = ask("stat /tmp/daemon");
	check(none && !status && !status_after && n > 10 && back > 10 && adds_up(r), "daemon",
	      "no capability %d, status %d, %.0f samples, %.0f on CPU 1 after it came back", none,
	      status, n, back);
	json_decref(r);
}

static void test_events(void)
{
	int status =
		run(NULL, 0,
		    "ascribe record -q -a -e sched:sched_switch -o /tmp/switch -- guest labels 2");
	json_t *r = ask("report /tmp/switch --by thread");
	/* Nothing where no label was seen */
	json_t *by_label = ask("report /tmp/switch --by thread,tenant");
	double n = SAMPLES(by_label, "thread", "a", "tenant", "a");
	double b = SAMPLES(by_label, "thread", "b", "tenant", "a");
	const char *event = json_string_value(json_object_get(r, "event"));
	/* a sleeps about once in a slice, outside of its labels; it is preempted inside them. */
	double all = SAMPLES(r, "thread", "a");
	check(!status && event && !strcmp(event, "sched:sched_switch") && all > 50 && !b &&
		      adds_up(r),
	      "event-tracepoint", "status %d, %s: %.0f samples of thread a, %.0f labelled", status,
	      event ? event : "-", all, n);
	json_decref(r);
	json_decref(by_label);
	accounting("event-tracepoint-accounting", "/tmp/switch", 0);

	char text[100] = "";
	status = run(text, sizeof(text),
		     "ascribe record -q -e page-faults -F 99 -o /tmp/faults -- guest touch 60000");
	r = ask("report /tmp/faults --by comm");
	double faults = atof(text);
	n = SAMPLES(r, "comm", "guest");
	check(!status && faults > 60000 && n >= 2 && adds_up(r), "event-page-faults",
	      "status %d, %.0f samples of %.0f faults", status, n, faults);
	json_decref(r);
}

/*
 * Are probes refused here? By the kernel's own words: it has PREEMPT_RT, and is older than 6.15.
 * Then a recording with `options` says so, which is check `name`.
 */
static bool probes_refused(const char *name, const char *options)
{
	char text[1000] = "";
	struct utsname u;
	unsigned a = 0, b = 0;
	uname(&u);
	sscanf(u.release, "%u.%u", &a, &b);
	if (!strstr(u.version, "PREEMPT_RT") || a * 100 + b >= 615)
		return false;
	const int status =
		run(text, sizeof(text),
		    "ascribe record -q %s -o /tmp/refused -- guest hits 10 2>&1", options);
	check(status == 1 && strstr(text, "boot Linux 6.15 or later"), name, "status %d, %.300s",
	      status, text);
	return true;
}

/* A function of a program: each call. */
static void test_probe(void)
{
	static const char options[] = "-e uprobe:/bin/guest:guest_hit";
	if (probes_refused("event-probe", options))
		return;
	int status = run(NULL, 0, "ascribe record -q %s -o /tmp/probe -- guest hits 5000", options);
	json_t *r = ask("report /tmp/probe --by comm");
	double n = SAMPLES(r, "comm", "guest");
	check(!status && n == 5000 && adds_up(r), "event-probe", "status %d, %.0f of 5000 calls",
	      status, n);
	json_decref(r);
}

/* And its time. */
static void test_calls(void)
{
	static const char options[] = "-e uretprobe:/bin/guest:guest_hit";
	if (probes_refused("event-calls", options))
		return;
	int status = run(NULL, 0, "ascribe record -q %s -o /tmp/calls -- guest hits 5000", options);
	json_t *r = ask("report /tmp/calls --by comm");
	double n = SAMPLES(r, "comm", "guest");
	double ns = json_number_value(json_object_get(r, "value"));
	check(!status && n == 5000 && ns > 5000 && adds_up(r), "event-calls",
	      "status %d, %.0f of 5000 calls, %.0f ns", status, n, ns);
	json_decref(r);
}

/* What happens in a call has it as a label: 20 times 30 ms there, 20 waits of 20 ms outside. */
static void test_in_calls(void)
{
	static const char options[] = "--wall -e cpu-clock,uretprobe:/bin/guest:rest";
	if (probes_refused("label-in", options))
		return;
	int status = run(NULL, 0, "ascribe record -q %s -o /tmp/in -- guest lock 20", options);
	json_t *r = ask("report /tmp/in --metric off --by in");
	double inside = SAMPLES(r, "in", "rest") / 1e9, outside = SAMPLES(r, "in", "-") / 1e9;
	check(!status && inside > 0.6 && outside > 0.3, "label-in",
	      "status %d, %.3f s in rest, %.3f s outside", status, inside, outside);
	json_decref(r);
}

#define TAINT_ANY ((1L << 7) | (1L << 9) | (1L << 14)) /* died, warned, a CPU hung */

static long taint(void)
{
	char line[32] = "";
	FILE *f = fopen("/proc/sys/kernel/tainted", "re");
	if (f && !fgets(line, sizeof(line), f))
		*line = 0;
	if (f)
		fclose(f);
	return atol(line) & TAINT_ANY;
}

/* The kernel found nothing wrong in what we had it do: it never slept where it must not, say. */
static void test_kernel(long before)
{
	const long now = taint();
	check(now == before, "kernel", "taint %ld, %ld before", now, before);
	if (now != before)
		run(NULL, 0,
		    "busybox dmesg | busybox grep -A 40 -m 2 -e BUG: -e WARNING: | "
		    "busybox sed 's/^/kernel| /' >/dev/console");
}

static void timed(const char *name, void (*test)(void))
{
	struct timespec t0, t1;
	clock_gettime(CLOCK_MONOTONIC, &t0);
	test();
	clock_gettime(CLOCK_MONOTONIC, &t1);
	printf("TIME %s %.1f s\n", name,
	       (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9);
}

#define TESTS_MAX 4

/* Of a kernel that was booted in another way (boot SERIES+MODE). */
static void run_mode(const char *mode)
{
	static const struct {
		const char *name;
		void (*tests[TESTS_MAX])(void);
	} modes[] = {
		{ "nohz_full", { test_nohz_full } },
		{ "integrity", { test_check, test_integrity, test_cgroup, test_waits } },
		{ "confidentiality", { test_confidentiality } },
		{ "no_btf", { test_no_btf } },
		{ "64cpus", { test_many_cpus } },
		{ "cgroup_v1", { test_cgroup_v1 } },
		{ "cgroup_hybrid", { test_cgroup_hybrid } },
	};
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		for (size_t k = 0; !strcmp(mode, modes[i].name) && k < TESTS_MAX; k++)
			if (modes[i].tests[k])
				timed(mode, modes[i].tests[k]);
}

/* Kernels differ least in those of make test-all, or they take longest. */
static void run_part(const char *part)
{
	enum { ALWAYS = 0, ALL_ONLY = 4, PMU_ONLY };
	static const struct {
		const char *name;
		void (*test)(void);
		/* 1 to 3: in this part alone, where a part is asked for. PMU_ONLY: part pmu */
		int when;
	} tests[] = {
		{ "check", test_check, ALWAYS },
		{ "compilers", test_compilers, 1 },
		{ "keeper", test_keeper, ALWAYS },
		{ "labels", test_labels, ALWAYS },
		{ "selection", test_selection, ALL_ONLY },
		{ "cgroup", test_cgroup, 2 },
		{ "command", test_command, ALL_ONLY },
		{ "brief", test_brief, 2 },
		{ "waits", test_waits, 2 },
		{ "wakers", test_wakers, 2 },
		{ "latency", test_latency, 3 },
		{ "locks", test_locks, 3 },
		{ "hotplug", test_hotplug, ALL_ONLY },
		{ "daemon", test_daemon, 3 },
		{ "events", test_events, 3 },
		{ "probe", test_probe, 3 },
		{ "calls", test_calls, 3 },
		{ "in-calls", test_in_calls, 3 },
		{ "waits-hotplug", test_waits_hotplug, ALL_ONLY },
		{ "waits-clock", test_waits_clock, ALL_ONLY },
		{ "waits-suspend", test_waits_suspend, ALL_ONLY },
		{ "pmu", test_pmu, PMU_ONLY },
		{ "brief", test_brief, PMU_ONLY }, /* there no tick is late */
	};
	const bool pmu = part && !strcmp(part, "pmu");
	const bool all = getenv("ASCRIBE_TEST_ALL") != NULL;
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		const int when = tests[i].when;
		if (pmu != (when == PMU_ONLY))
			continue;
		if (!pmu && !all &&
		    (when == ALL_ONLY || (when != ALWAYS && part && when != atoi(part))))
			continue;
		timed(tests[i].name, tests[i].test);
	}
}

int main(void)
{
	const char *mode = getenv("VM_MODE");
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getppid() != 1) { /* it takes a CPU away */
		fputs("only for the init script of a virtual machine of its own\n", stderr);
		return 2;
	}
	const long before = taint();
	if (mode)
		run_mode(mode);
	else
		run_part(getenv("VM_PART"));
	test_kernel(before);
	return print_result();
}
