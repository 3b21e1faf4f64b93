/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by label set and event, without stacks, of a block above level 0. Where there would be more
 * than SUMS_MAX label sets the key with the most values is left out of all of them. Samples of idle
 * CPUs have sums of their own.
 */
#ifndef ASCRIBE_STORE_BLOCK_SET_SUMS_H
#define ASCRIBE_STORE_BLOCK_SET_SUMS_H

#include "store/dict/dict.h"
#include "store/block/rows.h"
#include "store/dict/setpool.h"

/* The text of a key that was left out is owned by the sums. */
struct set_sums_key {
	char *key;
	uint32_t len;
};

/* One event, with or without those of idle CPUs: [cap] by set. */
struct set_sums_event {
	uint32_t event;
	bool idle;
	struct rows_sum *v;
	size_t cap;
};

struct set_sums {
	struct setpool pool;
	struct set_sums_event *events;
	size_t n_events, events_cap;
	struct set_sums_key *without; /* keys that are left out */
	size_t n_without, without_cap;
	/* Called with what a key that is left out from now on has had, for each of its values and
	 * events. */
	int (*left_out)(void *ctx, const struct label *l, uint32_t event, uint64_t samples);
	void *ctx;
};

int set_sums_init(struct set_sums *s);
void set_sums_fini(struct set_sums *s);
/* From here on; before the first set_sums_add of it, or left_out is called. -ENOMEM, or of
 * left_out. */
int set_sums_leave_out(struct set_sums *s, const char *key, size_t len);
bool set_sums_leaves_out(const struct set_sums *s, const char *key, size_t len);
int set_sums_add(struct set_sums *s, const struct label *labels, size_t n, uint32_t event,
		 bool idle, uint64_t samples, uint64_t value);

/* With the sets added to d. */
int set_sums_encode(struct buf *out, const struct set_sums *s, struct dicts *d);

/* ---- reading ---- */

struct set_sums_reader {
	struct cursor c;
	uint32_t n_sets, n_events;
	const struct store_event *of; /* [n_events] */
	uint64_t groups_left, left;
	struct cursor sets, samples, values;
	bool explicit;
	uint64_t set;
	/* What was read last. */
	bool idle;
	struct store_row row; /* stack is 0 */
};

/* raw must outlive the reader. */
void set_sums_begin(struct set_sums_reader *r, const struct buf *raw, uint32_t n_sets,
		    uint32_t n_events, const struct store_event *of);
/* 1; 0: the end; -EBADMSG. */
int set_sums_next(struct set_sums_reader *r);

#endif
