/* SPDX-License-Identifier: Apache-2.0 */
/* The receivers of `push:`, in the daemon: their processes, the log, the metrics. */
#ifndef ASCRIBE_DAEMON_PUSHING_H
#define ASCRIBE_DAEMON_PUSHING_H

#include "opt/push_options.h"
#include "push/pusher.h"
#include "util/buf.h"

#define DAEMON_PUSH_MAX 8

struct pushing {
	struct pusher *of[DAEMON_PUSH_MAX];
	size_t n;
	struct {
		uint64_t failing_ns; /* CLOCK_MONOTONIC, since when; 0: it is not */
		bool said;
		uint64_t refused, cut, too_old; /* as they were said last */
	} state[DAEMON_PUSH_MAX];
};

/* A copy for the server's threads. */
struct push_published {
	char name[PUSH_NAME_MAX];
	struct push_stats st;
};

/* texts: of the sections. Those that were started before a failure go on. */
int pushing_start(struct pushing *p, const char *store, const struct push_section *of,
		  char *const *texts, size_t n, struct err *err);
/* Let them end what is under way, for a second at most. */
void pushing_end(struct pushing *p);
/* Take what they told, and log what somebody should know: once, and once more when it is over. */
void pushing_look(struct pushing *p);

/* Returns how many there are. */
size_t pushing_publish(struct pushing *p, struct push_published ret[DAEMON_PUSH_MAX]);
/* ascribe_push_*: nothing where there is no receiver. */
int pushing_metrics(const struct push_published *p, size_t n, struct buf *out);

#endif
