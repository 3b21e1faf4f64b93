/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles of a store that is being written. A handle shows the windows that were there when it was
 * opened; whoever takes one gets the newest state, looked for at most twice a second. Handles that
 * nobody needed for a while are closed: a second one exists only while two questions are asked at a
 * time.
 */
#ifndef ASCRIBE_HTTP_SNAPSHOT_H
#define ASCRIBE_HTTP_SNAPSHOT_H

#include "store/store.h"

struct snapshots;

struct snapshot {
	struct store *store;
	uint64_t state; /* equal for equal windows */
	uint64_t used_ns;
	struct snapshot *next;
};

/* limits: of each question that is asked of a handle. dirs: borrowed; several are read as one. */
int snapshots_new(struct snapshots **ret, const char *const *dirs, size_t n_dirs,
		  const struct store_limits *limits);
void snapshots_free(struct snapshots *p);

/*
 * Any thread. fresh: look now, whatever was seen before. scope: what is seen of it
 * (store_set_scope).
 */
int snapshots_take(struct snapshots *p, bool fresh, const char *scope, struct snapshot **ret,
		   struct err *err);
void snapshots_give(struct snapshots *p, struct snapshot *s);

/* What questions may use from now on. Handles that nobody uses are closed. Any thread. */
void snapshots_limit(struct snapshots *p, size_t bytes);

/* What a handle taken now would have as its state. */
uint64_t snapshots_state(struct snapshots *p);

/* Close handles that were not used for idle_ns; true: some are left. */
bool snapshots_tidy(struct snapshots *p, uint64_t idle_ns);

/* How many were opened, and the bytes of the store's files when it was last looked at. */
void snapshots_stats(struct snapshots *p, uint64_t *ret_opened, uint64_t *ret_bytes);

#endif
