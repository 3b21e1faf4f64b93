/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper of a recorder that systemd starts without any capability, in a unit of its own. Both
 * units have the same command line, the keeper's with --keeper.
 *
 *   systemd: connects for the recorder ----> ascribe-keeper.socket ----> starts the keeper, which
 *   (StandardInput=file:)                                                accepts
 *   recorder <-- its end of the channel, and sockets of those ------ looks who it is, starts
 *                                                                   those who ask other servers
 *
 * From there on it is as with a keeper that the recorder has started (sandbox/keeper.h). It serves
 * one recorder, and ends with it. Another one waits in the socket until then, and has a new keeper.
 */
#ifndef ASCRIBE_DAEMON_KEEPER_UNIT_H
#define ASCRIBE_DAEMON_KEEPER_UNIT_H

#include "daemon/running.h"

/*
 * Whose sockets a recorder cannot make: its keeper starts these processes. By hand the recorder
 * does, while it has its rights.
 */
int daemon_start_clients(struct daemon *d, struct err *err);

/*
 * In the recorder: take the connection that $ASCRIBE_KEEPER_FD names, and with it a keeper and the
 * clients that it started. Without the variable nothing is done. 0 or -errno.
 */
int daemon_join_keeper(struct daemon *d, struct err *err);

/*
 * In the keeper: serve the first recorder that connects. Returns 0 when nobody did, or -errno; else
 * never.
 */
int daemon_be_keeper(struct daemon *d, struct err *err);

#endif
