/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that ways of giving up privileges share. All return 0 or -errno. */
#ifndef ASCRIBE_SANDBOX_CONFINE_INT_H
#define ASCRIBE_SANDBOX_CONFINE_INT_H

#include "sandbox/confine.h"

#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* Become this user of this group if we are root, drop all capabilities, and gain none again. */
int confine_user(uid_t user, gid_t group);

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

/* Add this action for each of these calls that this machine has. */
int confine_calls(scmp_filter_ctx f, uint32_t action, const int *calls, size_t n);
/* Allow memory that is not executable. */
int confine_no_code(scmp_filter_ctx f);

#endif
