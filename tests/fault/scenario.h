/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A life of a store in a few dozen windows. There are pauses of all lengths, so that parents of
 * many levels, epochs and segments come and go. Windows come late, generations end, writers close
 * and open. Old windows are cut, and so are their parents of the levels below SCENARIO_KEPT. What
 * window i holds and when it is depends on i alone, whatever became of the others.
 */
#ifndef TESTS_FAULT_SCENARIO_H
#define TESTS_FAULT_SCENARIO_H

#include "unit/store_model.h"
#include "store/writer.h"

#define SCENARIO_MAX 200
#define SCENARIO_KEPT 6 /* the first level that is kept for ever: days */

struct scenario {
	struct model m;					   /* windows 0 to n - 1 */
	uint64_t rows[SCENARIO_MAX], folded[SCENARIO_MAX]; /* fingerprints of their rows */
};

extern const struct store_options scenario_options;

/* n windows of n_rows rows; the program's own seed. Freed by scenario_fini. */
void scenario_make(struct scenario *s, size_t n, size_t n_rows);
void scenario_fini(struct scenario *s);

/*
 * What a program does with its store around window i: perhaps closes and opens it, begins a
 * generation, makes parents. *w is NULL before the first. -errno: it could not be opened, *w is
 * NULL.
 */
int scenario_before(struct store_writer **w, const char *dir, size_t i, struct err *err);
/*
 * Rows and commit; rows that cannot be added for want of memory are -ENOMEM, and the window is
 * given up.
 */
int scenario_commit(const struct scenario *s, struct store_writer *w, size_t i, struct err *err);

/*
 * Whether a directory holds what it must: NULL, else what is wrong with it (good until the next
 * call).
 *
 * Each window that is there is window i for some i, with its rows and counters, and is not there
 * twice. Those with must[i] are there, or have been cut by retention; those with may[i] may be.
 * Summed over all blocks that cover them, they are the sum of the windows that are there and those
 * that were cut. Nothing is damaged.
 *
 * present (may be NULL): what was found, and those cut that must be there.
 */
const char *scenario_judge(const struct scenario *s, const char *dir, const bool *must,
			   const bool *may, bool *present);

/*
 * The same after a writer has opened it and added window `next`; then nothing may be torn either.
 */
const char *scenario_go_on(const struct scenario *s, const char *dir, const bool *must,
			   const bool *may, size_t next);

#endif
