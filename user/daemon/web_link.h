/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of ascribe-web: what the recorder told last, and requests to it. Hooks of the server are
 * called by its threads; one thread runs web_link_run.
 */
#ifndef ASCRIBE_DAEMON_WEB_LINK_H
#define ASCRIBE_DAEMON_WEB_LINK_H

#include "daemon/web_messages.h"
#include "util/buf.h"

#include <pthread.h>

/* A request without its answer; one of each kind at a time. */
struct web_waiting {
	uint64_t id; /* 0: none */
	bool done;
	struct web_done answer;
};

struct web_link {
	int fd;
	pthread_mutex_t lock;
	pthread_cond_t news;
	bool ended;	/* the recorder wants us to end, or has ended */
	bool capturing; /* until its store was read */
	bool no_captures;
	uint64_t last_id;
	struct web_waiting profile, capture, freeze;
	int profile_fd; /* the memory of the profile */
	struct web_state state;
	struct buf metrics;
	int audit_fd;			 /* -1: there is no log of requests */
	uint64_t audit_bytes, audit_max; /* that it has, and may have */
};

int web_link_init(struct web_link *l, int fd);

/* Send a packet that has no descriptor. -errno. */
int web_link_send(struct web_link *l, const void *packet, size_t len);

/* Append the log of requests to this file, of at most max bytes; before web_link_hooks. */
void web_link_audit(struct web_link *l, int fd, uint64_t max);

struct http_hooks web_link_hooks(struct web_link *l);

/* Wait for the first state: nobody is answered without one. -EPIPE, -ENOMEM. */
int web_link_begin(struct web_link *l);

/* Take orders until the recorder wants an end. */
void web_link_run(struct web_link *l, struct http_server *server);

#endif
