/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP requests by libcurl, which web_new loads. Blocking, for processes that have nothing else to
 * do. Connections stay open from one request to the next. Redirects are not followed.
 *
 * Not thread-safe.
 */
#ifndef ASCRIBE_CLIENT_WEB_H
#define ASCRIBE_CLIENT_WEB_H

#include "util/buf.h"
#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEB_LINE_MAX (4u << 20)	  /* of a watch: etcd keeps no object of over 1.5 MiB */
#define WEB_TOKEN_MAX (64u << 10) /* bytes of a token's file */

struct web_place {
	const char *base;   /* "https://10.0.0.1:443"; "http://localhost" for a socket */
	const char *socket; /* path of a Unix socket; NULL: none */
	/*
	 * File with a bearer token, read anew for each request; NULL: none. The token is in no
	 * error text, and wiped after the request, except where libcurl copied it.
	 */
	const char *token;
	/* What stands before it, "Name: ", at most 64 bytes; NULL: that of bearer tokens */
	const char *token_header;
	const char *authority; /* file with the CA's certificates; NULL: those of the system */
	/* Files with our own certificate and its key, PEM; NULL: none */
	const char *certificate, *key;
	/* Take any: a kubelet signs its own, and is asked on this host only. No proxy is used. */
	bool any_certificate;
};

struct web_request {
	const char *path; /* with the query, "/api/v1/pods?limit=100" */
	/* A unary call by POST and HTTP/2 without TLS, whose message is body */
	bool grpc;
	/* The Content-Type of a body that is sent by POST; NULL, and no call: GET */
	const char *type;
	const char *const *headers; /* of a POST: "Name: value", a NULL ends them; NULL: none */
#define WEB_HEADERS_MAX 32
	const void *body;
	size_t body_len;
	size_t max_bytes;     /* of the answer: more fails with -EFBIG */
	unsigned deadline_ms; /* of all of it; 0: none, only connecting is limited, to 5 s */
	unsigned idle_ms;     /* without a byte: give up; 0: none */
	/*
	 * Called with whole lines of an answer of status 200, as they come, instead of collecting
	 * them. What the last line feed does not end is dropped. Not 0: stop, and return that.
	 * Must not call web_ask.
	 */
	int (*lines)(void *ctx, const uint8_t *bytes, size_t len);
	void *ctx;
	int stop_fd;	      /* readable or closed: give up with -EINTR. -1: none */
	unsigned *ret_wait_s; /* Retry-After of the answer, 0: none; NULL: of no interest */
};

struct web;

/* 0; -ELIBACC: no libcurl here (libcurl4 or libcurl3-gnutls); -ENOMEM. */
int web_new(struct web **ret, struct err *err);
void web_free(struct web *w);

/*
 * 0: the server answered with *ret_status (HTTP; for grpc 200 or 500 + grpc-status). out
 * (initialized by the caller, what it held is replaced) has the body; for grpc the message, or the
 * text of an error.
 *
 * Else -errno, out is empty, and err says what failed, on what, and what to do. -ECONNREFUSED,
 * -EHOSTUNREACH and what else connecting fails with, -ENOENT (no such socket, token or CA), -EACCES
 * (it may not be used). Also -ECONNRESET, -ETIMEDOUT, -EPROTO (TLS, HTTP, gRPC),
 * -EBADMSG (it is no token), -EFBIG, -EINTR, -EINVAL (the address), -ENOMEM.
 */
int web_ask(struct web *w, const struct web_place *at, const struct web_request *q,
	    unsigned *ret_status, struct buf *out, struct err *err);

/* The TCP port of a request to this URL; 0: not known, as behind a proxy. */
uint16_t web_port(const char *url);

/* The delay before try n (0, 1, ..) of what failed: doubled up to 30 s, half more or less. */
unsigned web_backoff_ms(unsigned n);

#endif
