/* SPDX-License-Identifier: Apache-2.0 */
/* Files that configure this program: only root and the program's own user may have written them. */
#ifndef ASCRIBE_UTIL_TRUST_H
#define ASCRIBE_UTIL_TRUST_H

#include "util/err.h"

/*
 * Refuse an open file that another user owns, or that its group or others may write. Character
 * devices pass. path is for the message. 0, -EPERM, or the errno of fstat. Any thread.
 */
int trust_check(int fd, const char *path, struct err *err);

#endif
