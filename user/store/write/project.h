/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The projections of a parent in the making: project_windows.c makes those of level 2 from the
 * windows, project_children.c those above from the children's.
 */
#ifndef ASCRIBE_STORE_WRITE_PROJECT_H
#define ASCRIBE_STORE_WRITE_PROJECT_H

#include "store/block/rows.h"
#include "store/block/settable.h"
#include "store/read/block_data.h"
#include "store/write/merge.h"

/* A value of a key in the making. */
struct value {
	struct settable_label label; /* text owned */
	struct cell *cells;
	size_t n_cells;
	uint64_t touched;	 /* the number of the group that it has samples of */
	uint64_t samples, value; /* of that group */
};

/* A key in the making. */
struct column_key {
	size_t key; /* of the merge */
	struct value *v;
	size_t n, cap;
	struct idhash hash;
	bool left_out;
	uint64_t samples;
	size_t bytes; /* when it is complete: what it takes before compression */
};

/* Which value of which key, in 32 bits: there are many lists of them. */
#define NO_VALUE UINT32_MAX
#define VALUE_OF(key, value) ((uint32_t)(key) << 16 | (uint32_t)(value))
#define KEY_OF(v) ((v) >> 16)
#define INDEX_OF(v) ((v) & 0xffffu)
_Static_assert(PROJECTED_MAX < 1u << 16 && KEYS_MAX < 1u << 16, "a value is told by 32 bits");

/* One window, at a group. */
struct window {
	struct merge_child at;
	struct block_data d;
	struct settable table; /* its labels have become values */
	struct rows_reader in;
	uint32_t *of_label; /* the value that each wide label was, or NO_VALUE */
	bool live;
};

/* The values of the narrow sets of a segment. */
struct narrow {
	uint32_t *first; /* [n]: + 1 in `list`; 0: not looked at yet */
	uint32_t n;
	uint32_t *list; /* runs of values, each ended by NO_VALUE */
	size_t n_list, list_cap;
};

/* A child above level 1, at a value of the key at hand. */
struct part {
	struct merge_child *child;
	struct source *source;
	struct block_data d;
	struct block_keys keys;
	struct buf raw;
	struct value_list list;
	bool live;
};

struct entry {
	uint32_t event, leaf;
	bool idle;
	uint64_t samples, value;
};

struct project {
	struct merge *m;
	struct projections out;
	/* Level 2. */
	struct window *windows;	    /* by segment */
	size_t n_windows, from, to; /* those at hand, of one segment */
	struct source *source;
	struct narrow narrow;
	struct column_key *keys;
	size_t n_keys, keys_cap;
	size_t bytes; /* that the values take */
	uint64_t group;
	uint32_t *touched;
	size_t n_touched, touched_cap;
	/* Above. */
	struct part *parts;
	size_t n_parts;
	size_t key; /* of m->keys */
	bool open;  /* its lists are read */
	struct entry *entries;
	size_t n_entries, entries_cap;
};

int project_failed(const struct project *p, int rc);
int project_damaged(const struct project *p, const struct block_ref *r);

/* ---- values in the making (project.c) ---- */

void project_key_fini(struct column_key *k);
/* The value of a label; NO_VALUE: its key is left out. */
int project_find_value(struct project *p, const char *key, size_t len,
		       const struct settable_label *label, uint32_t *ret);
/* Count a row of the group at hand for this value. */
int project_touch(struct project *p, uint32_t value, const struct store_row *row);
int project_find_cell(struct project *p, struct value *v, uint32_t event, bool idle,
		      struct cell **ret);
/* End the group at hand: append what each of its values has of it. */
int project_flush_group(struct project *p, uint32_t event, uint32_t leaf, bool idle);

/* All windows of the children; *ret_all: none is gone. */
int project_list_windows(struct project *p, bool *ret_all);
void project_window_fini(struct window *w);
int project_step_windows(struct project *p, size_t *budget, bool *ret_done);
int project_step_parts(struct project *p, size_t *budget, bool *ret_done);

#endif
