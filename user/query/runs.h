/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging the rows of many windows. Windows are sorted, so they are merged like the carries of a
 * binary counter. Each row takes part in about log2(windows) merges, all of them sequential in
 * memory, and equal rows collapse on the way.
 */
#ifndef ASCRIBE_QUERY_RUNS_H
#define ASCRIBE_QUERY_RUNS_H

#include "store/store.h"

struct run {
	struct store_row *rows; /* in order of (set, stack), each once */
	size_t n, cap;
};

struct runs {
	struct run done[64]; /* sizes fall by more than half from one to the next */
	size_t n_done;
	struct run open;
	bool unsorted; /* the open run */
	bool has_sets; /* a row has a set that is not 0 */
};

/* Add to the open run, in any order; best in that of (set, stack). -ENOMEM. */
int runs_add(struct runs *r, const struct store_row *row);
int runs_close(struct runs *r);

/*
 * Sort n rows, which malloc gave, by stack; with by_set by (set, stack). Equal ones keep their
 * order. -ENOMEM: they are as before.
 */
int runs_sort_rows(struct store_row **io_rows, size_t n, bool by_set);

/* Everything merged into one; the caller owns *ret_rows, which may be NULL when there is none. */
int runs_finish(struct runs *r, struct store_row **ret_rows, size_t *ret_n);
size_t runs_bytes(const struct runs *r);
void runs_fini(struct runs *r);

#endif
