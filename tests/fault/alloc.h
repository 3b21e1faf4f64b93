/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that fail. Every allocation of the program and its libraries goes through here, also
 * with a sanitizer, which finds leaks.
 */
#ifndef TESTS_FAULT_ALLOC_H
#define TESTS_FAULT_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

extern struct alloc_faults {
	bool on;
	long n;	   /* allocations so far, while on */
	long at;   /* this one fails (from 1; 0: none), */
	long more; /* and so many behind it */
	long hit;
	/*
	 * NULL, or [cap], to be filled with the first allocation of each place. A place is the
	 * functions that led to it.
	 */
	long *places;
	size_t n_places, cap;
} alloc_faults;

#endif
