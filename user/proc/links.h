/* SPDX-License-Identifier: Apache-2.0 */
/* Links of /proc/PID that take CAP_SYS_PTRACE to follow: the keeper opens what they lead to. */
#ifndef ASCRIBE_PROC_LINKS_H
#define ASCRIBE_PROC_LINKS_H

#include "sandbox/keeper.h"

enum proc_link { PROC_LINK_EXE, PROC_LINK_USER_NAMESPACE };

keeper_op proc_link_op; /* for the keeper's table */

/* The executable (O_PATH), or the user namespace, of a process: a descriptor or -errno. */
int proc_link_open(uint32_t tid, enum proc_link which);

#endif
