/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What systemd is told (sd_notify(3)), by a datagram to $NOTIFY_SOCKET; nothing without it. A
 * process of its own sends it: who can send anything can have systemd end any process of the host.
 */
#ifndef ASCRIBE_DAEMON_NOTIFY_H
#define ASCRIBE_DAEMON_NOTIFY_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Fork the process that notifies, where $NOTIFY_SOCKET is set. It ends with the caller, after what
 * it was told by then. Call it before there is any secret in memory. 0 or -errno.
 */
int notify_start(struct err *err);

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
