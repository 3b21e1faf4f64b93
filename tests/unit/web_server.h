/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP server of a test, by libmicrohttpd: on loopback or on a Unix socket, with TLS or without.
 * By path:
 *   /silence      nothing, until it is stopped
 *   /denied       401 and a Status
 *   /gone         410 and a Status
 *   /away         302 to /token
 *   /parts        its parts, a chunk each
 *   others        the request's Authorization, or "none"
 */
#ifndef ASCRIBE_TESTS_WEB_SERVER_H
#define ASCRIBE_TESTS_WEB_SERVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A part of an answer: text, or a repeated byte. */
struct part {
	const char *text;
	size_t repeated;
	unsigned wait_ms; /* before it */
};

struct server {
	struct MHD_Daemon *mhd;
	const struct part *parts;
	size_t n_parts;
	enum { ENDS, HANGS, BREAKS } then;
	unsigned requests, connections;
	int release[2]; /* closed: whatever hangs goes on */
	char base[64];
};

struct answer {
	struct server *s;
	size_t part, at;
};

static void hang(const struct server *s, int ms)
{
	struct pollfd p = { .fd = s->release[0], .events = POLLIN };
	poll(&p, 1, ms);
}

static ssize_t read_parts(void *ctx, uint64_t pos, char *to, size_t max)
{
	struct answer *a = ctx;
	const struct server *s = a->s;
	(void)pos;
	if (a->part == s->n_parts) {
		if (s->then == HANGS)
			hang(s, -1);
		return s->then == ENDS ? MHD_CONTENT_READER_END_OF_STREAM
				       : MHD_CONTENT_READER_END_WITH_ERROR;
	}
	const struct part *p = &s->parts[a->part];
	size_t len = p->repeated ? p->repeated : strlen(p->text), n = len - a->at;
	if (!a->at && p->wait_ms)
		hang(s, (int)p->wait_ms);
	n = n < max ? n : max;
	if (p->repeated)
		memset(to, p->text[0], n);
	else
		memcpy(to, p->text + a->at, n);
	a->at += n;
	if (a->at == len) {
		a->part++;
		a->at = 0;
	}
	return (ssize_t)n;
}

static struct MHD_Response *text_response(const char *text)
{
	return MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *c, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_len, void **state)
{
	struct server *s = ctx;
	const char *auth = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");
	struct MHD_Response *r;
	unsigned status = 200;
	(void)method, (void)version, (void)upload, (void)upload_len;
	if (!*state) { /* answering the head alone would close the connection */
		*state = s;
		return MHD_YES;
	}
	__atomic_add_fetch(&s->requests, 1, __ATOMIC_RELAXED);
	if (!strcmp(url, "/silence"))
		hang(s, -1);
	if (!strcmp(url, "/denied") || !strcmp(url, "/gone")) {
		status = url[1] == 'd' ? 401 : 410;
		r = text_response("{\"kind\":\"Status\"}");
	} else if (!strcmp(url, "/away")) {
		status = 302;
		r = text_response("elsewhere");
		MHD_add_response_header(r, "Location", "/token");
	} else if (!strcmp(url, "/parts")) {
		struct answer *a = calloc(1, sizeof(*a));
		a->s = s;
		r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 32768, read_parts, a, free);
	} else {
		r = text_response(auth ? auth : "none");
	}
	enum MHD_Result rc = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return rc;
}

static void count_connection(void *ctx, struct MHD_Connection *c, void **state,
			     enum MHD_ConnectionNotificationCode code)
{
	struct server *s = ctx;
	(void)c, (void)state;
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		__atomic_add_fetch(&s->connections, 1, __ATOMIC_RELAXED);
}

static int listen_unix(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unlink(path);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static int listen_loopback(unsigned *ret_port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*ret_port = ntohs(a.sin_port);
	return fd;
}

/* cert: PEM of certificate and key, or NULL. path: of a Unix socket, or NULL. */
static void start_server(struct server *s, const char *cert, const char *path)
{
	unsigned port = 0;
	int fd = path ? listen_unix(path) : listen_loopback(&port);
	struct MHD_OptionItem tls[] = { { MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)cert },
					{ MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)cert },
					{ MHD_OPTION_END, 0, NULL } };
	struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };
	assert_int_equal(pipe(s->release), 0);
	snprintf(s->base, sizeof(s->base), "%s://127.0.0.1:%u", cert ? "https" : "http", port);
	s->mhd = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
					  MHD_USE_POLL | (cert ? MHD_USE_TLS : 0),
				  0, NULL, NULL, handle, s, MHD_OPTION_LISTEN_SOCKET, fd,
				  MHD_OPTION_NOTIFY_CONNECTION, count_connection, s,
				  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)1 << 19,
				  MHD_OPTION_ARRAY, cert ? tls : none, MHD_OPTION_END);
	assert_non_null(s->mhd);
}

static void stop_server(struct server *s)
{
	close(s->release[1]);
	MHD_stop_daemon(s->mhd);
	close(s->release[0]);
}

#endif
