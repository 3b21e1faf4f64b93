/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that serves for a daemon: `ascribe serve --web`, started by serving.c. It has the
 * descriptors that it is sent, and gives up every right before the first request.
 */
#ifndef ASCRIBE_DAEMON_WEB_PROCESS_H
#define ASCRIBE_DAEMON_WEB_PROCESS_H

/* Serve until the recorder wants an end. -errno: it could not begin; the recorder was told. */
int web_process_run(void);

#endif
