/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up privileges, for good. */
#ifndef ASCRIBE_SANDBOX_CONFINE_H
#define ASCRIBE_SANDBOX_CONFINE_H

#include <stddef.h>

/* Close every descriptor but keep, become nobody if we are root, drop all capabilities, no new ones. 0 or -errno. */
int confine_privileges(int keep);

/*
 * The rest, for who reads foreign bytes: Landlock (no path at all), resource limits, and seccomp: memory without execution,
 * reading and measuring of descriptors that are open, messages on sockets that are open, the end. Asking for a file by path fails with EACCES,
 * any other call kills. memory: bytes that may be allocated beyond what there is. 0 or -errno.
 */
int confine_worker(size_t memory);

#endif
