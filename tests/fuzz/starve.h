/* SPDX-License-Identifier: Apache-2.0 */
/* A lack of memory, or a read that fails, at each place of an input: starve.c. */
#ifndef TESTS_FUZZ_STARVE_H
#define TESTS_FUZZ_STARVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int fuzz_run(const uint8_t *data, size_t size);

/* A request failed on purpose, in this run. */
extern bool fuzz_starved;

/* Does this request fail? Asked once for each, by targets that stand in for what has them. */
bool fuzz_denies(void);
/* An allocation, for libraries that take a function for it. */
void *fuzz_malloc(size_t size);

/* Run an input as it is, then at most `most` times with one of its requests failing. */
void starve(fuzz_run *run, const uint8_t *data, size_t size, unsigned most);

#endif
