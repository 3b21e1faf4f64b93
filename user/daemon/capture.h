/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures: recordings at a high rate beside the daemon's own, for somebody who waits for them.
 *
 *   server's thread --capture_record--> ascribe daemon --capture, a process --> STORE/capture
 *                   <------------------ its end
 *
 * The process has the daemon's arguments and file, so it keeps to the same selection and rules for
 * labels. It has a recorder, a store and a budget of memory of its own, serves nothing and pushes
 * nothing. It dies with the thread that waits for it. One at a time.
 */
#ifndef ASCRIBE_DAEMON_CAPTURE_H
#define ASCRIBE_DAEMON_CAPTURE_H

#include "http/http.h"

#include <pthread.h>

struct capture {
	pthread_mutex_t lock;
	char *const *argv; /* of the daemon */
	int argc;
	char store[512]; /* of the daemon */
	bool busy, stop;
};

/* argv is borrowed. */
void capture_init(struct capture *c, int argc, char *const *argv, const char *store);

/*
 * Any thread, waits until it was recorded: the time that is asked for and some seconds. *ret is the
 * store; capture_end releases it. -EBUSY: another one is running; -EINTR: capture_stop; -EIO: the
 * text is what the process said.
 */
int capture_record(struct capture *c, const struct http_capture *asked, char ret[static 512],
		   struct err *err);
/* Remove what was recorded: the next one may begin. */
void capture_end(struct capture *c);
/* End the one that is running, until `stop` is false again. */
void capture_stop(struct capture *c, bool stop);

#endif
