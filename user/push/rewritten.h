/* SPDX-License-Identifier: Apache-2.0 */
/* Cursors of a store that is written anew without some of its rows. */
#ifndef ASCRIBE_PUSH_REWRITTEN_H
#define ASCRIBE_PUSH_REWRITTEN_H

#include "util/err.h"

/*
 * For each cursor in the directory push of the store `from` write one into that of the store `to`,
 * at the same time: the windows of `to` have other numbers. A window that was sent in part begins
 * again with the event that was under way. Where a window of the past is still to be sent, those
 * after it go out once more. Damaged cursors are left out. Nobody writes either store. 0 or -errno.
 */
int push_cursors_move(const char *from, const char *to, struct err *err);

#endif
