/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When samples were taken: what a writer is told of a window, and what a reader is (docs/format.md,
 * "Tracks"). A part of store.h.
 */
#ifndef ASCRIBE_STORE_INSTANTS_H
#define ASCRIBE_STORE_INSTANTS_H

#include "store/store.h"
#include "store/writer.h"

/*
 * When samples of the open window were taken: store_commit_window keeps it beside the window, with
 * store_options.tracks_ns. rows[] say what instants count in; one without samples has none.
 */
struct store_instant {
	int64_t at_ns;	    /* realtime; of a wait: when it was over */
	uint32_t row;	    /* index in rows[]; where it was read: the number of the window's row */
	uint32_t cpu;	    /* where the sample was taken */
	uint32_t length_us; /* of a wait; 0 of other samples */
};

struct store_instants {
	const struct store_row *rows; /* set, stack and event count, and samples that are not 0 */
	size_t n_rows;
	const struct store_instant *v; /* in any order */
	size_t n;
	uint32_t other; /* the stack that small rows were folded into */
};
#define STORE_INSTANTS_MAX (1u << 19) /* of a window; the others are left out */
/* Borrowed until the window is committed. */
void store_set_instants(struct store_writer *w, const struct store_instants *i);

/* The row of a window that an instant counts in. */
struct store_instant_row {
	/*
	 * set: the id that how->set gave to its label set, else the store's. stack: 0 with
	 * how->fold_stacks. samples, value: those of the whole row
	 */
	struct store_row row;
	uint32_t instants; /* of the row: each stands for samples / instants, and of the value */
};

/*
 * The instants of a window in rows that are wanted, in order of time; rows are borrowed during the
 * call. Of `how`, keys, filter, set, fold_stacks, events and ctx count. idle: those of idle CPUs,
 * too. Memory: that of the window's rows and instants. -ENODATA: the window has no track, or is no
 * window. Else as store_block_read.
 */
int store_block_instants(struct store *s, const struct store_block *b,
			 const struct store_reading *how, bool idle,
			 int (*cb)(void *ctx, const struct store_instant *v,
				   const struct store_instant_row *row),
			 struct err *err);

#endif
