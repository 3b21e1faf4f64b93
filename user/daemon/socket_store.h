/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While no recorder runs, systemd keeps the sockets of its server, so that connections wait in them
 * instead of being refused: over a crash, and over a restart to upgrade.
 *
 *   recorder --- FDSTORE=1 (sd_pid_notify_with_fds(3)) ---> systemd
 *   the next one <--- LISTEN_FDS (sd_listen_fds(3)) --------'
 *
 * The unit needs FileDescriptorStoreMax=, $FDSTORE, which systemd sets by itself since version 254,
 * and RuntimeDirectoryPreserve=restart for a Unix socket in the runtime directory.
 */
#ifndef ASCRIBE_DAEMON_SOCKET_STORE_H
#define ASCRIBE_DAEMON_SOCKET_STORE_H

#include "http/http.h"

/*
 * Take the sockets that this process was given, before it opens or starts anything. NULL: none.
 * Whatever is no listening socket is closed.
 */
void socket_store_take(struct http_sockets **ret);

/* The same for who listens at one socket of systemd's, which becomes close-on-exec. False: none. */
bool socket_store_take_one(int *ret);

/*
 * Give these to systemd in the place of those before; NULL: none. False: nobody keeps sockets, or
 * there was no room for the message.
 */
bool socket_store_keep(const struct http_sockets *s);

#endif
