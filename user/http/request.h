/* SPDX-License-Identifier: Apache-2.0 */
/* A request on its way through the server, and what is asked of it. */
#ifndef ASCRIBE_HTTP_REQUEST_H
#define ASCRIBE_HTTP_REQUEST_H

#include "http/http.h"
#include "store/store.h"

#include <jansson.h>

struct request;
struct json_rows;
struct asker;
struct asset;

/*
 * Fills r->out and r->type. 0, or an error whose text the client gets: -EINVAL and -E2BIG 400,
 * -ENOENT 404, -EMSGSIZE 413, -EPROTONOSUPPORT 415, -EOPNOTSUPP 501, -EDQUOT 429, -EAGAIN and
 * -ENOMEM 503, -ESTALE is tried again, anything else 500. s is NULL for routes that need no store.
 */
typedef int request_handler(struct request *r, struct store *s, struct err *err);

enum {
	ROUTE_POST = 1,	   /* asked by POST */
	ROUTE_GET = 2,	   /* by GET and HEAD */
	ROUTE_STORE = 4,   /* answered by a worker with a store */
	ROUTE_CACHE = 8,   /* the same question of the same windows has the same answer */
	ROUTE_OPEN = 16,   /* without a token */
	ROUTE_SLOW = 32,   /* by a worker, without a store */
	ROUTE_INGEST = 64, /* its body is a profile to store */
	/*
	 * Whoever may see a part of the labels may ask here: all that the answer shows comes from
	 * queries (query/scope.h). Others are refused.
	 */
	ROUTE_SCOPED = 128,
	ROUTE_FREEZE = 256, /* for whoever may have captures made */
};

struct route {
	const char *path;
	const char *name; /* of the series in /metrics */
	unsigned flags;
	size_t body_max;
	request_handler *handle;
	const char *const *params; /* those that it knows, ending in NULL; NULL: whatever comes */
};

struct param {
	char *name, *value;
};

struct request {
	struct http_server *server;
	const struct route *route;
	const struct asset *asset;
	char *path;
	bool head;
	struct param *params;
	size_t n_params;
	struct fleet_result *filled; /* the store is one of ClickHouse's answers */
	struct fleet_asking *asking; /* and has names alone: see http/fleet.h */
	struct buf body;
	size_t held;	     /* bytes of it that the server's intake holds */
	size_t charged;	     /* bytes that were charged before it is known what it adds */
	struct buf question; /* what tells it from others, for the cache; empty: it is not kept */
	char content_type[256];
	char encoding[32];
	char none_match[80];
	const struct access_grant *grant;
	struct asker *asker; /* whose quotas it takes; NULL: nobody's, it was refused */
	uint64_t cpu_ns;     /* of its answer */
	size_t answer_bytes; /* that the asker's quota holds */
	bool takes_gzip, takes_openmetrics;
	/* the answer */
	unsigned status;
	const char *type;
	struct buf out;
	char etag[40];
	bool gzipped;
	unsigned retry_after;
	bool close; /* the connection, after the answer */
};

extern const struct route routes[];
extern const size_t n_routes;
/* Is it the path of a call of connect or gRPC, "/querier.v1.QuerierService/Series"? */
bool routes_is_procedure(const char *path);

const char *request_param(const struct request *r, const char *name);
/*
 * Read a parameter of decimal digits, at most max. 1; 0: it is not given, or empty; -EINVAL,
 * without a text.
 */
int request_number(const struct request *r, const char *name, uint64_t max, uint64_t *ret);
/* -EINVAL names the parameter that is unknown or given twice. */
int request_check_params(const struct request *r, struct err *err);
/* Answer with a value, which is taken over; -ENOMEM when it is NULL. */
int request_json(struct request *r, json_t *value, struct err *err);
/* The same of an object with these rows. */
int request_json_rows(struct request *r, json_t *object, const struct json_rows *rows,
		      struct err *err);
/* The answer to an error: its code by name and its text. */
void request_fail(struct request *r, unsigned status, const char *text);
unsigned request_status(int rc);
void request_free(struct request *r);

/* Routes in their own files. */
request_handler api_labels, api_values, api_series, api_flame, api_table, api_diff, api_histogram,
	api_stat, api_heatmap, api_blame, api_locks, api_findings, api_why, api_statements;
request_handler export_page, export_profile, export_stacks;
/* Is it a question for a recording that is to be made? */
bool http_is_capture(const struct request *r);
request_handler api_freeze, http_healthz, http_readyz, http_metrics, http_rules;

/* "# HELP ..." and "# TYPE ..." of a family. */
int metrics_family(struct buf *out, const char *name, const char *type, const char *help);

#endif
