/* SPDX-License-Identifier: Apache-2.0 */
/* Making calls fail, for a test that is linked with recorder.c. */
#ifndef TESTS_FAULT_FAULTS_H
#define TESTS_FAULT_FAULTS_H

#include <stdbool.h>

enum fault_calls {
	FAULT_WRITE = 1,
	FAULT_SIZE = 2, /* ftruncate */
	FAULT_FSYNC = 4,
	FAULT_FDATASYNC = 8,
	FAULT_OPEN = 16, /* also for reading */
	FAULT_NAME = 32, /* rename, link, unlink, mkdir */
	FAULT_ALL = 63,
};

/*
 * Of the calls of these kinds below the root, those from `at` on (from 1; 0: none) fail, `times` of
 * them.
 */
extern struct faults {
	unsigned int calls; /* enum fault_calls */
	long at, times;
	int error;
	bool kill; /* SIGKILL comes instead of the call */
	bool half; /* a write that fails writes half of its bytes instead */
	long n;	   /* calls so far */
	long hit;  /* that failed */
} faults;

void faults_below(const char *dir);

#endif
