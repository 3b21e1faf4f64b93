/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the process that serves is started: by the keeper, which gives the recorder its end of the
 * channel. All else is the same in both ways.
 *
 *   by hand, in containers   a child of the keeper's, executed anew, with the other end of a pair
 *   in units                 systemd's, in a unit of its own: the keeper connects to
 *                            ascribe-web.socket, and systemd starts an instance of
 *                            ascribe-web@.service with that connection
 *
 * Either has the other end as ANEW_FD (systemd's first descriptor is the same number), and tells
 * its number first (WEB_HERE).
 */
#ifndef ASCRIBE_DAEMON_WEB_START_H
#define ASCRIBE_DAEMON_WEB_START_H

#include "sandbox/keeper.h"

/* For the keeper's table. */
keeper_op web_start_op;

/*
 * Start one. *ret_fd: the end of the channel, close-on-exec; *ret_pid: for kept.h, 0 where it will
 * tell. 0 or -errno.
 */
int web_start(int *ret_fd, pid_t *ret_pid, struct err *err);

/* In a keeper that is a unit: from now on they are started in theirs, and kept.h finds them. */
void web_start_in_units(void);

#endif
