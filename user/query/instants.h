/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When samples were taken: the instants of a range, of the label sets that a selector admits, read
 * window by window from their tracks.
 */
#ifndef ASCRIBE_QUERY_INSTANTS_H
#define ASCRIBE_QUERY_INSTANTS_H

#include "query/query.h"
#include "store/instants.h"

struct query_instants_spec {
	/*
	 * Of it count where, from_ns, to_ns, idle; keys: those that label sets keep, NULL: all.
	 * Borrowed until query_instants_close, as all of this.
	 */
	struct query_spec range;
	const bool *events; /* [store_n_events]: which are wanted; NULL: all */
	bool stacks;	    /* rows have their stacks */
	/* Gives a label set its id in rows, as in struct store_reading; NULL: the store does */
	int (*set)(void *ctx, const struct label *labels, size_t n, uint32_t *ret);
	/*
	 * Of a window in order of time, blocked waits before the wait for a CPU that followed them.
	 * Sampled events: those in [from, to). Waits: those that overlap it. A blocked wait ends
	 * with its wake-up, if the wait for a CPU has an instant (1 ms); tracks have the switch in
	 * as the end of both.
	 */
	int (*instant)(void *ctx, const struct store_instant *v,
		       const struct store_instant_row *row);
	void *ctx;
};

struct query_instants;

/*
 * Choose the windows. -EINVAL: a bad selector, or one that names `wait` or `event`. Else as
 * query_open.
 */
int query_instants_open(struct query_instants **ret, struct store *s,
			const struct query_instants_spec *spec, struct err *err);
void query_instants_close(struct query_instants *q);

/* The windows that overlap the range. Borrowed until query_instants_close. */
const struct store_cover *query_instants_cover(const struct query_instants *q);

/*
 * Read all windows; may be called again. *ret_untracked (may be NULL): how many of them have no
 * track. Memory: that of one window. Stops at the first non-zero result of the callbacks, and
 * returns it. -EAGAIN as query_open.
 */
int query_instants_read(struct query_instants *q, size_t *ret_untracked, struct err *err);

#endif
