/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests of the built program in a virtual machine: record known work (guest.c), read what was
 * stored through the commands' JSON, compare. One line "PASS name: figures" or "FAIL name: figures"
 * each, at the end "RESULT n passed, m failed".
 *
 * `ascribe` and `guest` are found by PATH; stores are written to /tmp. The machine is emulated:
 * nothing here asks for more than 99 samples per second, or for any speed.
 */
#include "control.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HZ 99.0

static const char online[] = "/sys/devices/system/cpu/cpu1/online";

/*
 * Percent of the ticks that plain perf events lost. Above, the machine did not get its CPUs: it
 * charges a thread for the time, but there are no samples of it. The recording of the labels is
 * then made again, and after the third time taken as it is: the ticks may be missing in any one
 * thread.
 */
#define STARVED 3.0

static int passed, failed;

__attribute__((format(printf, 3, 4))) static void check(bool ok, const char *name, const char *fmt,
							...)
{
	va_list ap;
	va_start(ap, fmt);
	printf("%s %s: ", ok ? "PASS" : "FAIL", name);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
	ok ? passed++ : failed++;
}

/* ---- running programs ---- */

/*
 * A shell command; its exit status, -1 when it was killed; stdout and stderr (cut to size) into
 * text when that is not NULL.
 */
__attribute__((format(printf, 3, 4))) static int run(char *text, size_t size, const char *fmt, ...)
{
	char command[512], line[2000];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	FILE *p = popen(command, "r");
	size_t n = 0;
	if (!p)
		return -1;
	while (fgets(line, sizeof(line), p)) {
		if (text && n < size)
			n += (size_t)snprintf(text + n, size - n, "%s", line);
	}
	int status = pclose(p);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What `ascribe ...` prints as JSON; an empty object when it does not. */
__attribute__((format(printf, 1, 2))) static json_t *ask(const char *fmt, ...)
{
	char args[256], command[300];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(args, sizeof(args), fmt, ap);
	va_end(ap);
	snprintf(command, sizeof(command), "ascribe %s --json 2>/tmp/stderr", args);
	FILE *p = popen(command, "r");
	json_t *o = p ? json_loadf(p, 0, NULL) : NULL;
	if (p)
		pclose(p);
	if (!o)
		printf("ascribe %s: no JSON\n", args);
	return o ? o : json_object();
}

static pid_t spawn(const char *a, const char *b, const char *c, const char *d)
{
	pid_t child = fork();
	if (child)
		return child;
	execlp(a, a, b, c, d, NULL);
	_exit(127);
}

static int finish(pid_t child)
{
	int status;
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static void rest(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000l };
	nanosleep(&t, NULL);
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/*
 * `ascribe record ...` in the background, once it says that it records: loading the programs takes
 * seconds when others use the CPUs too. End it with SIGINT and finish().
 */
__attribute__((format(printf, 1, 2))) static pid_t record(const char *fmt, ...)
{
	char args[200], command[300], text[200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(args, sizeof(args), fmt, ap);
	va_end(ap);
	snprintf(command, sizeof(command), "exec ascribe record -F 99 %s 2>/tmp/recorder", args);
	unlink("/tmp/recorder");
	pid_t child = spawn("sh", "-c", command, NULL);
	for (int i = 0; i < 300; i++) {
		rest(100);
		FILE *f = fopen("/tmp/recorder", "re");
		bool ready =
			f && fgets(text, sizeof(text), f) && strstr(text, "ascribe: recording ");
		if (f)
			fclose(f);
		if (ready)
			break;
	}
	return child;
}

static int stop(pid_t recorder)
{
	kill(recorder, SIGINT);
	return finish(recorder);
}

static bool put(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");
	if (!f)
		return false;
	bool ok = fputs(text, f) >= 0;
	return !fclose(f) && ok;
}

/* ---- reading answers ---- */

static double number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

/*
 * The field of all rows whose keys have these values: key, value, key, value, NULL; "-" is no
 * value, "*" any.
 */
static double rows(const json_t *report, const char *field, ...)
{
	double sum = 0;
	size_t i;
	json_t *row;
	json_array_foreach(json_object_get(report, "rows"), i, row)
	{
		const char *key;
		bool match = true;
		va_list ap;
		va_start(ap, field);
		while ((key = va_arg(ap, const char *))) {
			const char *want = va_arg(ap, const char *);
			const char *got = json_string_value(
				json_object_get(json_object_get(row, "key"), key));
			match = match &&
				(!strcmp(want, "*") ? got != NULL : !strcmp(want, got ? got : "-"));
		}
		va_end(ap);
		if (match)
			sum += number(row, field);
	}
	return sum;
}

#define SAMPLES(report, ...) rows(report, "samples", __VA_ARGS__, NULL)

static double share(double part, double all)
{
	return all > 0 ? 100 * part / all : -1;
}

static double sum_lost(const json_t *o)
{
	double sum = 0;
	const char *key;
	json_t *v;
	json_object_foreach(json_object_get(o, "lost"), key, v) sum += json_number_value(v);
	return sum;
}

static bool adds_up(const json_t *o)
{
	return number(o, "fired") == number(o, "stored") + sum_lost(o);
}

/*
 * fired = stored + lost, in total and on each CPU; nothing lost but to timers: of idle CPUs, and
 * those `late` ones that plain perf events lost too (negative: not compared; thrice, as their ticks
 * are not at the same instants), and 3%.
 */
static void accounting(const char *name, const char *store, double late)
{
	json_t *o = ask("stat %s", store), *cpus = json_object_get(o, "cpus"), *cpu;
	const json_t *lost = json_object_get(o, "lost");
	double fired = 0, stored = 0, not_run = number(lost, "not_run");
	double full =
		number(lost, "rows_full") + number(lost, "stacks_full") + number(lost, "bad_cpu");
	bool ok = adds_up(o);
	size_t i;
	json_array_foreach(cpus, i, cpu)
	{
		ok = ok && adds_up(cpu);
		fired += number(cpu, "fired");
		stored += number(cpu, "stored");
	}
	ok = ok && fired == number(o, "fired") && stored == number(o, "stored");
	check(ok && stored > 0 && !full && sum_lost(o) == not_run + number(lost, "idle_not_run") &&
		      (late < 0 || not_run <= 3 * late + 0.03 * fired + 1),
	      name,
	      "fired %.0f, stored %.0f, not_run %.0f (plain perf %.0f), idle_not_run %.0f, tables full %.0f, %zu CPUs",
	      fired, stored, not_run, late, number(lost, "idle_not_run"), full,
	      json_array_size(cpus));
	json_decref(o);
}

/* ---- tests ---- */

static void test_check(void)
{
	json_t *o = ask("check"), *c;
	char bad[300] = "", good = 0;
	size_t i;
	json_array_foreach(json_object_get(o, "checks"), i, c)
	{
		const char *name = json_string_value(json_object_get(c, "check"));
		const char *result = json_string_value(json_object_get(c, "result"));
		const char *text = json_string_value(json_object_get(c, "text"));
		if (result && !strcmp(result, "FAIL"))
			snprintf(bad, sizeof(bad), "%s: %s", name ? name : "", text ? text : "");
		else if (name && result && !strcmp(result, "ok"))
			good += !strcmp(name, "BPF") || !strcmp(name, "BTF") ||
				!strcmp(name, "kernel symbols");
	}
	check(json_is_true(json_object_get(o, "ok")) && good == 3, "check", "%s",
	      *bad ? bad : "BPF, BTF, kernel symbols");
	json_decref(o);
}

/* "NAME SECONDS" of what `guest labels` printed. */
static double cpu_seconds(const char *text, const char *name)
{
	size_t len = strlen(name);
	for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
		if (!strncmp(p, name, len) && p[len] == ' ')
			return atof(p + len);
	}
	return 0;
}

static void check_shares(const json_t *r, const char *text, double more)
{
	double a = SAMPLES(r, "thread", "a"), b = SAMPLES(r, "thread", "b"),
	       over = SAMPLES(r, "thread", "over");
	double ta = SAMPLES(r, "tenant", "a"), tb = SAMPLES(r, "tenant", "b");
	double got = share(ta, ta + tb);
	check(fabs(got - 75) <= 8 + more, "labels-shares",
	      "tenant a %.0f samples, b %.0f: %.1f%%, 75%% is right", ta, tb, got);

	double rate = share((a + b + over) / HZ, cpu_seconds(text, "a") + cpu_seconds(text, "b") +
							 cpu_seconds(text, "over"));
	check(rate >= 60 && rate <= 130, "labels-rate",
	      "%.0f samples, %.1f%% of the CPU seconds used", a + b + over, rate);
}

static void check_nesting(const json_t *r, const char *text, double more)
{
	double a = SAMPLES(r, "tenant", "a"), a42 = SAMPLES(r, "tenant", "a", "query_id", "42");
	double b = SAMPLES(r, "tenant", "b"), b7 = SAMPLES(r, "tenant", "b", "query_id", "7");
	double want_a = share(cpu_seconds(text, "a42"), cpu_seconds(text, "a"));
	double want_b = share(cpu_seconds(text, "b7"), cpu_seconds(text, "b"));
	check(fabs(share(a42, a) - want_a) <= 10 + more && fabs(share(b7, b) - want_b) <= 17 + more,
	      "labels-nested",
	      "query_id 42 is %.1f%% of a, %.1f%% is right; 7 is %.1f%% of b, %.1f%% is right",
	      share(a42, a), want_a, share(b7, b), want_b);
	double wrong = SAMPLES(r, "tenant", "a", "query_id", "7") +
		       SAMPLES(r, "tenant", "b", "query_id", "42") +
		       SAMPLES(r, "tenant", "-", "query_id", "*") +
		       SAMPLES(r, "tenant", "d", "query_id", "*") +
		       SAMPLES(r, "tenant", "e", "query_id", "*");
	check(a42 > 0 && b7 > 0 && !wrong, "labels-nested-only",
	      "%.0f samples with the query_id of another", wrong);
}

/*
 * Samples from before the program is known have no labels. They are flagged, and few where the host
 * has time. Return how many are.
 */
static double check_threads(const json_t *r, const char *store)
{
	double own = SAMPLES(r, "thread", "a", "tenant", "a") +
		     SAMPLES(r, "thread", "b", "tenant", "b") +
		     SAMPLES(r, "thread", "over", "tenant", "d") +
		     SAMPLES(r, "thread", "over", "tenant", "e");
	double labelled = SAMPLES(r, "tenant", "*");
	check(own > 0 && own == labelled, "labels-threads",
	      "%.0f labelled samples, %.0f on their own thread", labelled, own);
	double bare =
		SAMPLES(r, "thread", "a", "tenant", "-") + SAMPLES(r, "thread", "b", "tenant", "-");
	json_t *o = ask("stat %s", store);
	const json_t *flagged = json_object_get(o, "flagged");
	double told = number(flagged, "new_process") + number(flagged, "labels_late");
	check(own > 0 && (share(bare, own) < 5 || bare <= told), "labels-found",
	      "%.0f samples of a and b without a label, %.0f of all told as too early", bare, told);
	json_decref(o);
	return told;
}

/*
 * Override and detach: a third of the thread's time each under d, under e inside of d, and under
 * nothing.
 */
static void check_override(const json_t *r, double told)
{
	double all = SAMPLES(r, "thread", "over"), d = SAMPLES(r, "thread", "over", "tenant", "d");
	double e = SAMPLES(r, "thread", "over", "tenant", "e"),
	       none = SAMPLES(r, "thread", "over", "tenant", "-");
	/*
	 * Samples from before the process was known have no label: they are flagged, and no
	 * detached ones.
	 */
	double late = none - (d + e) / 2 > 0 ? none - (d + e) / 2 : 0;
	check(fabs(share(d, d + e) - 50) <= 17 && share(none, all) >= 16 &&
		      late <= told + 0.17 * all,
	      "labels-override",
	      "d %.1f%%, e inside it %.1f%%, detached %.1f%% of %.0f, a third each is right",
	      share(d, all), share(e, all), share(none, all), all);
}

/* Samples of the folded lines that have all of the texts; *ret_all of all lines. */
static double folded(const char *store, const char *where, const char *one, const char *two,
		     double *ret_all)
{
	char command[400], line[8192];
	double sum = 0;
	snprintf(command, sizeof(command),
		 "ascribe export %s --format folded --where '%s' 2>/dev/null", store, where);
	FILE *p = popen(command, "r");
	*ret_all = 0;
	while (p && fgets(line, sizeof(line), p)) {
		const char *count = strrchr(line, ' ');
		double n = count ? atof(count) : 0;
		*ret_all += n;
		if (strstr(line, one) && strstr(line, two))
			sum += n;
	}
	if (p)
		pclose(p);
	return sum;
}

static void test_stacks(const char *store)
{
	/* Under its label it does nothing else; labels-found judges how soon the label is found. */
	double all, n = folded(store, "{thread=\"a\",tenant=\"a\"}", ";thread_a;",
			       ";outer;middle;inner", &all);
	check(share(n, all) > 80, "stacks-user",
	      "thread_a, ... outer, middle, inner in %.1f%% of %.0f samples", share(n, all), all);
	double kernel = folded(store, "{thread=\"over\"}", "_[k]", "", &all);
	n = folded(store, "{thread=\"over\"}", ";thread_over;syscalls;",
		   "do_syscall_64_[k];ksys_read_[k];vfs_read_[k]", &all);
	check(share(kernel, all) > 50 && share(n, kernel) > 20, "stacks-kernel",
	      "%.0f samples, %.0f in the kernel, %.0f in vfs_read below syscalls", all, kernel, n);
	kernel = folded(store, "{comm=~\".*\"}", "_[k]", "", &all);
	/* user frames of stripped libraries are not meant */
	n = folded(store, "{comm=~\".*\"}", "[kernel]+0x", "_[k]", &all);
	check(kernel > 0 && n <= kernel / 50, "stacks-kernel-named",
	      "%.0f samples in the kernel, %.0f with an unnamed frame", kernel, n);
}

static void test_labels(void)
{
	char text[2000] = "";
	int status = -1, control = -1;
	double late = -1, lost = 100;
	for (int i = 0; i < 3 && lost > STARVED; i++) {
		*text = 0;
		control = control_begin();
		status = run(text, sizeof(text),
			     "ascribe record -q -a -F 99 -o /tmp/labels -- guest labels 5 2>&1");
		late = control_end();
		lost = share(late, 2 * 5 * HZ);
	}
	check(!control && late >= 0, "control", "plain perf events lost %.0f ticks", late);
	check(!status, "record", "exit status %d", status);
	if (status)
		puts(text);
	json_t *r =
		ask("report /tmp/labels --by thread,tenant,query_id --where '{comm=\"guest\"}'");
	json_t *by_tenant = ask("report /tmp/labels --by tenant");
	json_t *by_query = ask("report /tmp/labels --by tenant,query_id");
	double more = lost > STARVED ? lost : 0;
	check_shares(r, text, more);
	check_nesting(by_query, text, more);
	check_override(r, check_threads(r, "/tmp/labels"));
	double sum = SAMPLES(by_tenant, "tenant", "*"), same = SAMPLES(by_query, "tenant", "*");
	check(sum > 0 && sum == same && sum == SAMPLES(r, "tenant", "*") && adds_up(by_tenant),
	      "report-sums", "%.0f labelled samples by tenant, %.0f by tenant and query_id", sum,
	      same);
	json_decref(by_query);
	json_decref(by_tenant);
	json_decref(r);
	test_stacks("/tmp/labels");
	accounting("accounting", "/tmp/labels", late);
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
	end(one);
	end(two);
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

static void test_cgroup(void)
{
	bool made = !mkdir("/sys/fs/cgroup/work", 0755) || errno == EEXIST;
	pid_t other = spawn("guest", "spin", "60", NULL);
	pid_t inside = fork();
	if (!inside) {
		put("/sys/fs/cgroup/work/cgroup.procs", "0");
		execlp("guest", "guest", "spin", "60", NULL);
		_exit(127);
	}
	rest(200);
	int status =
		run(NULL, 0, "ascribe record -q -F 99 -d 1 -G /sys/fs/cgroup/work -o /tmp/cgroup");
	end(other);
	end(inside);
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

/* Processes that are gone before anybody could look at them. */
static void test_brief(void)
{
	const double wanted = 60 * 0.012 * HZ;
	control_begin();
	int status = run(NULL, 0, "ascribe record -q -F 99 -o /tmp/brief -- guest brief 60 12");
	double late = control_end();
	/*
	 * The ticks that plain perf lost are no samples of anybody; at most half may be missing for
	 * them.
	 */
	double lost = fmin(fmax(late, 0), wanted / 2);
	double all, n = folded("/tmp/brief", "{comm=\"guest\",exe=~\".*guest\"}",
			       ";main;outer;middle;inner", "", &all);
	check(!status && n >= 0.6 * (wanted - lost), "brief",
	      "status %d, %.0f samples with exe and names, of %.0f of the program and %.0f expected (plain perf lost %.0f)",
	      status, n, all, wanted, late);
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
	bool off = put(online, "0");
	rest(1000);
	bool on = put(online, "1");
	/* the recorder looks for CPUs once a second */
	pid_t after = spawn("guest", "spin", "4", "1");
	int status_after = finish(after), status = stop(recorder);
	end(busy);
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

/* Record the waits of a shell command into /tmp/NAME, and hold the account of it. */
static void record_waits(const char *name, const char *options, const char *command)
{
	char text[2000] = "", more[40], store[40];
	snprintf(store, sizeof(store), "/tmp/%s", name);
	int status = run(text, sizeof(text),
			 "ascribe record -q --wall %s -F 99 -o %s -- sh -c '%s' 2>&1", options,
			 store, command);
	snprintf(more, sizeof(more), "%s-record", name);
	check(!status, more, "exit status %d", status);
	if (status)
		puts(text);
	snprintf(more, sizeof(more), "%s-accounting", name);
	accounting(more, store, -1);
}

/* Waits, and the same by whose they are. */
static void check_parts(const char *name, double least, const json_t *waits, const json_t *parts)
{
	check(number(waits, "seconds") > least &&
		      fabs(number(waits, "seconds") - number(parts, "seconds")) < 1e-6,
	      name, "waits %.6f s, of those in the matrix %.6f s", number(waits, "seconds"),
	      number(parts, "seconds"));
}

/*
 * Waits, measured by the scheduler's tracepoints: of a process that sleeps 1 s, and what the whole
 * took.
 */
static void test_waits(void)
{
	record_waits("waits", "", "sleep 1; guest burn 300");
	json_t *off = ask("report /tmp/waits --metric off --idle --by comm");
	json_t *runq = ask("report /tmp/waits --metric runq --by comm");
	json_t *blame = ask("blame /tmp/waits");
	double slept = rows(off, "seconds", "comm", "sleep", NULL);
	check(slept > 0.95 && slept < 1.3, "waits-blocked", "sleep 1 was blocked %.3f s", slept);
	check_parts("waits-blame", 0, runq, blame);
	json_decref(off);
	json_decref(runq);
	json_decref(blame);
}

/* Seconds in the cells of a matrix with that victim and that occupant, or that nobody. */
static double cells(const json_t *blame, const char *victim, const char *occupant,
		    const char *nobody)
{
	size_t i;
	json_t *cell;
	double sum = 0;
	json_array_foreach(json_object_get(blame, "cells"), i, cell)
	{
		const char *v = json_string_value(json_object_get(cell, "victim")),
			   *o = json_string_value(json_object_get(cell, "occupant"));
		const char *n = json_string_value(json_object_get(cell, "nobody"));
		if (v && !strcmp(v, victim) &&
		    (occupant ? o && !strcmp(o, occupant) : n && !strcmp(n, nobody)))
			sum += number(cell, "seconds");
	}
	return sum;
}

/* Seconds in stacks with that function. */
static double in_function(const json_t *report, const char *name)
{
	size_t i;
	json_t *row;
	json_array_foreach(json_object_get(report, "rows"), i, row)
	{
		const char *f = json_string_value(json_object_get(row, "function"));
		if (f && !strcmp(f, name))
			return number(row, "seconds");
	}
	return 0;
}

/*
 * Who ended them: a shell waits for a process that sleeps, a timer wakes that one, and its end the
 * shell.
 */
/*
 * Windows begin at multiples of 10 s; what of a wait was in an earlier one has the waker (other).
 */
static void begin_early_in_window(void)
{
	struct timespec t;
	while (clock_gettime(CLOCK_REALTIME, &t), t.tv_sec % 10 > 3)
		rest(100);
}

static void test_wakers(void)
{
	begin_early_in_window();
	record_waits("wakers", "--waker", "sleep 1; true");
	json_t *off = ask("report /tmp/wakers --metric off --idle");
	json_t *woke = ask("blame /tmp/wakers --wakers --idle -n 0");
	json_t *functions = ask(
		"report /tmp/wakers --metric waker --where '{comm=\"sh\",by.comm=\"sleep\"}' -n 0");
	double timer = cells(woke, "sleep", NULL, "(interrupt)"),
	       child = cells(woke, "sh", "sleep", NULL);
	double leaves = in_function(functions, "do_exit");
	check(timer > 0.95 && timer < 1.3, "wakers-timer", "an interrupt woke sleep 1 after %.3f s",
	      timer);
	check(child > 0.95 && child < 1.5 && leaves > 0.9 * child, "wakers-child",
	      "the end of sleep woke sh after %.3f s, in do_exit %.3f s", child, leaves);
	check_parts("wakers-sum", 0, off, woke);
	json_decref(off);
	json_decref(woke);
	json_decref(functions);
}

static double monotonic(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The longest and the shortest time that any thread has there. */
static void extremes(const json_t *report, double *min, double *max)
{
	size_t i;
	json_t *row;
	json_array_foreach(json_object_get(report, "rows"), i, row)
	{
		double s = number(row, "seconds");
		if (!json_is_string(json_object_get(json_object_get(row, "key"), "tid")))
			continue;
		*min = s < *min ? s : *min;
		*max = s > *max ? s : *max;
	}
}

/*
 * While something happens to the machine: no wait is negative, none outlasts the recording, who
 * sleeps all the time is blocked all the time, and those who had the CPUs had them as long as the
 * others waited.
 */
static void waits_during(const char *name, const char *store, void (*happens)(void))
{
	char tgid[20];
	double min = 0, max = 0;
	pid_t sleeper = spawn("busybox", "sleep", "600", NULL), spins[3];
	for (size_t i = 0; i < 3; i++)
		spins[i] = spawn("guest", "spin", "60", NULL);
	double before = monotonic();
	pid_t recorder = record("--wall -a -o %s", store);
	double begin = monotonic();
	rest(1000);
	happens();
	rest(1000);
	double until = monotonic();
	int status = stop(recorder);
	double after = monotonic();
	for (size_t i = 0; i < 3; i++)
		end(spins[i]);
	end(sleeper);
	json_t *off = ask("report %s --metric off --idle --by tgid,tid -n 0", store);
	json_t *runq = ask("report %s --metric runq --by tgid,tid -n 0", store);
	json_t *blame = ask("blame %s -n 0", store);
	snprintf(tgid, sizeof(tgid), "%d", (int)sleeper);
	double slept = rows(off, "seconds", "tgid", tgid, "tid", "*", NULL);
	extremes(off, &min, &max);
	extremes(runq, &min, &max);
	check(!status && min >= 0 && max <= after - before && slept >= (until - begin) * 0.98 &&
		      slept <= after - before,
	      name,
	      "recorder's status %d, %.3f s asleep of %.3f to %.3f s, waits of a thread %.3f to %.3f s",
	      status, slept, until - begin, after - before, min, max);
	char more[40];
	snprintf(more, sizeof(more), "%s-blame", name);
	check_parts(more, 0.5, runq, blame);
	snprintf(more, sizeof(more), "%s-accounting", name);
	accounting(more, store, -1);
	json_decref(off);
	json_decref(runq);
	json_decref(blame);
}

static void cpu_goes(void)
{
	put(online, "0");
	rest(1500);
	put(online, "1");
	rest(1000);
}

static void clock_steps(void)
{
	static const int steps[] = { 3600, -7200, 3600 };
	for (size_t i = 0; i < 3; i++) {
		struct timespec t;
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_sec += steps[i];
		check(!clock_settime(CLOCK_REALTIME, &t), "clock-set", "%d s", steps[i]);
		rest(700);
	}
}

static void test_waits_hotplug(void)
{
	waits_during("waits-hotplug", "/tmp/waits-hotplug", cpu_goes);
}

static void test_waits_clock(void)
{
	waits_during("waits-clock", "/tmp/waits-clock", clock_steps);
}

int main(void)
{
	/* `all`: for make test-all alone. Kernels differ least in these, or they take longest. */
	static const struct {
		const char *name;
		void (*test)(void);
		bool all;
	} tests[] = {
		{ "check", test_check, false },
		{ "labels", test_labels, false },
		{ "selection", test_selection, true },
		{ "cgroup", test_cgroup, false },
		{ "command", test_command, true },
		{ "brief", test_brief, false },
		{ "waits", test_waits, false },
		{ "wakers", test_wakers, false },
		{ "hotplug", test_hotplug, true },
		{ "events", test_events, false },
		{ "waits-hotplug", test_waits_hotplug, true },
		{ "waits-clock", test_waits_clock, true },
	};
	const bool all = getenv("ASCRIBE_TEST_ALL") != NULL;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getppid() != 1) { /* it takes a CPU away */
		fputs("only for the init script of a virtual machine of its own\n", stderr);
		return 2;
	}
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		struct timespec t0, t1;
		if (tests[i].all && !all)
			continue;
		clock_gettime(CLOCK_MONOTONIC, &t0);
		tests[i].test();
		clock_gettime(CLOCK_MONOTONIC, &t1);
		printf("TIME %s %.1f s\n", tests[i].name,
		       (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9);
	}
	printf("RESULT %d passed, %d failed\n", passed, failed);
	return failed ? 1 : 0;
}
