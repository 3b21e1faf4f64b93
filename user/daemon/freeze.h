/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezes: what was recorded in the last minutes, with its tracks, becomes a store of its own in
 * STORE/frozen, which retention does not touch.
 *
 *   SIGUSR2, POST /api/v1/freeze, a rule --> the open window is written
 *                                            --> files linked and copied --> STORE/frozen/TIME
 *
 * So many are kept, and so many bytes; one more is refused, since the old ones may be what somebody
 * waits for. One thread.
 */
#ifndef ASCRIBE_DAEMON_FREEZE_H
#define ASCRIBE_DAEMON_FREEZE_H

#include "util/err.h"

#include <stddef.h>
#include <stdint.h>

#define FREEZE_DIR "frozen" /* in the store */
#define FREEZE_NAME_SIZE 64

struct freeze_limits {
	unsigned keep;	/* how many may be there */
	uint64_t bytes; /* and what they take, linked files and all */
};

/* Since the daemon began. */
struct freeze_counts {
	uint64_t made, refused, failed;
};

struct freeze_made {
	char name[FREEZE_NAME_SIZE]; /* in FREEZE_DIR */
	uint64_t bytes;
	size_t windows;
};

/* Is there room for one more? 0, -EDQUOT. Ask before the open window is cut short for it. */
int freeze_may(const char *store, const struct freeze_limits *l, struct err *err);

/* Freeze the windows of the store from since_ns on. Errors: as store_freeze. */
int freeze_store(const char *store, int64_t since_ns, struct freeze_made *ret, struct err *err);

#endif
