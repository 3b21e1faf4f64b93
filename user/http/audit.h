/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asked what: a line of JSON for each request, to be kept elsewhere (http_hooks.audit). It has
 * no header, so no token, and only parameters that its path knows.
 */
#ifndef ASCRIBE_HTTP_AUDIT_H
#define ASCRIBE_HTTP_AUDIT_H

#include "http/request.h"

#include <sys/socket.h>

/* Lines a minute about requests that nobody answers for: they must not push out the others. */
#define AUDIT_UNKNOWN_MAX 60

struct audit {
	uint64_t minute, unknown; /* lines of requests without an asker, in that minute */
	uint64_t lost;		  /* lines that were not kept */
};

/* Tell of a request that is about to be answered. peer NULL: not known. Any thread. */
void audit_request(struct audit *a, const struct request *r, const struct sockaddr *peer);

#endif
