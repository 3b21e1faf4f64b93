/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One easy handle makes all requests. It runs in a multi handle, which owns the connections and can
 * wait for another descriptor, too. Whatever has to end a request (a limit, the caller) is looked
 * at each time before it waits.
 */
#include "client/web.h"

#include "client/grpc.h"
#include "client/libcurl.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define BACKOFF_MIN_MS 500u
#define BACKOFF_MAX_MS 30000u
#define CONNECT_MS 5000L
#define CONNECTIONS_MAX 4L	/* kept open: two addresses at most are asked in turn */
#define HEADERS_MAX (64u << 10) /* bytes, of one answer */
#define BEARER "Authorization: Bearer "
#define TOKEN_HEADER_MAX 64

struct web {
	struct libcurl curl;
	CURLM *multi;
	CURL *easy;
	struct buf sent, line; /* framed message; start of a line whose end has not come */
	/* Header with the token, which begins at token_at; "": none */
	char token_line[TOKEN_HEADER_MAX + WEB_TOKEN_MAX + 1];
	size_t token_at;
};

/* One request. */
struct transfer {
	struct web *w;
	const struct web_place *at;
	const struct web_request *q;
	struct buf *out;
	CURLcode code;
	int rc; /* why a callback ended it */
	uint64_t heard_ms;
	size_t headers;
	struct grpc_end end;
	char why[64], said[CURL_ERROR_SIZE]; /* by us, by libcurl */
};

static uint64_t now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/* ---- texts of errors ---- */

static const char *name_of(const struct web_place *at)
{
	return at->socket ? at->socket : at->base;
}

static int connect_errno(const struct transfer *t)
{
	long os = 0;
	if (t->code == CURLE_COULDNT_CONNECT)
		t->w->curl.easy_getinfo(t->w->easy, CURLINFO_OS_ERRNO, &os);
	return os > 0 ? (int)os : 0;
}

/* What libcurl says: some of it comes from the server, which knows the token. */
static const char *reason(struct transfer *t)
{
	const char *token = t->w->token_line[0] ? t->w->token_line + t->w->token_at : NULL;
	int e = connect_errno(t);
	if (e)
		return strerror(e);
	if (!t->said[0] || (token && strstr(t->said, token)))
		return t->w->curl.easy_strerror(t->code);
	for (char *c = t->said; *c; c++)
		*c = *c < ' ' || *c > '~' ? '?' : *c;
	return t->said;
}

static const char *advice(const struct transfer *t, int rc)
{
	const struct web_place *at = t->at;
	switch (rc) {
	case -ENOENT:
		return "; give the socket of the runtime that runs here";
	case -EACCES:
	case -EPERM:
		return "; let this user's group use it";
	case -ECONNREFUSED:
		return at->socket ? "; start its server" : "; start its server or mend the address";
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		return "; mend the address";
	case -ETIMEDOUT:
		return "; see whether its server and the network to it work";
	case -EPROTO:
		if (t->code == CURLE_PEER_FAILED_VERIFICATION ||
		    t->code == CURLE_SSL_CACERT_BADFILE)
			return "; give the file of its CA, and the address that its certificate names";
		return "";
	default:
		return "";
	}
}

static int fail(struct transfer *t, int rc, const char *why, struct err *err)
{
	return err_set(err, rc, "cannot ask %s for %.*s: %s%s", name_of(t->at),
		       (int)strcspn(t->q->path, "?"), t->q->path, why, advice(t, rc));
}

/* Say why a callback ends the transfer. Returns what libcurl takes for that. */
static size_t give_up(struct transfer *t, int rc, const char *why)
{
	t->rc = rc;
	snprintf(t->why, sizeof(t->why), "%s", why);
	return 0;
}

static int errno_of(const struct transfer *t)
{
	int e = connect_errno(t);
	switch (t->code) {
	case CURLE_COULDNT_CONNECT:
		return e ? -e : -ECONNREFUSED;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return -EHOSTUNREACH;
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
		return -ECONNRESET;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	case CURLE_URL_MALFORMAT:
		return -EINVAL;
	default:
		return -EPROTO;
	}
}

/* ---- what comes ---- */

static unsigned status_of(const struct transfer *t)
{
	long status = 0;
	t->w->curl.easy_getinfo(t->w->easy, CURLINFO_RESPONSE_CODE, &status);
	return (unsigned)status;
}

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;
	t->heard_ms = now_ms();
	t->headers += size * n;
	if (t->headers > HEADERS_MAX)
		return give_up(t, -EFBIG, "its headers are too long");
	if (t->q->grpc)
		grpc_header(&t->end, line, size * n);
	return size * n;
}

/* libcurl hands over at most CURL_MAX_WRITE_SIZE: only a line that began before can be too long. */
_Static_assert(CURL_MAX_WRITE_SIZE <= WEB_LINE_MAX, "a line within one call fits");

static int take_lines(struct transfer *t, const uint8_t *p, size_t n)
{
	struct buf *begun = &t->w->line;
	const uint8_t *first = memchr(p, '\n', n), *last = memrchr(p, '\n', n);
	size_t whole = last ? (size_t)(last - p) + 1 : 0;
	int rc = 0;
	if (begun->len + (first ? (size_t)(first - p) : n) > WEB_LINE_MAX) {
		give_up(t, -EFBIG, "a line is too long");
		return -EFBIG;
	}
	if (whole && !begun->len) {
		rc = t->q->lines(t->q->ctx, p, whole);
	} else if (whole) {
		rc = buf_add(begun, p, whole);
		rc = rc ? rc : t->q->lines(t->q->ctx, begun->data, begun->len);
		begun->len = 0;
	}
	return rc ? rc : buf_add(begun, p + whole, n - whole);
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;
	size_t len = size * n, most = t->q->max_bytes + (t->q->grpc ? GRPC_FRAME : 0);
	int rc;
	t->heard_ms = now_ms();
	if (t->q->lines && status_of(t) == 200) {
		rc = take_lines(t, (const uint8_t *)bytes, len);
	} else {
		if (len > most - t->out->len)
			return give_up(t, -EFBIG, "its answer is too long");
		rc = buf_add(t->out, bytes, len);
	}
	if (rc && !t->rc)
		return give_up(t, rc, rc == -ENOMEM ? "out of memory" : "its reader stopped");
	return rc ? 0 : len;
}

/* ---- the request ---- */

static int read_token(struct web *w, const char *path, const char *header, struct err *err)
{
	char *token = w->token_line + strlen(header);
	size_t len = 0;
	ssize_t n = 1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return err_sys(err, -errno, "cannot open the token's file %s", path);
	while (n > 0 && len <= WEB_TOKEN_MAX) {
		n = read(fd, token + len, WEB_TOKEN_MAX + 1 - len);
		if (n > 0)
			len += (size_t)n;
	}
	int rc = n < 0 ? -errno : 0;
	close(fd);
	if (rc)
		return err_sys(err, rc, "cannot read the token's file %s", path);
	if (len > WEB_TOKEN_MAX)
		return err_set(err, -EBADMSG, "%s is no token: it has over %u bytes", path,
			       WEB_TOKEN_MAX);
	while (len && strchr(" \t\r\n", token[len - 1]))
		len--;
	if (!len)
		return err_set(err, -EBADMSG, "%s is no token: it is empty", path);
	for (size_t i = 0; i < len; i++)
		if (token[i] <= ' ' || token[i] > '~')
			return err_set(err, -EBADMSG,
				       "%s is no token: byte %zu is no printable character", path,
				       i);
	token[len] = '\0';
	memcpy(w->token_line, header, strlen(header));
	w->token_at = strlen(header);
	return 0;
}

/* An option that is needed: the first one that is refused fails the request. */
static void set_long(struct transfer *t, CURLoption o, long v)
{
	CURLcode c = t->w->curl.easy_setopt(t->w->easy, o, v);
	t->code = t->code ? t->code : c;
}

static void set_pointer(struct transfer *t, CURLoption o, const void *v)
{
	CURLcode c = t->w->curl.easy_setopt(t->w->easy, o, v);
	t->code = t->code ? t->code : c;
}

static void set_certificates(struct transfer *t)
{
	const struct web *w = t->w;
	set_long(t, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
	/* A CA that is replaced counts from the next connection on. */
	set_long(t, CURLOPT_SSL_SESSIONID_CACHE, 0);
	w->curl.easy_setopt(w->easy, CURLOPT_CA_CACHE_TIMEOUT, 0L); /* before 7.87: no cache */
	if (t->at->authority) {
		set_pointer(t, CURLOPT_CAINFO, t->at->authority);
		set_pointer(t, CURLOPT_CAPATH, NULL); /* else those of the system count, too */
	}
	if (t->at->certificate)
		set_pointer(t, CURLOPT_SSLCERT, t->at->certificate);
	if (t->at->key)
		set_pointer(t, CURLOPT_SSLKEY, t->at->key);
	if (t->at->any_certificate) {
		set_long(t, CURLOPT_SSL_VERIFYPEER, 0);
		set_long(t, CURLOPT_SSL_VERIFYHOST, 0);
	}
}

static void set_options(struct transfer *t, const char *url, struct curl_slist *headers)
{
	const struct web *w = t->w;
	set_pointer(t, CURLOPT_URL, url);
	set_pointer(t, CURLOPT_HTTPHEADER, headers);
	set_pointer(t, CURLOPT_USERAGENT, "ascribe");
	set_pointer(t, CURLOPT_ERRORBUFFER, t->said);
	set_pointer(t, CURLOPT_HEADERDATA, t);
	set_pointer(t, CURLOPT_WRITEDATA, t);
	w->curl.easy_setopt(w->easy, CURLOPT_HEADERFUNCTION, on_header);
	w->curl.easy_setopt(w->easy, CURLOPT_WRITEFUNCTION, on_body);
	set_long(t, CURLOPT_NOSIGNAL, 1);
	set_long(t, CURLOPT_FOLLOWLOCATION, 0);
	set_long(t, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	/* Before 7.85 there was another option; check_place looks at the scheme, too. */
	w->curl.easy_setopt(w->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	/* Not to wait for a thread that looks a name up; before 7.87 it does. */
	w->curl.easy_setopt(w->easy, CURLOPT_QUICK_EXIT, 1L);
	if (t->at->socket)
		set_pointer(t, CURLOPT_UNIX_SOCKET_PATH, t->at->socket);
	if (t->at->socket || t->at->any_certificate)
		set_pointer(t, CURLOPT_PROXY, "");
	set_certificates(t);
	if (t->q->type || t->q->grpc) {
		set_long(t, CURLOPT_POST, 1);
		set_pointer(t, CURLOPT_POSTFIELDS, t->q->grpc ? w->sent.data : t->q->body);
		set_long(t, CURLOPT_POSTFIELDSIZE,
			 (long)(t->q->grpc ? w->sent.len : t->q->body_len));
	}
	if (!t->q->grpc) {
		set_long(t, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
		return;
	}
	set_long(t, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
	/*
	 * libcurl 7.88 fails when it asks containerd again on a connection: "Error in the HTTP2
	 * framing layer".
	 */
	set_long(t, CURLOPT_FRESH_CONNECT, 1);
	set_long(t, CURLOPT_FORBID_REUSE, 1);
}

/* Only these protocols, the host is the one of base, and libcurl need not explain a file. */
static int check_place(const struct web_place *at, const struct web_request *q, struct err *err)
{
	if (strncmp(at->base, "http://", 7) && strncmp(at->base, "https://", 8))
		return err_set(err, -EINVAL, "%s: not an http:// or https:// address", at->base);
	if (q->path[0] != '/')
		return err_set(err, -EINVAL, "%s: not a path that begins with /", q->path);
	const struct {
		const char *what, *path;
	} files[] = { { "CA's file", at->authority },
		      { "certificate", at->certificate },
		      { "certificate's key", at->key } };
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (files[i].path && euidaccess(files[i].path, R_OK))
			return err_sys(err, -errno, "cannot read the %s %s", files[i].what,
				       files[i].path);
	return 0;
}

/* Milliseconds until the first limit; 0: it is reached, and why says which one. */
static int time_left(struct transfer *t, uint64_t began_ms)
{
	const struct web_request *q = t->q;
	uint64_t now = now_ms(), left = 60000;
	uint64_t idle = t->heard_ms + q->idle_ms, end = began_ms + q->deadline_ms;
	if (q->idle_ms) {
		left = idle > now ? idle - now : 0;
		if (!left)
			snprintf(t->why, sizeof(t->why), "nothing came for %u ms", q->idle_ms);
	}
	if (q->deadline_ms && (end <= now || end - now < left)) {
		left = end > now ? end - now : 0;
		if (!left)
			snprintf(t->why, sizeof(t->why), "no whole answer within %u ms",
				 q->deadline_ms);
	}
	return left < 60000 ? (int)left : 60000;
}

/* Until it ends by itself (0, and code says how), or is to end. */
static int perform(struct transfer *t)
{
	struct web *w = t->w;
	struct pollfd stop = { .fd = t->q->stop_fd, .events = POLLIN };
	struct curl_waitfd also = { .fd = stop.fd, .events = CURL_WAIT_POLLIN };
	uint64_t began_ms = now_ms();
	t->heard_ms = began_ms;
	for (;;) {
		int n, left;
		/* Before anything is sent, too */
		if (stop.fd >= 0 && poll(&stop, 1, 0) > 0) {
			give_up(t, -EINTR, "stopped");
			return -EINTR;
		}
		CURLMcode c = w->curl.multi_perform(w->multi, &n);
		const CURLMsg *m = w->curl.multi_info_read(w->multi, &n);
		if (m) {
			t->code = m->data.result;
			return t->rc;
		}
		left = c ? 0 : time_left(t, began_ms);
		if (c || !left)
			return c ? -ENOMEM : -ETIMEDOUT;
		if (w->curl.multi_poll(w->multi, &also, stop.fd >= 0, left, NULL))
			return -ENOMEM;
	}
}

/* What an answer to a call says of itself, in out and *ret_status. */
static int end_call(struct transfer *t, unsigned *ret_status, struct err *err)
{
	const char *why;
	if (*ret_status != 200) {
		snprintf(t->why, sizeof(t->why), "it speaks no gRPC (HTTP status %u)", *ret_status);
		return fail(t, -EPROTO, t->why, err);
	}
	if (t->end.status < 0)
		return fail(t, -EPROTO, "it speaks no gRPC (no grpc-status)", err);
	if (!t->end.status)
		return grpc_unwrap(t->out, &why) ? fail(t, -EPROTO, why, err) : 0;
	*ret_status = 500 + (unsigned)t->end.status;
	t->out->len = 0;
	if (buf_add(t->out, t->end.message, strlen(t->end.message)))
		return fail(t, -ENOMEM, "out of memory", err);
	return 0;
}

/* The headers of a request, in a list of libcurl's that is not libcurl's to free. */
struct headers {
	struct curl_slist v[WEB_HEADERS_MAX + 4];
	size_t n;
	char type[200];
};

static void add_header(struct headers *h, const char *line)
{
	h->v[h->n].data = (char *)line;
	if (h->n)
		h->v[h->n - 1].next = &h->v[h->n];
	h->v[h->n++].next = NULL;
}

static struct curl_slist *list_headers(const struct transfer *t, struct headers *h)
{
	const char *type = t->q->grpc ? "application/grpc" : t->q->type;
	h->n = 0;
	if (t->w->token_line[0])
		add_header(h, t->w->token_line);
	if (type) {
		snprintf(h->type, sizeof(h->type), "content-type: %s", type);
		add_header(h, h->type);
	}
	if (t->q->grpc)
		add_header(h, "te: trailers");
	if (t->q->type)
		add_header(h, "expect:"); /* do not wait for a server that knows no 100 */
	for (size_t i = 0; t->q->headers && t->q->headers[i] && i < WEB_HEADERS_MAX; i++)
		add_header(h, t->q->headers[i]);
	return h->n ? h->v : NULL;
}

static void tell_wait(const struct transfer *t)
{
	curl_off_t s = 0;
	if (t->q->ret_wait_s && !t->w->curl.easy_getinfo(t->w->easy, CURLINFO_RETRY_AFTER, &s))
		*t->q->ret_wait_s = s > 0 && s < UINT32_MAX ? (unsigned)s : 0;
}

static int run(struct transfer *t, const char *url, unsigned *ret_status, struct err *err)
{
	struct web *w = t->w;
	struct headers headers;
	int rc = 0;
	set_options(t, url, list_headers(t, &headers));
	bool added = !t->code && !w->curl.multi_add(w->multi, w->easy);
	if (added)
		rc = perform(t);
	else if (!t->code)
		t->code = CURLE_OUT_OF_MEMORY;
	unsigned status = status_of(t);
	tell_wait(t);
	if (rc)
		rc = fail(t, rc, rc == -ENOMEM ? "out of memory" : t->why, err);
	else if (t->code)
		rc = fail(t, errno_of(t), reason(t), err);
	else if (t->q->grpc)
		rc = end_call(t, &status, err);
	if (added)
		w->curl.multi_remove(w->multi, w->easy);
	w->curl.easy_reset(w->easy); /* it refers to this stack, and to the token */
	if (!rc)
		*ret_status = status;
	return rc;
}

int web_ask(struct web *w, const struct web_place *at, const struct web_request *q,
	    unsigned *ret_status, struct buf *out, struct err *err)
{
	struct transfer t = { .w = w, .at = at, .q = q, .out = out, .end.status = -1 };
	struct buf url = BUF_INIT;
	out->len = 0;
	int rc = check_place(at, q, err);
	if (!rc && at->token)
		rc = read_token(w, at->token, at->token_header ? at->token_header : BEARER, err);
	if (!rc && (buf_printf(&url, "%s%s%c", at->base, q->path, 0) ||
		    (q->grpc && grpc_wrap(&w->sent, q->body, q->body_len))))
		rc = fail(&t, -ENOMEM, "out of memory", err);
	if (!rc)
		rc = run(&t, (const char *)url.data, ret_status, err);
	explicit_bzero(w->token_line, sizeof(w->token_line));
	buf_fini(&url);
	buf_fini(&w->line);
	if (rc)
		out->len = 0;
	return rc;
}

int web_new(struct web **ret, struct err *err)
{
	struct web *w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	int rc = libcurl_load(&w->curl, err);
	if (rc) {
		free(w);
		return rc;
	}
	w->multi = w->curl.multi_init();
	w->easy = w->curl.easy_init();
	if (!w->multi || !w->easy) {
		web_free(w);
		return err_set(err, -ENOMEM, "out of memory");
	}
	w->curl.multi_setopt(w->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_MAX);
	*ret = w;
	return 0;
}

void web_free(struct web *w)
{
	if (!w)
		return;
	if (w->easy)
		w->curl.easy_cleanup(w->easy);
	if (w->multi)
		w->curl.multi_cleanup(w->multi);
	buf_fini(&w->sent);
	buf_fini(&w->line);
	free(w);
}

uint16_t web_port(const char *url)
{
	static const char *const proxies[] = { "http_proxy", "https_proxy", "HTTPS_PROXY",
					       "all_proxy", "ALL_PROXY" };
	for (size_t i = 0; i < sizeof(proxies) / sizeof(proxies[0]); i++)
		if (getenv(proxies[i]))
			return 0;
	const char *host = strstr(url, "://");
	if (!host)
		return 0;
	host += strlen("://");
	const char *end = host + strcspn(host, "/?#"), *at = end;
	while (at > host && at[-1] >= '0' && at[-1] <= '9')
		at--;
	if (at > host && at < end && at[-1] == ':') {
		const unsigned long port = strtoul(at, NULL, 10);
		return port <= UINT16_MAX ? (uint16_t)port : 0;
	}
	return strncmp(url, "https:", 6) ? 80 : 443;
}

unsigned web_backoff_ms(unsigned n)
{
	uint32_t chance = 0;
	unsigned ms = n < 6 ? BACKOFF_MIN_MS << n : BACKOFF_MAX_MS;
	ms = ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
	(void)!getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
	return ms / 2 + chance % ms;
}
