/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd is told (sd_notify(3)), by a datagram to $NOTIFY_SOCKET; nothing without it. */
#ifndef ASCRIBE_DAEMON_NOTIFY_H
#define ASCRIBE_DAEMON_NOTIFY_H

/* "READY=1", "STOPPING=1", "STATUS=..."; lines are parted by newlines. */
void notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* RELOADING=1 with the time that it wants; READY=1 ends it. */
void notify_reloading(void);

#endif
