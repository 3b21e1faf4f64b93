/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that ways of giving up privileges share. All return 0 or -errno. */
#ifndef ASCRIBE_SANDBOX_CONFINE_INT_H
#define ASCRIBE_SANDBOX_CONFINE_INT_H

#include "sandbox/confine.h"

#include <sys/resource.h>

int confine_capabilities(void); /* drop all */

/* Bytes of private writable memory that we have now: RLIMIT_DATA counts from zero. */
int confine_data_size(size_t *ret);

/* Both limits of a resource. */
int confine_limit(int what, rlim_t value);

/* A directory, and what may be done below it (LANDLOCK_ACCESS_FS_*). */
struct confine_path {
	const char *path;
	uint64_t access;
};

/*
 * No paths but these. Kernels without Landlock (before 5.13, or not configured) have seccomp alone.
 */
int confine_paths(const struct confine_path *but, size_t n);

#endif
