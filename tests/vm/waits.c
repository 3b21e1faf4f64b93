/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits by the scheduler's tracepoints, also while a CPU goes and comes, the clock is set, and the
 * machine sleeps.
 */
#include "answers.h"
#include "commands.h"
#include "tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WAKE_ALARM "/sys/class/rtc/rtc0/wakealarm"

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
void test_waits(void)
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

/* Windows begin at multiples of 10 s. What a wait had in an earlier one has the waker (other). */
static void begin_early_in_window(void)
{
	struct timespec t;
	while (clock_gettime(CLOCK_REALTIME, &t), t.tv_sec % 10 > 3)
		rest(100);
}

/*
 * Who ended them: a shell waits for a process that sleeps, a timer wakes that one, and its end the
 * shell.
 */
void test_wakers(void)
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
	/* The part before the end of a window is (other): a slow host may begin late in one. */
	double timer_before = cells(woke, "sleep", NULL, "(other)"),
	       child_before = cells(woke, "sh", NULL, "(other)");
	check(timer > 0.05 && timer + timer_before > 0.95 && timer + timer_before < 1.3,
	      "wakers-timer", "an interrupt woke sleep 1 after %.3f s, and %.3f s before", timer,
	      timer_before);
	check(child > 0.05 && child + child_before > 0.95 && child + child_before < 1.5 &&
		      leaves > 0.9 * child,
	      "wakers-child",
	      "the end of sleep woke sh after %.3f s, and %.3f s before; in do_exit %.3f s", child,
	      child_before, leaves);
	check_parts("wakers-sum", 0, off, woke);
	json_decref(off);
	json_decref(woke);
	json_decref(functions);
}

/*
 * Weights by label value: each of two tenants is active for at most as long as the command takes,
 * and the weights of all of its threads are no more than that.
 */
void test_latency(void)
{
	record_waits("latency", "--latency tenant", "guest labels 2");
	json_t *latency = ask("report /tmp/latency --metric latency --by tenant -n 0");
	double a = rows(latency, "seconds", "tenant", "a", NULL),
	       b = rows(latency, "seconds", "tenant", "b", NULL);
	check(a > 0.5 && a < 3 && b > 0.2 && b < 3, "latency-tenants",
	      "in some 2 s tenant a has %.3f s of wall-clock time, b %.3f s", a, b);
	json_decref(latency);
}

/* For which lock they were, and who held it: 20 rounds of nearly 20 ms. */
void test_locks(void)
{
	size_t i;
	json_t *row;
	const char *first = "none";
	double held = 0, all = 0;
	begin_early_in_window();
	record_waits("locks", "--waker", "guest lock 20");
	json_t *locks = ask("blame /tmp/locks --locks -n 0");
	json_array_foreach(json_object_get(locks, "locks"), i, row)
	{
		const char *name = json_string_value(json_object_get(row, "lock")),
			   *kind = json_string_value(json_object_get(row, "kind")),
			   *holder = json_string_value(json_object_get(row, "holder"));
		first = !i && name ? name : first;
		if (!name || strcmp(name, "guest:guest_mutex") != 0)
			continue;
		all += number(row, "seconds");
		if (kind && !strcmp(kind, "mutex") && holder && !strcmp(holder, "guest"))
			held += number(row, "seconds");
	}
	check(held > 0.25 && held < 0.8 && held > 0.95 * all, "locks",
	      "a mutex was waited for %.3f s, %.3f s of it until its holder released it; %s", all,
	      held, first);
	json_decref(locks);
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
 * sleeps all the time is blocked all the time. Those who were running ran as long as the others
 * waited.
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
		end_child(spins[i]);
	end_child(sleeper);
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
	put(CPU1_ONLINE, "0");
	rest(1500);
	put(CPU1_ONLINE, "1");
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

/* Seconds that the machine has been suspended since its start. */
static double suspended(void)
{
	struct timespec boot;
	clock_gettime(CLOCK_BOOTTIME, &boot);
	return (double)boot.tv_sec + (double)boot.tv_nsec / 1e9 - monotonic();
}

static pid_t after_sleep;

/* Suspend to RAM; the real-time clock wakes the machine. Then keep CPU 1 busy. */
static void machine_sleeps(void)
{
	const double before = suspended();
	const bool slept =
		put(WAKE_ALARM, "0") && put(WAKE_ALARM, "+5") && put("/sys/power/state", "mem");
	const double seconds = suspended() - before;
	check(slept && seconds > 2 && seconds < 60, "suspend", "suspended for %.1f s", seconds);
	after_sleep = spawn("guest", "spin", "4", "1");
	finish(after_sleep);
}

void test_waits_hotplug(void)
{
	waits_during("waits-hotplug", "/tmp/waits-hotplug", cpu_goes);
}

void test_waits_clock(void)
{
	waits_during("waits-clock", "/tmp/waits-clock", clock_steps);
}

/* No wait includes the sleep, and CPU 1, which goes for the sleep, is recorded again. */
void test_waits_suspend(void)
{
	char tgid[20];
	waits_during("waits-suspend", "/tmp/waits-suspend", machine_sleeps);
	snprintf(tgid, sizeof(tgid), "%d", (int)after_sleep);
	json_t *r = ask("report /tmp/waits-suspend --by tgid");
	const double n = SAMPLES(r, "tgid", tgid);
	check(n >= 25, "waits-suspend-returned", "%.0f samples on CPU 1 after the sleep", n);
	json_decref(r);
}
