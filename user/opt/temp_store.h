/* SPDX-License-Identifier: Apache-2.0 */
/* Directories for stores that live as long as the process. */
#ifndef ASCRIBE_OPT_TEMP_STORE_H
#define ASCRIBE_OPT_TEMP_STORE_H

#include "util/err.h"

/*
 * Make an empty directory (in TMPDIR, else /var/tmp), which is removed when the process ends,
 * however it ends. Before there are threads. The text of *ret lives as long as the process.
 */
int temp_store_new(const char **ret, struct err *err);

#endif
