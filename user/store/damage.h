/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a store: looked for, and cut out. */
#ifndef ASCRIBE_STORE_DAMAGE_H
#define ASCRIBE_STORE_DAMAGE_H

#include "util/err.h"

#include <stdint.h>

enum store_finding_kind {
	STORE_DAMAGED, /* bytes that were durable once and are wrong or gone */
	/* The end of what an interrupted writer was writing: nothing that was acknowledged */
	STORE_TORN,
	STORE_CUT, /* by store_repair: blocks that are no longer there */
};

struct store_finding {
	enum store_finding_kind kind;
	const char *path; /* of the file, with the directory of the store */
	uint64_t offset;
	const char *text; /* one line */
};

/*
 * Read every byte of the store and tell what is wrong with it. 0 also when there are findings; an
 * error when it cannot be looked at: no store, a newer version (-EPROTONOSUPPORT), an error of the
 * system. A store that is being written may show torn ends; what its writer moves or cuts meanwhile
 * is no damage.
 */
int store_verify(const char *dir, void (*cb)(void *ctx, const struct store_finding *f), void *ctx,
		 struct err *err);

/*
 * Cut out what is damaged and keep all the rest; tells what store_verify would, and then what it
 * has cut. -EBUSY while somebody writes. Afterwards the store opens and store_verify finds nothing.
 */
int store_repair(const char *dir, void (*cb)(void *ctx, const struct store_finding *f), void *ctx,
		 struct err *err);

#endif
