/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon of this host, which records for members of its group who may not record themselves. */
#ifndef ASCRIBE_RECORD_LOCAL_H
#define ASCRIBE_RECORD_LOCAL_H

#include <stdbool.h>

#define LOCAL_SOCKET "/run/ascribe/http.sock" /* of the unit and of deploy/ascribe.yaml */

/* True with CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN: what this process itself may do. */
bool local_may_record(void);

/* 0: a daemon listens there, and we may connect. -EACCES: we may not. -ENOENT: there is none. */
int local_daemon(void);

/*
 * Behind an error, where the rights to record are missing and a daemon runs here: say who may use
 * it, and what for.
 */
void local_advise(const char *what);

#endif
