/* SPDX-License-Identifier: Apache-2.0 */
/* What verify and repair share. */
#ifndef ASCRIBE_STORE_CHECK_CHECK_H
#define ASCRIBE_STORE_CHECK_CHECK_H

#include "store/damage.h"
#include "store/write/writer_int.h"

struct check {
	struct store s;
	bool repair;
	bool changed;		       /* the manifest has to be written */
	bool rebuilt;		       /* it was lost */
	bool *kept;		       /* [n_segments]: the manifest goes on to name it */
	const struct segment *segment; /* that is being looked at; NULL: none */
	uint64_t n_bad;
	void (*cb)(void *ctx, const struct store_finding *f);
	void *ctx;
	struct err *err;
};

struct scan {
	uint64_t symbols_at, index_at; /* of a file that was sealed; 0: there is none */
	uint64_t torn;		       /* where the torn end begins */
	bool bad;
};

__attribute__((format(printf, 5, 6))) void check_tell(struct check *c, enum store_finding_kind kind,
						      const char *path, uint64_t offset,
						      const char *fmt, ...);
/* The files of tracks; repair removes those that are damaged. */
int check_tracks(struct check *c);
/* *ret_keep: the manifest goes on to name it. */
int repair_segment(struct check *c, struct segment *g, const struct scan *scan, bool *ret_keep);
/* Write the manifest, if anything was changed. */
int repair_finish(struct check *c);

#endif
