/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program on sched_switch costs a load. Runs differ by more from one to the next than what
 * is looked for. So one load goes on, and the program is switched on and off every 30 ms. That is
 * the one of `ascribe record --wall`, by the time when its recording ends: its programs then return
 * at once. Or it is one that does nothing, which is attached and detached. What both cost is the
 * whole.
 */
#ifndef ASCRIBE_TESTS_BENCH_TOGGLE_H
#define ASCRIBE_TESTS_BENCH_TOGGLE_H

/* CPU nanoseconds of the load, and what it did, until now. */
struct reading {
	double ns, done;
};

/* To stderr; exit 1. */
__attribute__((noreturn)) void die(const char *what, const char *why);

/*
 * Switch what (`nothing`, or the process id of a recorder of this build that runs with --wall) on
 * and off for so many seconds, and print JSON. It has the load's nanoseconds for each thing done,
 * off and on, and how many windows there were. It has how many more that are (the median of
 * neighbours), also in percent with its standard error.
 */
void toggle(const char *what, double seconds, struct reading (*look)(void));

#endif
