/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls by gRPC: what is sent, and answers as they should be and as they should not, by a server
 * that writes HTTP/2's frames (RFC 9113) itself. tests/others/containerd.sh asks a real one.
 */
#include "client/grpc.h"
#include "client/web.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { DATA = 0, HEADERS = 1, SETTINGS = 4 };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

#define PREFACE 24	  /* bytes */
#define STATUS_200 "\x88" /* of HPACK's static table (RFC 7541, appendix A) */
#define STATUS_404 "\x8d"

static char path[64];

/* What the server answers to the one call. NULL: nothing of that kind. */
struct answer {
	const char *status;	/* as HPACK writes it */
	const char *head[2];	/* a header: name, value */
	const char *trailer[4]; /* two of them */
	const void *data;
	size_t data_len;
	struct buf got; /* the call's data */
	int listening;
};

/* ---- the server ---- */

static void write_frame(int fd, uint8_t type, uint8_t flags, uint8_t stream, const struct buf *b)
{
	const uint8_t head[9] = {
		0, (uint8_t)(b->len >> 8), (uint8_t)b->len, type, flags, 0, 0, 0, stream
	};
	(void)!write(fd, head, sizeof(head));
	(void)!write(fd, b->data, b->len);
}

/* Literals that are not indexed, not compressed. */
static void add_headers(struct buf *b, const char *const *names_values, size_t n)
{
	for (size_t i = 0; i + 1 < n && names_values[i]; i += 2) {
		buf_add_u8(b, 0);
		for (size_t k = i; k < i + 2; k++) {
			buf_add_u8(b, (uint8_t)strlen(names_values[k]));
			buf_add(b, names_values[k], strlen(names_values[k]));
		}
	}
}

static void write_answer(int fd, const struct answer *a)
{
	struct buf head = BUF_INIT, trailers = BUF_INIT;
	struct buf data = { (uint8_t *)a->data, a->data_len, a->data_len };
	bool only = !a->data && !a->trailer[0];
	buf_add(&head, a->status, 1);
	add_headers(&head, a->head, 2);
	write_frame(fd, HEADERS, END_HEADERS | (only ? END_STREAM : 0), 1, &head);
	if (a->data)
		write_frame(fd, DATA, a->trailer[0] ? 0 : END_STREAM, 1, &data);
	add_headers(&trailers, a->trailer, 4);
	if (a->trailer[0])
		write_frame(fd, HEADERS, END_HEADERS | END_STREAM, 1, &trailers);
	buf_fini(&head);
	buf_fini(&trailers);
}

static bool read_all(int fd, void *to, size_t len)
{
	return !len || recv(fd, to, len, MSG_WAITALL) == (ssize_t)len;
}

static void *serve(void *ctx)
{
	struct answer *a = ctx;
	const struct buf empty = BUF_INIT;
	uint8_t head[9], body[65536];
	int fd = accept(a->listening, NULL, NULL);
	write_frame(fd, SETTINGS, 0, 0, &empty);
	if (!read_all(fd, body, PREFACE))
		head[0] = 1;
	while (read_all(fd, head, sizeof(head)) && !head[0]) {
		size_t len = (size_t)head[1] << 8 | head[2];
		if (!read_all(fd, body, len))
			break;
		if (head[3] == SETTINGS && !(head[4] & ACK))
			write_frame(fd, SETTINGS, ACK, 0, &empty);
		if (head[3] == DATA)
			buf_add(&a->got, body, len);
		if ((head[3] == DATA || head[3] == HEADERS) && head[4] & END_STREAM)
			write_answer(fd, a);
	}
	close(fd);
	return NULL;
}

static int listen_unix(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unlink(path);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

/* ---- calls ---- */

static struct buf out;
static struct err err;
static unsigned status;

/* Call with the message "ask"; a->got is what came of it. */
static int call(struct answer *a, size_t max_bytes)
{
	const struct web_place at = { .base = "http://localhost", .socket = path };
	const struct web_request q = { .path = "/runtime.v1.RuntimeService/Version",
				       .grpc = true,
				       .body = "ask",
				       .body_len = 3,
				       .max_bytes = max_bytes,
				       .deadline_ms = 10000,
				       .stop_fd = -1 };
	struct web *w;
	pthread_t thread;
	a->listening = listen_unix();
	assert_int_equal(pthread_create(&thread, NULL, serve, a), 0);
	assert_int_equal(web_new(&w, &err), 0);
	err = (struct err){ 0 };
	int rc = web_ask(w, &at, &q, &status, &out, &err);
	web_free(w);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(a->listening);
	assert_int_equal(a->got.len, 8);
	assert_memory_equal(a->got.data, "\0\0\0\0\3ask", 8);
	buf_fini(&a->got);
	assert_int_equal(err.code, rc);
	if (rc && getenv("TELL"))
		print_message("%s\n", err.text);
	return rc;
}

static void assert_out(const char *text)
{
	assert_int_equal(out.len, strlen(text));
	assert_memory_equal(out.data, text, strlen(text));
}

static void assert_refused(struct answer *a, const char *why)
{
	assert_int_equal(call(a, 100), -EPROTO);
	assert_non_null(strstr(err.text, why));
	assert_non_null(strstr(err.text, path));
	assert_int_equal(out.len, 0);
}

static void test_answer(void **state)
{
	struct answer a = { .status = STATUS_200,
			    .head = { "content-type", "application/grpc" },
			    .trailer = { "grpc-status", "0" },
			    .data = "\0\0\0\0\6answer",
			    .data_len = 11 };
	(void)state;
	assert_int_equal(call(&a, 6), 0);
	assert_int_equal(status, 200);
	assert_out("answer");
	assert_int_equal(call(&a, 5), -EFBIG);
	a.data = "\0\0\0\0\0";
	a.data_len = 5;
	assert_int_equal(call(&a, 0), 0); /* a message without fields */
	assert_out("");
}

static void test_errors(void **state)
{
	struct answer only = { .status = STATUS_200, .head = { "grpc-status", "12" } };
	struct answer a = { .status = STATUS_200,
			    .trailer = { "grpc-status", "5", "grpc-message", "unknown service" } };
	(void)state;
	assert_int_equal(call(&only, 100), 0);
	assert_int_equal(status, 512);
	assert_out("");
	assert_int_equal(call(&a, 100), 0);
	assert_int_equal(status, 505);
	assert_out("unknown service");
	/* What came before the error does not count. */
	a.data = "\0\0\0\0\6answer";
	a.data_len = 11;
	assert_int_equal(call(&a, 100), 0);
	assert_int_equal(status, 505);
	assert_out("unknown service");
}

static void test_refused(void **state)
{
	struct answer a = { .status = STATUS_200,
			    .trailer = { "grpc-status", "0" },
			    .data = "\1\0\0\0\6answer",
			    .data_len = 11 };
	(void)state;
	assert_refused(&a, "compressed");
	a.data = "\0\0\0\0\7answer";
	assert_refused(&a, "not one whole message");
	a.data = "\0\0\0\0\0\0\0\0\0\1x"; /* two */
	assert_refused(&a, "not one whole message");
	a.data = "\0\0\0\0";
	a.data_len = 4;
	assert_refused(&a, "no message");
	a.data = NULL;
	assert_refused(&a, "no message");
	a = (struct answer){ .status = STATUS_200, .data = "\0\0\0\0\1x", .data_len = 6 };
	assert_refused(&a, "no grpc-status");
	a.trailer[0] = "grpc-status";
	a.trailer[1] = "99999999999999999999";
	assert_refused(&a, "no grpc-status");
	a.trailer[1] = "-1";
	assert_refused(&a, "no grpc-status");
	a = (struct answer){ .status = STATUS_404, .head = { "grpc-status", "0" } };
	assert_refused(&a, "HTTP status 404");
}

static int make_path(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "/tmp/ascribe-grpc.%d", getpid());
	return 0;
}

static int remove_path(void **state)
{
	(void)state;
	buf_fini(&out);
	return unlink(path);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN); /* who asks may be gone before it has all */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}
