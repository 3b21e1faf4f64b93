/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What systemd is told (sd_notify(3)), by a datagram to $NOTIFY_SOCKET; nothing without it. The
 * keeper sends it: who can send anything can have systemd end any process of the host.
 */
#ifndef ASCRIBE_DAEMON_NOTIFY_H
#define ASCRIBE_DAEMON_NOTIFY_H

#include "sandbox/keeper.h"

#include <stdbool.h>
#include <stddef.h>

keeper_op notify_op; /* for the keeper's table */

/*
 * "READY=1", "STOPPING=1", "STATUS=..."; lines are parted by newlines. False: nobody is told, or
 * had no room.
 */
bool notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same, with descriptors: at most PASSED_MAX. */
bool notify_with(const char *text, const int *fds, size_t n_fds);
/* RELOADING=1 with the time that it wants; READY=1 ends it. */
void notify_reloading(void);

#endif
