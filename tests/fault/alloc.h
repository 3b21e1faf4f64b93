/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that fail. Without a sanitizer every allocation of the program and its libraries goes
 * through here; with one, those of our own code (the linker wraps them), and leaks are found.
 */
#ifndef TESTS_FAULT_ALLOC_H
#define TESTS_FAULT_ALLOC_H

#include <stdbool.h>

extern struct alloc_faults {
	bool on;
	long n;	   /* allocations so far, while on */
	long at;   /* this one fails (from 1; 0: none), */
	long more; /* and so many behind it */
	long hit;
} alloc_faults;

#endif
