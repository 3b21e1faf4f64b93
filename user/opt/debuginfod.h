/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe record's options for debug files from servers. */
#ifndef ASCRIBE_OPT_DEBUGINFOD_H
#define ASCRIBE_OPT_DEBUGINFOD_H

#include "opt/options.h"
#include "sandbox/downloads.h"

/*
 * urls: http:// and https:// addresses, or env for those of DEBUGINFOD_URLS. cache may be NULL.
 * -EINVAL: something is wrong with these. To be called before files are open.
 */
int debuginfod_start(struct downloads **ret, const struct opt_list *urls, const char *cache,
		     struct err *err);

/* Is the list one that debuginfod_start would take? */
int debuginfod_check(const struct opt_list *urls, struct err *err);

/* What came of it, on stderr. */
void debuginfod_print(const struct downloads *d);

#endif
