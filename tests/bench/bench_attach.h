/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A measured loop: does its work n times. The same cases are built into a program and into a
 * library.
 */
#ifndef ASCRIBE_TESTS_BENCH_ATTACH_H
#define ASCRIBE_TESTS_BENCH_ATTACH_H

struct bench_case {
	const char *name;
	void (*run)(long n);
	const char *id; /* of the figure, NULL: none */
};

#ifdef __cplusplus
extern "C"
#endif
	const struct bench_case *
	bench_library_cases(void); /* ends with a NULL name */

#endif
