/* SPDX-License-Identifier: Apache-2.0 */
/* Run programs of the machine: for a moment, in the background, and the recorder. */
#ifndef TESTS_VM_COMMANDS_H
#define TESTS_VM_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HZ 99.0 /* of the recordings */
#define CPU1_ONLINE "/sys/devices/system/cpu/cpu1/online"

/*
 * A shell command; its exit status, -1 when it was killed; stdout and stderr (cut to size) into
 * text when that is not NULL.
 */
__attribute__((format(printf, 3, 4))) int run(char *text, size_t size, const char *fmt, ...);

/* A program in the background, with three arguments; NULL ends them. */
pid_t spawn(const char *a, const char *b, const char *c, const char *d);

/* Wait for its end; its exit status, -1 when it was killed. */
int finish(pid_t child);

void end_child(pid_t child);

/* Sleep so many milliseconds. */
void rest(int ms);

/*
 * `ascribe record ...` in the background, once it says that it records: loading the programs takes
 * seconds when others use the CPUs too. End it with stop().
 */
__attribute__((format(printf, 1, 2))) pid_t record(const char *fmt, ...);

/* The recorder's exit status. */
int stop(pid_t recorder);

bool put(const char *path, const char *text);

#endif
