/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures that come out the same each time: instructions, allocations, bytes, blocks, the work of
 * the verifier. tools/figures runs the program, and compares with tests/figures/known.
 *
 * A line of the output is: name, value, unit, what it says; tabs between. Callgrind knows the value
 * of instructions alone, so the program prints a `?` there, and dumps the count by that name.
 */
#ifndef ASCRIBE_TESTS_FIGURES_H
#define ASCRIBE_TESTS_FIGURES_H

#include <stddef.h>
#include <stdint.h>

/* Print a figure. */
void figure(const char *kind, const char *name, uint64_t value, const char *unit, const char *what);

/*
 * Count between the two calls, once in a process. figures_end prints instructions.NAME; where there
 * were any, allocations.NAME and allocated.NAME (their bytes), and reads.NAME and read.NAME (calls
 * of pread, and their bytes).
 */
void figures_begin(void);
void figures_end(const char *name, const char *what);

/* End the program with a message when rc is not 0, or p is NULL. */
void figures_check(int rc, const char *what);
void *figures_need(void *p);

/* The next number of a fixed sequence, below a bound. */
uint32_t figures_draw(uint32_t below);

struct figures_case {
	const char *name;
	void (*run)(const char *store);
};

/* code.c: parts of the program on inputs that are made here. */
void figures_unwind(const char *store);
void figures_symbols(const char *store);
void figures_symbol_find(const char *store);
void figures_filter(const char *store);
void figures_hist(const char *store);
void figures_label_sets(const char *store);

/* store.c: the store that the questions are asked of, and two steps of writing one. */
void figures_write(const char *dir);
void figures_window(const char *store);
void figures_commit(const char *store);

/* ask.c: questions to that store, which is opened anew for each. */
void figures_report(const char *store);
void figures_functions(const char *store);
void figures_flame(const char *store);
void figures_series(const char *store);
void figures_why(const char *store);
void figures_value(const char *store);

/* bpf.c: load the BPF programs, and print what the verifier says of each. */
void figures_bpf(void);

#endif
