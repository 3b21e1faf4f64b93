/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of `guest labels`: their shares, nesting and threads; their stacks and their account. */
#include "answers.h"
#include "commands.h"
#include "control.h"
#include "tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/*
 * Percent of the ticks that plain perf events lost. Above, the machine did not get its CPUs: it
 * charges a thread for the time, but there are no samples of it. The recording of the labels is
 * then made again, and after the third time taken as it is: the ticks may be missing in any one
 * thread.
 */
#define STARVED 3.0

#if defined(__aarch64__)
#define SECONDS 10 /* emulated, finding the labels alone takes three */
#define READ_FRAMES "ksys_read_[k];vfs_read_[k]" /* calls before it are jumps on some kernels */
#else
#define SECONDS 5
#define READ_FRAMES "do_syscall_64_[k];ksys_read_[k];vfs_read_[k]"
#endif

/* With PREEMPT_RT, an emulated machine took 15 seconds to find the labels, beside other work. */
static int seconds(void)
{
	struct utsname u;
	return !uname(&u) && strstr(u.version, "PREEMPT_RT") ? 20 : SECONDS;
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

/* 3.5 standard deviations of a share of n samples, in percent, where `right` percent are right. */
static double luck(double right, double n)
{
	return 3.5 * sqrt(right * (100 - right) / fmax(n, 1));
}

static void check_shares(const json_t *r, const char *text, double more)
{
	double a = SAMPLES(r, "thread", "a"), b = SAMPLES(r, "thread", "b"),
	       over = SAMPLES(r, "thread", "over");
	double ta = SAMPLES(r, "tenant", "a"), tb = SAMPLES(r, "tenant", "b");
	double got = share(ta, ta + tb);
	check(fabs(got - 75) <= luck(75, ta + tb) + more, "labels-shares",
	      "tenant a %.0f samples, b %.0f: %.1f%%, 75%% is right", ta, tb, got);

	double rate = share((a + b + over) / HZ, cpu_seconds(text, "a") + cpu_seconds(text, "b") +
							 cpu_seconds(text, "over"));
	/* As many of its ticks as plain perf lost, at most half, may be missing. */
	double least = 60 * (1 - fmin(more, 50) / 100);
	check(rate >= least && rate <= 130, "labels-rate",
	      "%.0f samples, %.1f%% of the CPU seconds used, %.0f%% wanted", a + b + over, rate,
	      least);
}

static void check_nesting(const json_t *r, const char *text, double more)
{
	double a = SAMPLES(r, "tenant", "a"), a42 = SAMPLES(r, "tenant", "a", "query_id", "42");
	double b = SAMPLES(r, "tenant", "b"), b7 = SAMPLES(r, "tenant", "b", "query_id", "7");
	double want_a = share(cpu_seconds(text, "a42"), cpu_seconds(text, "a"));
	double want_b = share(cpu_seconds(text, "b7"), cpu_seconds(text, "b"));
	check(fabs(share(a42, a) - want_a) <= luck(want_a, a) + more &&
		      fabs(share(b7, b) - want_b) <= luck(want_b, b) + more,
	      "labels-nested",
	      "query_id 42 is %.1f%% of a, %.1f%% is right; 7 is %.1f%% of b, %.1f%% is right",
	      share(a42, a), want_a, share(b7, b), want_b);
	double wrong = SAMPLES(r, "tenant", "a", "query_id", "7") +
		       SAMPLES(r, "tenant", "b", "query_id", "42") +
		       SAMPLES(r, "tenant", "-", "query_id", "*") +
		       SAMPLES(r, "tenant", "d", "query_id", "*") +
		       SAMPLES(r, "tenant", "e", "query_id", "*");
	/* Starved, b may have had hardly a sample since its labels were found. */
	check(a42 > 0 && (b7 > 0 || b < 10) && !wrong, "labels-nested-only",
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
	double halves = fmax(17, luck(50, d + e)), thirds = fmax(17, luck(100. / 3, all));
	check(fabs(share(d, d + e) - 50) <= halves && share(none, all) >= 100. / 3 - thirds &&
		      late <= told + thirds / 100 * all,
	      "labels-override",
	      "d %.1f%%, e inside it %.1f%%, detached %.1f%% of %.0f, a third each is right",
	      share(d, all), share(e, all), share(none, all), all);
}

static void test_stacks(const char *store)
{
	/* Under its label it does nothing else; labels-found judges how soon the label is found. */
	double all, n = folded(store, "{thread=\"a\",tenant=\"a\"}", ";thread_a;",
			       ";outer;middle;inner", &all);
	check(share(n, all) > 80, "stacks-user",
	      "thread_a, ... outer, middle, inner in %.1f%% of %.0f samples", share(n, all), all);
	/*
	 * Under these labels, too. Samples without one are of its naps, most of its time where
	 * switching threads is slow, or older than the program's names.
	 */
	static const char over[] = "{thread=\"over\",tenant=~\"d|e\"}";
	double kernel = folded(store, over, "_[k]", "", &all);
	n = folded(store, over, ";thread_over;syscalls;", READ_FRAMES, &all);
	bool known = share(kernel, all) > 50 && share(n, kernel) > 40;
	check(known, "stacks-kernel",
	      "%.0f samples, %.0f in the kernel, %.0f in vfs_read below syscalls", all, kernel, n);
	if (!known)
		show_stacks("stacks-kernel", store, over);
	kernel = folded(store, "{comm=~\".*\"}", "_[k]", "", &all);
	/* user frames of stripped libraries are not meant */
	n = folded(store, "{comm=~\".*\"}", "[kernel]+0x", "_[k]", &all);
	check(kernel > 0 && n <= kernel / 50, "stacks-kernel-named",
	      "%.0f samples in the kernel, %.0f with an unnamed frame", kernel, n);
}

void test_labels(void)
{
	char text[2000] = "";
	int status = -1, control = -1;
	double late = -1, lost = 100;
	for (int i = 0; i < 3 && lost > STARVED; i++) {
		*text = 0;
		control = control_begin();
		status = run(text, sizeof(text),
			     "ascribe record -q -a -F 99 -o /tmp/labels -- guest labels %d 2>&1",
			     seconds());
		late = control_end();
		lost = share(late, 2 * seconds() * HZ);
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
