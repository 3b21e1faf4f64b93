/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input and output. A request is looked at when its head is there (guard, path, method, length),
 * and collected. The thread that read it answers when that takes no time, else a worker while the
 * connection is suspended. The keeper closes connections (conns.c) whose request does not arrive,
 * or whose answer is not taken, in time. libmicrohttpd's own limit is one of silence, which a
 * client that sends a byte now and then never reaches.
 */
#include "http/server_int.h"

#include "http/assets.h"
#include "http/clock.h"
#include "http/framing.h"
#include "util/gunzip.h"
#include "util/own.h"

#include <errno.h>
#include <malloc.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SPARE_CONNECTIONS 16 /* accepted while others are being closed to make room */
#define CONN_MEMORY 32768    /* head and parameters */
#define PARAMS_MAX 32
#define IDLE_S 30
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" /* as GnuTLS spells it */
#define CLOSE_NS HTTP_NS /* at most, for requests on open connections */
#define CLOSE_QUIET_NS (HTTP_NS / 20)
#define HANDLE_IDLE_NS (30 * HTTP_NS)

/* One request as this file sees it. */
struct exchange {
	struct request *r;
	uint64_t began_ns;
	bool refused; /* the answer went out before the body came in */
};

/*
 * The page holds nothing of the store, and whoever has a token can give it nowhere else than there.
 */
static const struct route page_route = { "/", "page", ROUTE_GET | ROUTE_OPEN, 0, NULL, NULL };
static const struct route no_route = { "", "none", ROUTE_GET | ROUTE_POST, 0, NULL, NULL };

/* ---- answers ---- */

static void add_headers(const struct request *r, struct MHD_Response *m)
{
	char text[24];
	MHD_add_response_header(m, "Content-Type", r->type ? r->type : "application/json");
	MHD_add_response_header(m, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(m, "X-Frame-Options", "DENY");
	MHD_add_response_header(m, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(m, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(
		m, "Content-Security-Policy",
		"default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
		"frame-ancestors 'none'");
	MHD_add_response_header(m, "Cache-Control", r->etag[0] ? "no-cache" : "no-store");
	if (r->etag[0])
		MHD_add_response_header(m, "ETag", r->etag);
	if (r->gzipped)
		MHD_add_response_header(m, "Content-Encoding", "gzip");
	if (r->asset)
		MHD_add_response_header(m, "Vary", "Accept-Encoding");
	/* Pages of their own: never shown as if they were ours */
	if (r->status == 200 && !strncmp(r->path, "/export/", 8))
		MHD_add_response_header(m, "Content-Disposition", "attachment");
	if (r->status == 401)
		MHD_add_response_header(m, "WWW-Authenticate", "Bearer realm=\"ascribe\"");
	if (r->status == 405)
		MHD_add_response_header(m, "Allow",
					r->route->flags & ROUTE_GET ? "GET, HEAD" : "POST");
	if (r->close)
		MHD_add_response_header(m, MHD_HTTP_HEADER_CONNECTION, "close");
	if (r->retry_after) {
		snprintf(text, sizeof(text), "%u", r->retry_after);
		MHD_add_response_header(m, "Retry-After", text);
	}
}

static void audit(struct http_server *s, struct MHD_Connection *c, const struct request *r)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	audit_request(&s->audit, r, info ? info->client_addr : NULL);
}

static enum MHD_Result send_answer(struct address *a, struct MHD_Connection *c, struct exchange *x)
{
	struct http_server *s = a->server;
	struct request *r = x->r;
	struct conn *conn = conn_of(c);
	if (conn) {
		__atomic_store_n(&conn->answering, true, __ATOMIC_RELAXED);
		__atomic_store_n(&conn->deadline_ns, http_now_ns() + s->cfg.response_s * HTTP_NS,
				 __ATOMIC_RELAXED);
	}
	struct MHD_Response *m =
		MHD_create_response_from_buffer(r->out.len, r->out.data, MHD_RESPMEM_MUST_COPY);
	if (!m)
		return MHD_NO;
	__atomic_fetch_add(&s->sent_bytes, r->out.len, __ATOMIC_RELAXED);
	if (r->asker) {
		r->answer_bytes = r->out.len;
		quota_hold(s->quota, r->asker, r->answer_bytes);
		quota_charge(s->quota, r->asker, QUOTA_BYTES, r->answer_bytes);
	}
	add_headers(r, m);
	audit(s, c, r);
	buf_fini(&r->out);
	enum MHD_Result rc = MHD_queue_response(c, r->status, m);
	MHD_destroy_response(m);
	count_request(s, r, http_now_ns() - x->began_ns);
	return rc;
}

static enum MHD_Result refuse(struct address *a, struct MHD_Connection *c, struct exchange *x,
			      unsigned status, enum refusal what, const char *text)
{
	count_refused(a->server, what);
	x->refused = true;
	request_fail(x->r, status, text);
	return send_answer(a, c, x);
}

/* ---- the page ---- */

static void answer_asset(struct request *r)
{
	const struct asset *f = r->asset;
	r->type = f->type;
	r->status = 200;
	snprintf(r->etag, sizeof(r->etag), "%s", f->etag);
	if (!strcmp(r->none_match, f->etag)) {
		r->status = 304;
		return;
	}
	r->gzipped = r->takes_gzip;
	if (r->gzipped ? buf_add(&r->out, f->gz, f->gz_len)
		       : gunzip(f->gz, f->gz_len, SIZE_MAX, &r->out, NULL))
		request_fail(r, 503, "out of memory");
}

/* ---- requests ---- */

static enum MHD_Result add_param(void *ctx, enum MHD_ValueKind kind, const char *name,
				 const char *value)
{
	struct request *r = ctx;
	(void)kind;
	struct param *v = reallocarray(r->params, r->n_params + 1, sizeof(*v));
	const struct param p = { strdup(name), strdup(value ? value : "") };
	r->params = v ? v : r->params;
	if (!v || !p.name || !p.value) {
		free(p.name);
		free(p.value);
		request_fail(r, 503, "out of memory");
		return MHD_NO;
	}
	r->params[r->n_params++] = p;
	return MHD_YES;
}

static const char *header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static void copy_header(struct MHD_Connection *c, const char *name, char *to, size_t cap)
{
	const char *v = header(c, name);
	snprintf(to, cap, "%s", v ? v : "");
}

static void find_route(struct request *r)
{
	r->route = &no_route;
	for (size_t i = 0; i < n_routes; i++)
		if (!strcmp(routes[i].path, r->path))
			r->route = &routes[i];
	for (size_t i = 0; i < n_assets; i++) {
		if (strcmp(assets[i].path, r->path))
			continue;
		r->asset = &assets[i];
		r->route = &page_route;
	}
}

static struct exchange *begin(struct address *a, struct MHD_Connection *c, const char *url)
{
	struct exchange *x = calloc(1, sizeof(*x));
	struct request *r = calloc(1, sizeof(*r));
	if (!x || !r || !(r->path = strdup(url))) {
		free(x);
		free(r);
		return NULL;
	}
	r->server = a->server;
	copy_header(c, "Content-Type", r->content_type, sizeof(r->content_type));
	copy_header(c, "Content-Encoding", r->encoding, sizeof(r->encoding));
	copy_header(c, "If-None-Match", r->none_match, sizeof(r->none_match));
	const char *accept = header(c, "Accept-Encoding");
	r->takes_gzip = accept && strstr(accept, "gzip") && !strstr(accept, "gzip;q=0");
	accept = header(c, "Accept");
	r->takes_openmetrics = accept && strstr(accept, "application/openmetrics-text");
	find_route(r);
	x->r = r;
	x->began_ns = http_now_ns();
	return x;
}

/* A body that says its length says it before it is sent. */
static bool too_long(struct MHD_Connection *c, const struct request *r)
{
	const char *length = header(c, "Content-Length");
	return length && (strlen(length) > 18 || strtoull(length, NULL, 10) > r->route->body_max);
}

/* By the head alone. */
static enum MHD_Result look(struct address *a, struct MHD_Connection *c, const char *method,
			    const char *version, struct exchange *x)
{
	struct request *r = x->r;
	const char *why = framing_check(c, version);
	if (why) {
		r->close = true;
		return refuse(a, c, x, 400, REFUSED_framing, why);
	}
	unsigned status = asker_check(a, c, r, &why);
	if (status)
		return refuse(a, c, x, status,
			      status == 421   ? REFUSED_host
			      : status == 403 ? REFUSED_origin
					      : REFUSED_token,
			      why);
	if (r->route == &no_route && routes_is_procedure(r->path))
		return refuse(a, c, x, 501, REFUSED_path, "this procedure is not served here");
	if (r->route == &no_route)
		return refuse(a, c, x, 404, REFUSED_path, "nothing is at this path");
	bool get = !strcmp(method, "GET") || !strcmp(method, "HEAD"),
	     post = !strcmp(method, "POST");
	if (!((get && (r->route->flags & ROUTE_GET)) || (post && (r->route->flags & ROUTE_POST))))
		return refuse(a, c, x, 405, REFUSED_method, "this path does not know that method");
	r->head = !strcmp(method, "HEAD");
	if (too_long(c, r))
		return refuse(a, c, x, 413, REFUSED_length,
			      "the body is longer than this path takes");
	if (MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, NULL, NULL) > PARAMS_MAX)
		return refuse(a, c, x, 400, REFUSED_length, "too many parameters");
	MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, add_param, r);
	why = asker_may_not(r);
	if (why)
		return refuse(a, c, x, 403, REFUSED_scope, why);
	if (asker_must_wait(r)) /* once the body has come: who sends does not read */
		return MHD_YES;
	r->retry_after = r->route->flags & ROUTE_INGEST
				 ? intake_delay_s(&a->server->intake, x->began_ns)
				 : 0;
	if (r->retry_after) {
		/* Once the body has come: who still sends does not read when to come again */
		count_refused(a->server, REFUSED_ingest);
		request_fail(r, 429, "more profiles come than are taken in");
	}
	return MHD_YES;
}

static enum MHD_Result take_body(struct address *a, struct exchange *x, const char *data,
				 size_t *size)
{
	struct request *r = x->r;
	size_t n = *size;
	*size = 0;
	__atomic_fetch_add(&a->server->received_bytes, n, __ATOMIC_RELAXED);
	if (r->asker)
		quota_charge(a->server->quota, r->asker, QUOTA_BYTES, n);
	if (x->refused || r->status)
		return MHD_YES;
	if (n > r->route->body_max - r->body.len) {
		/* the answer can go only when all has come: until then nothing is kept */
		count_refused(a->server, REFUSED_length);
		buf_fini(&r->body);
		request_fail(r, 413, "the body is longer than this path takes");
	} else if (!intake_hold(&a->server->intake, n)) {
		count_refused(a->server, REFUSED_memory);
		buf_fini(&r->body);
		request_fail(r, 503, "too much comes at a time");
		r->retry_after = 1;
	} else if (r->held += n, buf_add(&r->body, data, n)) {
		request_fail(r, 503, "out of memory");
	}
	return MHD_YES;
}

/* A thread of its own records: workers answer others meanwhile. */
static enum MHD_Result begin_capture(struct address *a, struct MHD_Connection *c,
				     struct exchange *x)
{
	struct conn *conn = conn_of(c);
	if (!a->server->cfg.hooks.capture)
		return refuse(a, c, x, 501, REFUSED_capture,
			      "nothing is recorded here: this is no daemon");
	if (conn)
		__atomic_store_n(&conn->deadline_ns, UINT64_MAX, __ATOMIC_RELAXED);
	int rc = capture_begin(a->server, c, x->r);
	if (!rc)
		return MHD_YES;
	x->r->retry_after = 10;
	return rc == -EBUSY ? refuse(a, c, x, 429, REFUSED_capture, "another capture is running")
			    : refuse(a, c, x, 503, REFUSED_capture, "no capture can begin now");
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *size, void **own)
{
	struct address *a = ctx;
	struct exchange *x = *own;
	if (!x) {
		struct conn *conn = conn_of(c);
		if (conn)
			__atomic_store_n(&conn->idle, false, __ATOMIC_RELAXED);
		*own = x = begin(a, c, url);
		return x ? look(a, c, method, version, x) : MHD_NO;
	}
	if (*size)
		return take_body(a, x, data, size);
	if (x->refused)
		return MHD_YES;
	struct request *r = x->r;
	if (r->status)
		return send_answer(a, c, x);
	if (r->asset) {
		answer_asset(r);
	} else if (http_is_capture(r)) {
		return begin_capture(a, c, x);
	} else if (r->route->flags & (ROUTE_STORE | ROUTE_SLOW)) {
		struct conn *conn = conn_of(c);
		if (conn)
			__atomic_store_n(&conn->deadline_ns, UINT64_MAX, __ATOMIC_RELAXED);
		if (work_add(a->server, c, r))
			return MHD_YES;
		r->retry_after = 1;
		return refuse(a, c, x, 503, REFUSED_queue, "too many questions at a time");
	} else {
		work_answer(a->server, r);
	}
	return send_answer(a, c, x);
}

/*
 * A NUL would end the text for us and not for whoever wrote it: it becomes a byte that is in no
 * name.
 */
static size_t unescape(void *ctx, struct MHD_Connection *c, char *s)
{
	(void)ctx;
	(void)c;
	size_t n = MHD_http_unescape(s);
	for (size_t i = 0; i < n; i++)
		if (!s[i])
			s[i] = 1;
	return n;
}

/* ---- connections ---- */

static void on_completed(void *ctx, struct MHD_Connection *c, void **own,
			 enum MHD_RequestTerminationCode code)
{
	struct address *a = ctx;
	struct exchange *x = *own;
	struct conn *conn = conn_of(c);
	(void)code;
	if (conn) {
		__atomic_store_n(&conn->answering, false, __ATOMIC_RELAXED);
		__atomic_store_n(&conn->idle, true, __ATOMIC_RELAXED);
		__atomic_store_n(&conn->deadline_ns,
				 http_now_ns() + a->server->cfg.request_s * HTTP_NS,
				 __ATOMIC_RELAXED);
	}
	if (x) {
		intake_release(&a->server->intake, x->r->held);
		if (x->r->asker)
			quota_release(a->server->quota, x->r->asker, x->r->answer_bytes);
		request_free(x->r);
	}
	free(x);
	*own = NULL;
}

static void on_connection(void *ctx, struct MHD_Connection *c, void **own,
			  enum MHD_ConnectionNotificationCode code)
{
	struct address *a = ctx;
	if (code != MHD_CONNECTION_NOTIFY_STARTED) {
		conns_close(a->server, *own);
		*own = NULL;
		return;
	}
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	/* libmicrohttpd made this thread; it has done nothing before its first connection */
	own_thread_be_nice();
	*own = conns_open(a, info ? info->connect_fd : -1);
}

/* ---- the keeper ---- */

/* What questions needed for a moment goes back to the system once nobody asks. */
static void give_back(struct http_server *s)
{
	pthread_mutex_lock(&s->lock);
	bool busy = s->waiting || s->working;
	bool trim = !busy && s->answered;
	s->answered = busy && s->answered;
	pthread_mutex_unlock(&s->lock);
	if (trim)
		malloc_trim(0);
}

static void *run_keeper(void *arg)
{
	struct http_server *s = arg;
	bool handles = false;
	prctl(PR_SET_NAME, "ascribe-keeper");
	own_thread_be_nice();
	pthread_mutex_lock(&s->conns_lock);
	while (!__atomic_load_n(&s->stopping, __ATOMIC_RELAXED)) { /* conns_lock is not its lock */
		struct timespec t;
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_sec++;
		if (s->conns || handles)
			pthread_cond_timedwait(&s->keeper_wake, &s->conns_lock, &t);
		else
			pthread_cond_wait(&s->keeper_wake, &s->conns_lock);
		conns_end_late(s, http_now_ns());
		pthread_mutex_unlock(&s->conns_lock);
		handles = snapshots_tidy(s->snapshots, HANDLE_IDLE_NS);
		give_back(s);
		pthread_mutex_lock(&s->conns_lock);
	}
	pthread_mutex_unlock(&s->conns_lock);
	return NULL;
}

/* ---- life ---- */

static int open_address(struct http_server *s, const struct http_socket *socket, struct err *err)
{
	struct address *a = &s->address[s->n_addresses];
	bool unix_socket = socket->at.unix_path[0], tls = s->cfg.tls_cert && !unix_socket;
	a->server = s;
	a->name = socket->name;
	a->guard = (struct guard){ &s->cfg, unix_socket ? "" : socket->text, unix_socket, tls };
	struct MHD_OptionItem options[] = {
		{ MHD_OPTION_LISTEN_SOCKET, socket->fd, NULL },
		{ MHD_OPTION_CONNECTION_LIMIT, s->cfg.connections + SPARE_CONNECTIONS, NULL },
		{ MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, NULL },
		{ MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONN_MEMORY, NULL },
		{ MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL },
		{ tls ? MHD_OPTION_HTTPS_PRIORITIES : MHD_OPTION_END, 0,
		  (void *)(uintptr_t)TLS_PRIORITIES },
		{ tls ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0,
		  (void *)(uintptr_t)s->cfg.tls_cert },
		{ tls ? MHD_OPTION_HTTPS_MEM_KEY : MHD_OPTION_END, 0,
		  (void *)(uintptr_t)s->cfg.tls_key },
		{ tls && s->cfg.tls_client_ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
		  (void *)(uintptr_t)s->cfg.tls_client_ca },
		{ MHD_OPTION_END, 0, NULL },
	};
	/*
	 * Not epoll: libmicrohttpd 0.9.75 misses with it that connections were closed at the limit
	 * of connections, and lets nobody in until they have been idle for IDLE_S.
	 */
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_ALLOW_SUSPEND_RESUME |
			 (tls ? MHD_USE_TLS : 0);
	a->mhd = MHD_start_daemon(flags, 0, NULL, NULL, on_request, a, MHD_OPTION_NOTIFY_COMPLETED,
				  on_completed, a, MHD_OPTION_NOTIFY_CONNECTION, on_connection, a,
				  MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_ARRAY,
				  options, MHD_OPTION_END);
	if (!a->mhd)
		return err_set(err, -EIO, "cannot serve on %s%s", a->name,
			       tls ? ": is the certificate and its key good PEM?" : "");
	s->n_addresses++;
	return 0;
}

int http_open(struct http_server **ret, const struct http_config *cfg,
	      const struct http_sockets *sockets, struct err *err)
{
	int rc = http_check(cfg, err);
	if (rc)
		return rc;
	struct http_server *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->cfg = *cfg;
	config_set_defaults(&s->cfg);
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->conns_lock, NULL);
	intake_init(&s->intake);
	pthread_cond_init(&s->wake, NULL);
	pthread_cond_init(&s->keeper_wake, NULL);
	s->started_ns = http_now_ns();
	for (size_t i = 0; !rc && i < n_routes + 2; i++)
		rc = hist_new(5, &s->stats[i].ns);
	rc = rc ? rc
		: snapshots_new(&s->snapshots, s->cfg.stores, s->cfg.n_stores,
				&(struct store_limits){ .bytes = s->cfg.question_bytes,
							.stop = &s->stopping });
	rc = rc ? rc : quota_new(&s->quota, s->cfg.quota, &s->cfg.access);
	rc = rc ? rc : cache_new(&s->cache, s->cfg.cache_bytes);
	rc = rc ? rc : work_start(s);
	rc = rc ? rc : -pthread_create(&s->keeper, NULL, run_keeper, s);
	s->has_keeper = !rc;
	if (rc)
		err_sys(err, rc, "starting the server");
	for (size_t i = 0; !rc && i < sockets->n; i++)
		rc = open_address(s, &sockets->v[i], err);
	if (rc)
		http_close(s);
	else
		*ret = s;
	return rc;
}

/*
 * Wait for the requests on open connections. A connection that the server's thread accepts at this
 * moment shows only when that thread runs again: wait until none has been busy for CLOSE_QUIET_NS.
 */
static void wait_for_requests(struct http_server *s)
{
	uint64_t begin = http_now_ns(), busy = begin, now = begin;
	for (; now - busy < CLOSE_QUIET_NS && now - begin < CLOSE_NS; now = http_now_ns()) {
		if (conns_busy(s))
			busy = now;
		usleep(2000);
	}
}

void http_close(struct http_server *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_addresses; i++)
		MHD_quiesce_daemon(s->address[i].mhd);
	capture_finish(s); /* its answer is waited for, too */
	wait_for_requests(s);
	work_stop(s);
	if (s->has_keeper) {
		pthread_mutex_lock(&s->conns_lock);
		pthread_cond_signal(&s->keeper_wake);
		pthread_mutex_unlock(&s->conns_lock);
		pthread_join(s->keeper, NULL);
	}
	for (size_t i = 0; i < s->n_addresses; i++)
		MHD_stop_daemon(s->address[i].mhd);
	for (size_t i = 0; i < ROUTES_MAX; i++)
		hist_free(s->stats[i].ns);
	cache_free(s->cache);
	quota_free(s->quota);
	snapshots_free(s->snapshots);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->conns_lock);
	intake_fini(&s->intake);
	pthread_cond_destroy(&s->wake);
	pthread_cond_destroy(&s->keeper_wake);
	free(s);
}

void http_limit(struct http_server *s, size_t question_bytes)
{
	if (!s)
		return;
	snapshots_limit(s->snapshots, question_bytes);
	cache_clear(s->cache);
}

const char *http_address(const struct http_server *s, size_t i)
{
	return i < s->n_addresses ? s->address[i].name : NULL;
}
