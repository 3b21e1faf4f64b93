/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may ask. A page of another origin must not read profiles through the browser of somebody on
 * this host. Without a token, a Host header must name an address that is listened on (against DNS
 * rebinding). An Origin header must name the same host (against forms and scripts of other sites).
 * Over a Unix socket no browser comes, and any Host will do.
 */
#ifndef ASCRIBE_HTTP_GUARD_H
#define ASCRIBE_HTTP_GUARD_H

#include "http/http.h"

#define GUARD_HOST_MAX 256

/* For who asks through a proxy that takes Authorization for itself, as Kubernetes' does. */
#define GUARD_TOKEN_HEADER "X-Ascribe-Token"

struct guard {
	const struct http_config *cfg;
	const char *listen; /* of the address that the request came in by */
	bool unix_socket, tls;
};

/*
 * What a request says of where it comes from and who sent it; members are NULL where it does not
 * say.
 */
struct guard_asker {
	const char *host, *origin, *authorization;
	const char *token;	 /* of GUARD_TOKEN_HEADER */
	const char *password;	 /* of "Authorization: Basic", whatever the user name */
	const char *certificate; /* the common name of one that was verified */
	bool member;		 /* by a Unix socket, from our group (peer.h) */
};

/*
 * The status to refuse with and why, a static text; 0: go on, with what *ret allows. open: no token
 * is asked for.
 */
unsigned guard_check(const struct guard *g, const struct guard_asker *a, bool open,
		     const struct access_grant **ret, const char **ret_why);

#endif
