/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory in the making. It has the name NAME.tmp until it is complete, so that nothing
 * half-made ever has the name that was asked for. Its file `lock` says that it is in the making,
 * and the directory is locked meanwhile: the next command of the same NAME removes what a killed
 * one left.
 */
#ifndef ASCRIBE_STORE_OPS_STAGING_H
#define ASCRIBE_STORE_OPS_STAGING_H

#include "util/err.h"

#include <stdbool.h>

#define STAGING_SUFFIX ".tmp"

struct staging {
	char *name, *tmp; /* without a slash at the end */
	int fd;		  /* of the directory, locked */
};

/*
 * Make NAME.tmp with mode 0700. -EEXIST: NAME is there and `replaces` is false, or NAME.tmp is,
 * which another command is writing or somebody else made. Nothing has to be released after a
 * failure.
 */
int staging_begin(struct staging *s, const char *name, bool replaces, struct err *err);
/* Give it its name. -EEXIST: something else has that name by now. */
int staging_commit(struct staging *s, struct err *err);
/* Put it in the place of the directory NAME, which staging_end removes then. */
int staging_swap(struct staging *s, struct err *err);
/* Remove what was not committed, and release. */
void staging_end(struct staging *s);

#endif
