/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in the making from others: copy.c goes from block to block, copy_rows.c takes the rows of
 * one.
 */
#ifndef ASCRIBE_STORE_OPS_COPY_INT_H
#define ASCRIBE_STORE_OPS_COPY_INT_H

#include "store/ops/copy.h"
#include "store/dict/translate.h"
#include "store/file/meta.h"
#include "store/write/writer_int.h"
#include "store/writer.h"

/* One of the stores that are read. */
struct copy_source {
	struct store *s;
	struct translation to;	  /* ids of s in the dictionaries of the writer */
	struct meta_map counters; /* where they are among those of the writer */
	struct label host;
	bool add_host;
	char *key; /* that the stacks of the last parent were taken by */
};

struct copy {
	struct store_writer *w;
	struct copy_source *sources;
	size_t n_sources;
	const struct store_deletion *del; /* NULL: all rows are taken */
	const volatile bool *stop;
	struct copy_result r;
	uint64_t removed; /* counted samples of the open window */
	bool touched;	  /* rows of the open window were left out */
	struct err *err;
};

/*
 * Add the rows of a block to the open window, but for those that are deleted. in_range: of the
 * deletion.
 */
int copy_rows(struct copy *c, struct copy_source *from, const struct store_block *b, bool in_range);
int copy_failed(const struct copy *c, int rc);

#endif
