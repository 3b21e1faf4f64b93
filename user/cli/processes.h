/* SPDX-License-Identifier: Apache-2.0 */
/* For `ascribe check`: the rights that processes of daemons have, beside sandbox/roles.c. */
#ifndef ASCRIBE_CLI_PROCESSES_H
#define ASCRIBE_CLI_PROCESSES_H

#include <stdbool.h>

/*
 * Told of a process: its name, its rights, and in `differs` what the table has otherwise ("" where
 * they agree).
 */
typedef void (*processes_tell)(void *ctx, const char *name, const char *rights,
			       const char *differs);

/*
 * Tell of all processes of all daemons that /proc shows, however they were started. 0: there are
 * none; a number of daemons; -errno.
 */
int processes_look(processes_tell tell, void *ctx);

#endif
