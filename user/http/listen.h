/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses to listen on: "unix:/path", "host:port" with a number or `localhost` as host,
 * "[v6]:port".
 */
#ifndef ASCRIBE_HTTP_LISTEN_H
#define ASCRIBE_HTTP_LISTEN_H

#include "http/http.h"
#include "sandbox/keeper.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define ADDRESSES_MAX 8

struct listen_at {
	char unix_path[108]; /* empty: TCP */
	struct sockaddr_storage addr;
	socklen_t len;
	bool is_local; /* nobody outside this host can come by it */
};

/* One that is listened on. */
struct http_socket {
	char *text; /* the address as it was configured */
	struct listen_at at;
	int fd;
	char name[128]; /* the address with the port that was taken */
	bool adopted;	/* bound by whoever was before: its path is not removed here */
};

struct http_sockets {
	struct http_socket v[ADDRESSES_MAX];
	size_t n;
	unsigned mode; /* of Unix sockets */
	bool changed;  /* others than before, or bound anew; for whoever keeps them */
};

/*
 * For the keeper's table: make a bound socket of TCP; does nobody listen on a Unix socket any more?
 */
keeper_op listen_op, listen_stale_op;

int listen_parse(struct listen_at *ret, const char *text, struct err *err);
/*
 * A listening socket; *at and name get its real port. A Unix socket that nobody listens on any more
 * is replaced.
 */
int listen_open(struct listen_at *at, unsigned mode, int *ret_fd, char *name, size_t cap,
		struct err *err);

#endif
