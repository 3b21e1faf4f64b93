/* SPDX-License-Identifier: Apache-2.0 */
/* Stores that an older version wrote: commands that read show a converted copy of them. */
#ifndef ASCRIBE_OPT_OLD_STORE_H
#define ASCRIBE_OPT_OLD_STORE_H

#include "util/err.h"

#include <stddef.h>
#include <stdint.h>

/*
 * *dir becomes a converted copy in a temporary directory (TMPDIR, else /var/tmp) where it is a
 * store of format 2; else it stays. Says so on stderr. The copy is removed when the process ends,
 * however it ends. Before there are threads.
 */
int old_store_copy(const char **dir, struct err *err);
/* The same for each of n; stops at the first error. */
int old_store_copies(const char **dirs, size_t n, struct err *err);

/*
 * Rewrite the store in dir where it is one of format 2, and remove what an interrupted rewrite
 * left. say: cmd_say, or a line of a log. *ret_bytes: that were written.
 */
int old_store_rewrite(const char *dir, void (*say)(const char *fmt, ...), uint64_t *ret_bytes,
		      struct err *err);

#endif
