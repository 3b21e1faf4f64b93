/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the watcher, by libcurl, which is loaded on the first one. Blocking: the watcher has
 * nothing else to do.
 */
#ifndef ASCRIBE_PODS_WEB_H
#define ASCRIBE_PODS_WEB_H

#include "util/buf.h"
#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEB_LINE_MAX (4u << 20) /* of a watch: etcd keeps no object of over 1.5 MiB */

struct web_place {
	const char *base;      /* "https://10.0.0.1:443"; "http://localhost" for a socket */
	const char *socket;    /* path of a Unix socket; NULL: none */
	const char *token;     /* file with a bearer token, read anew for each request; NULL: none */
	const char *authority; /* file with the CA's certificates; NULL: those of the system */
	bool any_certificate;  /* a kubelet signs its own, and is asked on this host only */
};

struct web_request {
	const char *path; /* with the query, "/api/v1/pods?limit=100" */
	/* Body of a POST; NULL: GET. grpc: HTTP/2, framed, the status from the trailers */
	const void *body;
	size_t body_len;
	bool grpc;
	size_t max_bytes;  /* of the answer: more fails with -EFBIG */
	unsigned deadline_ms; /* of all of it; 0: none, only the connection has a limit */
	unsigned idle_ms;     /* without a byte: give up; 0: none */
	/*
	 * Called with whole lines, as they come, instead of collecting the answer. Not 0: stop, and
	 * return that.
	 */
	int (*lines)(void *ctx, const uint8_t *bytes, size_t len);
	void *ctx;
	/* Readable: give up with -EINTR. -1: none */
	int stop_fd;
};

struct web;

/* 0; -ELIBACC: no libcurl here (libcurl4 or libcurl3-gnutls). */
int web_new(struct web **ret, struct err *err);
void web_free(struct web *w);

/*
 * 0: the server answered with *ret_status (HTTP; for grpc 200 or 500 + grpc-status), the body is
 * in out (initialized by the caller). Else -errno, and err says what failed: -ECONNREFUSED,
 * -ENOENT (no such socket), -EACCES, -ETIMEDOUT, -EPROTO (TLS, HTTP), -EFBIG, -EINTR.
 */
int web_ask(struct web *w, const struct web_place *at, const struct web_request *q,
	    unsigned *ret_status, struct buf *out, struct err *err);

#endif
