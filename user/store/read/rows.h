/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the rows of a block with labels: rows.c has windows, parent.c what is above them. */
#ifndef ASCRIBE_STORE_READ_ROWS_H
#define ASCRIBE_STORE_READ_ROWS_H

#include "store/instants.h"
#include "store/block/keys.h"
#include "store/block/rows.h"
#include "store/block/settable.h"
#include "store/dict/translate.h"
#include "store/read/block_data.h"
#include "store/read/store_int.h"

#define UNWANTED 1
#define WANTED(id) ((id) + 2)

/* The samples of an event, of busy or of idle CPUs. */
struct event_sums {
	struct rows_sum *by_set; /* NULL: there are none */
	struct rows_sum all;
};

/* From the rows of a block to the ids that the store gives. */
struct reading {
	struct store *s;
	const struct block_ref *ref;
	const struct store_reading *how; /* NULL: groups are wanted */
	const struct dicts *d;		 /* of the segment */
	struct translation *to;
	struct settable_keys wants;
	uint8_t *known; /* per string of the label sets: 0 unknown, UNWANTED, WANTED(0) as a key;
			   NULL: all keys are wanted */
	struct settable table;
	uint32_t *map;	     /* per set of the block: 0 unknown, UNWANTED, WANTED(id) */
	uint32_t *of_narrow; /* the same per narrow set, of sets that have nothing else of interest;
				NULL: there is no table */
	uint32_t n_sets;     /* in map */
	struct event_sums (*sums)[2]; /* [n_events] of the block, with fold_stacks */
	uint32_t n_events;
	const struct label *host; /* what sets without such a label get; NULL: nothing */
	uint32_t stack, event;	  /* of the group at hand */
	int (*cb)(void *ctx, const struct store_row *row);
	void *ctx;
	struct err *err;
};

/*
 * What a reading of any block begins with, and ends with whatever the result. As store_block_read.
 */
int reading_begin(struct reading *r, struct store *s, const struct store_block *b,
		  const struct store_reading *how, struct err *err);
void reading_fini(struct reading *r);
/* Read a window, of which rows can be looked up then; *ret is the caller's. */
int reading_begin_window(struct reading *r, struct block_data *ret);
/*
 * Is this leaf of a block that of idle CPUs? Without the names of its segment where the block says
 * it.
 */
bool reading_leaf_is_idle(const struct store_block *b, const struct dicts *d, uint32_t leaf);
int reading_failed(const struct reading *r, int rc);
/* The set that the store gives for these labels, WANTED(id); UNWANTED: the filter does not let it
 * pass. */
int reading_map_labels(struct reading *r, const struct label *labels, size_t n, uint32_t *ret);
/* Let the caller give a set of the block its id by its key: *ret as above, 0 where it does not. */
int reading_map_key(struct reading *r, uint32_t set, uint32_t *ret);
/* The same of a set of the block. */
int reading_find_set(struct reading *r, uint32_t set, uint32_t *ret);
/*
 * Set the stack of the group at hand. Where stacks are folded it only says whether the CPUs were
 * idle: then one stack of the reader stands for all of these, and other stacks are not translated.
 */
int reading_leaf(struct reading *r, uint32_t leaf);
/* SYMBOLS_NAMES, or 0 where the question needs no names of stacks. */
unsigned reading_names(const struct reading *r);
/* The same for sums that say themselves whether they are of idle CPUs. */
int reading_idle(struct reading *r, bool idle);
/* Whether the caller wants anything of the event at hand: else nothing is made of its stacks. */
bool reading_wants_event(const struct reading *r);
/* Whether the caller wants the rows of the group at hand: 1, 0, or an error. */
int reading_wants_group(const struct reading *r, uint64_t samples, uint64_t value);
/* Prepare r->wants, which tells keys of interest by their string ids. */
int reading_want_keys(struct reading *r);
int reading_parent(struct reading *r);

/*
 * Can a question by these keys be answered from a parent that has these? stacks: it is about
 * stacks.
 */
bool block_answers(const struct block_keys *k, const char *const *keys, size_t n, bool stacks);

#endif
