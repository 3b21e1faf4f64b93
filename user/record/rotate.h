/* SPDX-License-Identifier: Apache-2.0 */
/* An earlier recording at the place where a new one goes. */
#ifndef ASCRIBE_RECORD_ROTATE_H
#define ASCRIBE_RECORD_ROTATE_H

#include "util/err.h"

#include <stdbool.h>

/*
 * If dir is a store, rename it to dir.old; a store that was there is removed, anything else is not
 * (-EEXIST). Something at dir that is no store is left for the writer to refuse. -EBUSY: it is
 * being written.
 */
int rotate_store(const char *dir, bool *ret_moved, struct err *err);

/*
 * Take that back: remove the new store, which holds nothing, and give the earlier one its place
 * again.
 */
void rotate_undo(const char *dir);

#endif
