/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT, SIGTERM and SIGHUP as something that a loop waits for. */
#ifndef ASCRIBE_CLI_SIGNALS_H
#define ASCRIBE_CLI_SIGNALS_H

/* From here on they come through this descriptor (signalfd, not blocking). Before there are threads. -1: there is none. */
int signals_take(void);

/* What has come is forgotten; from here on they do again what they do by default. */
void signals_release(int fd);

#endif
