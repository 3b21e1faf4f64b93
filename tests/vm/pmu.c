/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of a PMU, in a machine whose instructions QEMU counts (boot's VM_PART=pmu): one CPU, a
 * cycle takes 1 ns of its time and an instruction 2. So a program that uses 2 s has 2e9 cycles, and
 * half as many instructions.
 */
#include "answers.h"
#include "commands.h"
#include "tests.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BURN "-- guest burn 2000"
#define PERIOD 10000000.0
#define CYCLES (2e9 / PERIOD) /* samples of BURN, each PERIOD */

static double samples_of(const char *store, const char *event)
{
	json_t *r = ask("report /tmp/%s -e %s --by comm", store, event);
	double n = SAMPLES(r, "comm", "guest");
	json_decref(r);
	return n;
}

/* As sysfs names it: armv8_pmuv3, or armv8_pmuv3_0 before Linux 6.6. */
static const char *pmu_name(void)
{
	static char name[64];
	glob_t g;
	if (!glob("/sys/bus/event_source/devices/armv8_pmuv3*", 0, NULL, &g) && g.gl_pathc)
		snprintf(name, sizeof(name), "%s", strrchr(g.gl_pathv[0], '/') + 1);
	globfree(&g);
	return name;
}

/* One sample each so many: of all names of an event, and of its parts. */
static void test_periods(void)
{
	char named[100];
	snprintf(named, sizeof(named), "%s/cpu_cycles/", pmu_name());
	int status = run(NULL, 0,
			 "ascribe record -q -c 10000000 -o /tmp/period "
			 "-e cycles,instructions,r8,cycles:u,cycles:k,%s " BURN,
			 named);
	const double cycles = samples_of("period", "cycles"),
		     instructions = samples_of("period", "instructions"),
		     raw = samples_of("period", "r8"), user = samples_of("period", "cycles:u"),
		     kernel = samples_of("period", "cycles:k"), same = samples_of("period", named);
	/* The CPU's periods are not the program's alone: 188 to 209 samples were seen. */
	check(!status && fabs(cycles - CYCLES) < 25 && fabs(same - cycles) < 4, "pmu-cycles",
	      "status %d, %.0f and %.0f (%s) of %.0f samples", status, cycles, same, named, CYCLES);
	check(fabs(instructions - cycles / 2) < 5 && fabs(raw - instructions) < 4,
	      "pmu-instructions", "%.0f and %.0f (r8) samples, half of the %.0f", instructions, raw,
	      cycles);
	check(user > 10 * kernel && kernel > 0 && fabs(user + kernel - cycles) < 25, "pmu-parts",
	      "%.0f of user mode, %.0f of the kernel, %.0f of both", user, kernel, cycles);
	json_t *r = ask("stat /tmp/period");
	const double fired = number(r, "fired"), stored = number(r, "stored");
	check(adds_up(r) && fired - stored < 5, "pmu-accounting", "fired %.0f, stored %.0f", fired,
	      stored);
	json_decref(r);
}

/*
 * Eight events, more than the PMU has counters: they take turns, and what they miss is counted.
 */
static void test_turns(void)
{
	int status = run(NULL, 0,
			 "ascribe record -q -c 10000000 -o /tmp/turns -e cycles,r11,cycles:u,r11:u,"
			 "instructions,r8,instructions:u,r8:u " BURN);
	json_t *r = ask("stat /tmp/turns");
	const double fired = number(r, "fired"), stored = number(r, "stored");
	const double wanted = 6 * CYCLES; /* four of cycles, four of half as many instructions */
	check(!status && adds_up(r) && stored < 0.95 * fired && fabs(fired / wanted - 1) < 0.1,
	      "pmu-turns", "status %d, fired %.0f of %.0f, stored %.0f", status, fired, wanted,
	      stored);
	json_decref(r);
}

/* A rate: the kernel adapts the period, and each sample has that which it had. */
static void test_rate(void)
{
	int status = run(NULL, 0,
			 "ascribe record -q -F 99 -o /tmp/rate -e cycles,cycles:u,instructions:u "
			 "-- guest labels 5");
	json_t *r = ask("report /tmp/rate -e instructions:u --per cycles:u --by tenant"), *row;
	double n = 0, worst = 0;
	size_t i;
	json_array_foreach(json_object_get(r, "rows"), i, row)
	{
		const double ratio = number(row, "ratio"), error = number(row, "ratio_error");
		if (error > 0.5) /* of few samples */
			continue;
		n++;
		worst = fmax(worst, fabs(ratio / 0.5 - 1) / error);
	}
	json_decref(r);
	const double cycles = samples_of("rate", "cycles");
	check(!status && fabs(cycles / (5 * HZ) - 1) < 0.1, "pmu-rate",
	      "status %d, %.0f of %.0f samples of cycles", status, cycles, 5 * HZ);
	check(n >= 2 && worst < 1.5, "pmu-ratio",
	      "of %.0f tenants; instructions by cycles are off by %.2f times their error at most",
	      n, worst);
}

/* Precise addresses: the stack is perf's own. arm64 has none, and lets anybody ask for them. */
static void test_precise(void)
{
	int status = run(NULL, 0, "ascribe record -q -F 99 -o /tmp/precise -e cycles:pp " BURN);
	double all, n = folded("/tmp/precise", "{comm=\"guest\"}", ";main;outer;middle;inner", "",
			       &all);
	double odd = folded("/tmp/precise", "{}", "[kernel]+0x", "", &all);
	check(!status && n > 0.8 * all && all > 0.85 * 2 * HZ && !odd, "pmu-precise",
	      "status %d, %.0f of %.0f samples in inner, %.0f with an unnamed frame of the kernel",
	      status, n, all, odd);
}

/* What this PMU does not count. */
static void test_absent(void)
{
	char text[500] = "";
	int status = run(text, sizeof(text),
			 "ascribe record -q -o /tmp/absent -e cache-misses " BURN " 2>&1");
	check(status == 1 && strstr(text, "not counted by this machine"), "pmu-absent",
	      "status %d, %.100s", status, text);
}

void test_pmu(void)
{
	test_periods();
	test_turns();
	test_rate();
	test_precise();
	test_absent();
}
