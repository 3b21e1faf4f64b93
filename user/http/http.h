/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store over HTTP: docs/http.md. One thread per address does nothing but input and output; a few
 * workers answer questions, each with a read-only handle of the store; a keeper ends what takes too
 * long. Whoever writes the store is never waited for and never made to wait.
 *
 * Everything a client sends is bounded: the head, the body, the time until both are there, and the
 * time to take the answer. So are the numbers of connections and of questions that wait. What is
 * refused is answered with a JSON body that says why, and counted.
 */
#ifndef ASCRIBE_HTTP_HTTP_H
#define ASCRIBE_HTTP_HTTP_H

#include "fleet/fleet.h"
#include "http/access.h"
#include "http/quota.h"
#include "util/buf.h"
#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_server;
struct profile;
struct metric_rules;
struct sql_texts;

/* A recording that somebody waits for. */
#define HTTP_CAPTURE_HZ_MAX 999
#define HTTP_CAPTURE_S_MAX 60
struct http_capture {
	unsigned hz, seconds;
};

#define HTTP_WHY_MAX 120

/* What only a daemon has; any may be NULL. Called by threads of the server. */
struct http_hooks {
	void *ctx;
	/* Append families in Prometheus' text format. */
	int (*metrics)(void *ctx, struct buf *out);
	/* Whether recording goes on as it should; why not. */
	bool (*ready)(void *ctx, char ret_why[static HTTP_WHY_MAX]);
	/*
	 * Store a profile (profile.h) that somebody sent; waits until that is done. -EAGAIN: not
	 * now; -EDQUOT: more comes than is taken in.
	 */
	int (*ingest)(void *ctx, const struct profile *p, struct err *err);
	/*
	 * Record, and wait for it: *ret is a store until capture_end. -EBUSY: another one is
	 * running; -EINTR: capture_stop. All three or none.
	 */
	int (*capture)(void *ctx, const struct http_capture *asked, char ret[static 512],
		       struct err *err);
	void (*capture_end)(void *ctx);
	void (*capture_stop)(void *ctx, bool stop);
	/*
	 * Freeze what was recorded in the last minutes, and wait for it: *ret is its name in the
	 * directory frozen of the store. -EAGAIN: not now; -EDQUOT: no room for one more.
	 */
	int (*freeze)(void *ctx, char ret[static 64], struct err *err);
	/* Keep a line that says who asked what (audit.h). False: it is not kept. */
	bool (*audit)(void *ctx, const char *line);
};

struct http_config {
	const char *const *stores; /* read as one, where there are several */
	size_t n_stores;
	/* Instead of stores, with a directory for those that questions fill; url NULL: none */
	struct fleet_server clickhouse;
	const char *scratch;
	/* "unix:/path", "127.0.0.1:4041", "[::1]:4041", "localhost:4041" */
	const char *const *listen;
	size_t n_listen;
	/*
	 * Names that a Host header may have besides addresses of this host itself that are listened
	 * on
	 */
	const char *const *hosts;
	size_t n_hosts;
	/*
	 * Every request but /healthz and /readyz needs one of its tokens; without any: anonymous or
	 * Unix sockets alone
	 */
	struct access access;
	/* Requests over Unix sockets do not need one: their mode says who may connect */
	bool token_tcp_only;
	const char *tls_cert, *tls_key; /* PEM text; both or none; not on Unix sockets */
	/* Clients are asked for certificates of these authorities; PEM text, NULL: they are not */
	const char *tls_client_ca;
	bool anonymous;	      /* no token: whoever can connect may read everything */
	bool plain;	      /* the token may cross the network unencrypted */
	unsigned socket_mode; /* of Unix sockets; 0: 0660 */
	unsigned workers;     /* 0: 2 */
	unsigned connections; /* per address; 0: 128 */
	unsigned queue;	      /* questions that wait; 0: 64 */
	unsigned request_s;   /* time for a request to arrive; 0: 10 */
	unsigned response_s;  /* time for an answer to be taken; 0: 60 */
	/* What each asker may take (quota.h); 0: 60 s, 1 GiB, 128 MiB; UINT64_MAX: no limit */
	uint64_t quota[QUOTA_PARTS];
	size_t cache_bytes; /* of answers; 0: 4 MiB */
	/* That an answer keeps within, beside the dictionaries; 0: 64 MiB */
	size_t question_bytes;
	struct sql_texts *sql;	    /* statements behind query ids; NULL: none */
	struct metric_rules *rules; /* metrics from profiles; NULL: none */
	struct http_hooks hooks;
};

/*
 * The sockets that servers listen on. They outlive a server, so that connections wait in them while
 * one server ends and the next one begins. One thread.
 */
struct http_sockets;

/*
 * Listen on the addresses of cfg, which must make sense (http_check). Sockets of *io (NULL: none)
 * for the same addresses are kept, others are closed. On failure *io stays as it was.
 */
int http_sockets_open(struct http_sockets **io, const struct http_config *cfg, struct err *err);
/*
 * Bind anew the sockets that no longer listen, at the same address and port. On an error, which is
 * the first one's, those that could not be bound have no descriptor; the others listen.
 */
int http_sockets_mend(struct http_sockets *s, struct err *err);
/*
 * Take listening sockets that an earlier process of ours bound, for http_sockets_open to choose
 * from. Other descriptors are closed. NULL: none of them listens.
 */
void http_sockets_adopt(struct http_sockets **ret, const int *fds, size_t n);
/* How many of them listen. */
size_t http_sockets_open_n(const struct http_sockets *s);
/* Removes Unix sockets, too. */
void http_sockets_close(struct http_sockets *s);
/* Close the descriptors alone: somebody else keeps copies for the next process. */
void http_sockets_leave(struct http_sockets *s);

/*
 * Everything cfg points to, and the sockets, must stay until http_close. The store need not be
 * there yet: /readyz says so.
 */
int http_open(struct http_server **ret, const struct http_config *cfg,
	      const struct http_sockets *sockets, struct err *err);
/*
 * Requests that are being read or answered get 100 ms; then questions are ended, and those that
 * wait are refused.
 */
void http_close(struct http_server *s);

/* What a question may use from now on (http_config). Answers that are kept go. */
void http_limit(struct http_server *s, size_t question_bytes);

/* Check a configuration without listening. -EINVAL. */
int http_check(const struct http_config *cfg, struct err *err);

/*
 * "127.0.0.1:4041" or "unix:/path" of the i-th address, with the port that was really taken; NULL:
 * there is none.
 */
const char *http_address(const struct http_server *s, size_t i);

#endif
