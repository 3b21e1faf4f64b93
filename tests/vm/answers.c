/* SPDX-License-Identifier: Apache-2.0 */
#include "answers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Of the fired ticks, how many more may be lost than plain perf's cpu-clock lost. The PMU of an
 * emulated arm64 counts cycles, and interrupts a millisecond or two late: those cycles are in no
 * sample's period.
 */
#if defined(__aarch64__)
#define LATE 0.2
#else
#define LATE 0.03
#endif

static int passed, failed;

void check(bool ok, const char *name, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	printf("%s %s: ", ok ? "PASS" : "FAIL", name);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
	ok ? passed++ : failed++;
}

int print_result(void)
{
	printf("RESULT %d passed, %d failed\n", passed, failed);
	return failed ? 1 : 0;
}

json_t *ask(const char *fmt, ...)
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

double number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

double rows(const json_t *report, const char *field, ...)
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

double share(double part, double all)
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

bool adds_up(const json_t *o)
{
	return number(o, "fired") == number(o, "stored") + sum_lost(o);
}

void accounting(const char *name, const char *store, double late)
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
		      (late < 0 || not_run <= 3 * late + LATE * fired + 1),
	      name,
	      "fired %.0f, stored %.0f, not_run %.0f (plain perf %.0f), idle_not_run %.0f, tables full %.0f, %zu CPUs",
	      fired, stored, not_run, late, number(lost, "idle_not_run"), full,
	      json_array_size(cpus));
	json_decref(o);
}

double folded(const char *store, const char *where, const char *one, const char *two,
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

void show_stacks(const char *name, const char *store, const char *where)
{
	char command[500], line[300];
	/* Leaves are at the end of a line, before the number. */
	snprintf(command, sizeof(command),
		 "ascribe export %s --format folded --where '%s' 2>/dev/null | "
		 "busybox sed 's/\\(.*\\) \\([0-9]*\\)$/\\2 \\1/; "
		 "s/^\\([0-9]* \\).*\\(.\\{200\\}\\)$/\\1\\2/' | "
		 "busybox sort -rn | busybox head -n 12",
		 store, where);
	FILE *p = popen(command, "r");
	while (p && fgets(line, sizeof(line), p))
		printf("%s| %s", name, line);
	if (p)
		pclose(p);
}
