/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system in memory that nobody else sees and that goes with the process, however that ends.
 */
#ifndef ASCRIBE_UTIL_MEMFS_H
#define ASCRIBE_UTIL_MEMFS_H

#include "util/err.h"

#include <stdint.h>

/*
 * A directory to be closed: files in it are reached as /proc/self/fd/N/..., by this process. It is
 * not attached anywhere. -EPERM: needs CAP_SYS_ADMIN.
 */
int memfs_new(uint64_t max_bytes, int *ret_fd, struct err *err);

#endif
