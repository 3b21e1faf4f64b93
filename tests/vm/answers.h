/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands answer, as JSON or folded stacks, and verdicts on it. */
#ifndef TESTS_VM_ANSWERS_H
#define TESTS_VM_ANSWERS_H

#include <jansson.h>
#include <stdbool.h>

/* One line "PASS name: figures" or "FAIL name: figures". */
__attribute__((format(printf, 3, 4))) void check(bool ok, const char *name, const char *fmt, ...);

/* The line "RESULT n passed, m failed" of all checks; 0 when none failed. */
int print_result(void);

/* What `ascribe ...` prints as JSON; an empty object when it does not. */
__attribute__((format(printf, 1, 2))) json_t *ask(const char *fmt, ...);

double number(const json_t *o, const char *key);

/*
 * The field of all rows whose keys have these values: key, value, key, value, NULL; "-" is no
 * value, "*" any.
 */
double rows(const json_t *report, const char *field, ...);

#define SAMPLES(report, ...) rows(report, "samples", __VA_ARGS__, NULL)

/* Percent; -1 of nothing. */
double share(double part, double all);

/* Is fired = stored + lost? */
bool adds_up(const json_t *o);

/*
 * fired = stored + lost, in total and on each CPU. Nothing is lost but to timers: of idle CPUs, and
 * thrice the `late` ones that plain perf events lost too, and 3%, on arm64 20% (LATE). Thrice, as
 * their ticks are not at the same instants. Negative: not compared.
 */
void accounting(const char *name, const char *store, double late);

/* Samples of the folded lines that have all of the texts; *ret_all of all lines. */
double folded(const char *store, const char *where, const char *one, const char *two,
	      double *ret_all);

/* Print the stacks with most samples, a line "NAME| SAMPLES STACK" each: why a check failed. */
void show_stacks(const char *name, const char *store, const char *where);

#endif
