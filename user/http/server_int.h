/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's own parts: input and output (server.c), its connections (conns.c), questions that
 * wait and who answers them (work.c), what is counted (metrics.c).
 */
#ifndef ASCRIBE_HTTP_SERVER_INT_H
#define ASCRIBE_HTTP_SERVER_INT_H

#include "hist/hist.h"
#include "http/audit.h"
#include "http/cache.h"
#include "http/guard.h"
#include "http/intake.h"
#include "http/listen.h"
#include "http/peer.h"
#include "http/quota.h"
#include "http/request.h"
#include "http/snapshot.h"

#include <pthread.h>

struct MHD_Daemon;
struct MHD_Connection;

#define WORKERS_MAX 16
#define ROUTES_MAX 48 /* and the assets, and what is on no route */

/* What is refused before anybody looks at the question. */
/* clang-format off */
#define REFUSALS(X) \
	X(host) X(framing) X(origin) X(token) X(scope) X(quota) X(method) X(path) X(length) \
	X(queue) X(crowd) X(ingest) X(capture) X(memory) X(slow_request) X(slow_response) \
	X(protocol)
/* clang-format on */

enum refusal {
#define X(name) REFUSED_##name,
	REFUSALS(X)
#undef X
		N_REFUSALS
};

/* A connection; by its own thread, but for the deadline, which the keeper looks at. */
struct conn {
	struct conn *next, **at;
	const struct address *address;
	int fd;
	struct peer peer;	     /* of a Unix socket */
	bool answering, ended, idle; /* idle: between two requests */
	uint64_t deadline_ns;
};

struct address {
	struct http_server *server;
	struct MHD_Daemon *mhd;
	struct guard guard;
	const char *name;
};

struct task {
	struct task *next;
	struct MHD_Connection *conn;
	struct request *r;
	struct task *doing; /* the next of those that workers are at */
};

struct route_stats {
	uint64_t by_class[6]; /* 2xx at [2] */
	struct hist *ns;
};

struct http_server {
	struct http_config cfg;
	struct address address[ADDRESSES_MAX];
	size_t n_addresses;
	struct snapshots *snapshots;
	struct cache *cache;

	pthread_mutex_t lock; /* of the queue and of stopping */
	pthread_cond_t wake;
	struct task *first, **last, *doing;
	unsigned waiting, working;
	bool answered; /* since memory was given back */
	bool stopping;
	pthread_t worker[WORKERS_MAX];
	unsigned n_workers;

	pthread_mutex_t conns_lock;
	struct conn *conns;
	unsigned n_conns;
	pthread_t keeper;
	pthread_cond_t keeper_wake;
	bool has_keeper;

	pthread_t capturer;
	struct task captured;			   /* its request, while it runs; with the lock */
	bool capturing, has_capturer, no_captures; /* with the lock */

	struct intake intake;
	struct quota *quota;
	struct audit audit;
	uint64_t refused[N_REFUSALS];
	uint64_t sent_bytes, received_bytes;
	struct route_stats stats[ROUTES_MAX];
	uint64_t started_ns;
};

/* ---- config.c ---- */
/* Fill in what was not given. */
void config_set_defaults(struct http_config *c);

/* ---- asker.c ---- */
/* As guard_check, of a request by its head; r->grant gets what the asker may do. */
unsigned asker_check(struct address *a, struct MHD_Connection *c, struct request *r,
		     const char **ret_why);
/* Why the asker may not make this request, a static text; NULL: he may. */
const char *asker_may_not(const struct request *r);
/* Has the asker used up what he may take? Then r has its refusal. */
bool asker_must_wait(struct request *r);

/* ---- work.c ---- */
int work_start(struct http_server *s);
/* Refuse what waits, end what is being answered: whoever stops us may have to record. */
void work_stop(struct http_server *s);
/* False: too many wait. The connection is suspended from here on. */
bool work_add(struct http_server *s, struct MHD_Connection *conn, struct request *r);
/* Answer a request by its route; *r gets the answer or its refusal. */
void work_answer(struct http_server *s, struct request *r);

/* ---- capture.c ---- */
/* The connection is suspended from here on. -EBUSY: another capture is running. */
int capture_begin(struct http_server *s, struct MHD_Connection *conn, struct request *r);
/* End the one that is running, and let none begin. */
void capture_finish(struct http_server *s);

/* ---- conns.c ---- */
/* A new connection to an address; NULL without memory. */
struct conn *conns_open(struct address *a, int fd);
/* That of a request; NULL: it ends already. */
struct conn *conn_of(struct MHD_Connection *c);
void conns_close(struct http_server *s, struct conn *conn);
/* End those whose time is over. With conns_lock. */
void conns_end_late(struct http_server *s, uint64_t now);
/* Is a request being read or answered? */
bool conns_busy(struct http_server *s);

/* ---- what is counted: any thread ---- */
static inline void count_refused(struct http_server *s, enum refusal what)
{
	__atomic_fetch_add(&s->refused[what], 1, __ATOMIC_RELAXED);
}

/* route NULL: none. */
void count_request(struct http_server *s, const struct request *r, uint64_t ns);

#endif
