/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the watcher to servers of this test's own, on loopback, on a Unix socket and with
 * TLS. Checked is what the caller gets of their answers, and what ends a request.
 */
#include "client/web.h"
#include "unit/web_server.h"
#include "util/clock.h"

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
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN "eyJhbGciOiJSUzI1NiJ9.secret"
#define MOST 100000

static char dir[64], token_file[128], socket_path[128];

static const char *write_file(const char *name, const char *text, size_t len)
{
	static char path[128];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	fclose(f);
	return path;
}

/* ---- asking ---- */

struct asked {
	struct web *web;
	struct buf out;
	unsigned status;
	struct err err;
	uint64_t took_ms;
};

/* No error names the token. */
static int ask(struct asked *a, const struct web_place *at, const struct web_request *q)
{
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	a->err = (struct err){ 0 };
	int rc = web_ask(a->web, at, q, &a->status, &a->out, &a->err);
	a->took_ms = (clock_ns(CLOCK_MONOTONIC) - began) / 1000000;
	assert_int_equal(a->err.code, rc);
	assert_null(strstr(a->err.text, "secret"));
	assert_null(strchr(a->err.text, '\n'));
	if (rc)
		assert_int_equal(a->out.len, 0);
	if (rc && getenv("TELL"))
		print_message("%s\n", a->err.text);
	return rc;
}

static int get(struct asked *a, const struct web_place *at, const char *path)
{
	const struct web_request q = { .path = path, .max_bytes = MOST, .stop_fd = -1 };
	return ask(a, at, &q);
}

static void assert_answer(const struct asked *a, unsigned status, const char *text)
{
	assert_int_equal(a->status, status);
	assert_int_equal(a->out.len, strlen(text));
	assert_memory_equal(a->out.data, text, strlen(text));
}

static void assert_says(const struct asked *a, const char *text)
{
	assert_non_null(strstr(a->err.text, text));
}

static void begin(struct asked *a)
{
	*a = (struct asked){ 0 };
	assert_int_equal(web_new(&a->web, &a->err), 0);
}

static void end(struct asked *a)
{
	web_free(a->web);
	buf_fini(&a->out);
}

/* ---- tokens ---- */

static void test_token(void **state)
{
	struct server s = { 0 };
	struct asked a;
	char *large = malloc(WEB_TOKEN_MAX + 1);
	(void)state;
	begin(&a);
	start_server(&s, NULL, NULL);
	const struct web_place at = { .base = s.base, .token = token_file };
	const struct web_place without = { .base = s.base };
	write_file("token", TOKEN "\n", strlen(TOKEN) + 1);
	assert_int_equal(get(&a, &at, "/token"), 0);
	assert_answer(&a, 200, "Bearer " TOKEN);
	write_file("token", "another", 7); /* read anew */
	assert_int_equal(get(&a, &at, "/token?limit=1"), 0);
	assert_answer(&a, 200, "Bearer another");
	assert_int_equal(get(&a, &without, "/token"), 0);
	assert_answer(&a, 200, "none");
	assert_int_equal(s.connections, 1);
	assert_int_equal(s.requests, 3);
	memset(large, 'x', WEB_TOKEN_MAX + 1);
	write_file("token", large, WEB_TOKEN_MAX);
	assert_int_equal(get(&a, &at, "/token"), 0);
	assert_int_equal(a.out.len, strlen("Bearer ") + WEB_TOKEN_MAX);
	write_file("token", large, WEB_TOKEN_MAX + 1);
	assert_int_equal(get(&a, &at, "/token"), -EBADMSG);
	assert_says(&a, "over 65536 bytes");
	assert_says(&a, token_file);
	write_file("token", "secret\nHost: x", 14);
	assert_int_equal(get(&a, &at, "/token"), -EBADMSG);
	write_file("token", "\n", 1);
	assert_int_equal(get(&a, &at, "/token"), -EBADMSG);
	assert_int_equal(unlink(token_file), 0);
	assert_int_equal(get(&a, &at, "/token"), -ENOENT);
	assert_says(&a, token_file);
	assert_int_equal(s.requests, 4);
	stop_server(&s);
	end(&a);
	free(large);
}

/* ---- answers ---- */

static void test_statuses(void **state)
{
	struct server s = { 0 };
	struct asked a;
	(void)state;
	begin(&a);
	start_server(&s, NULL, NULL);
	write_file("token", TOKEN, strlen(TOKEN));
	const struct web_place at = { .base = s.base, .token = token_file };
	assert_int_equal(get(&a, &at, "/denied"), 0);
	assert_answer(&a, 401, "{\"kind\":\"Status\"}");
	assert_int_equal(get(&a, &at, "/away"), 0); /* not followed */
	assert_answer(&a, 302, "elsewhere");
	assert_int_equal(s.requests, 2);
	assert_int_equal(get(&a, &at, "@127.0.0.1/x"), -EINVAL);
	const struct web_place file = { .base = "file://" };
	assert_int_equal(get(&a, &file, "/etc/passwd"), -EINVAL);
	stop_server(&s);
	end(&a);
}

static void test_max_bytes(void **state)
{
	static const struct part parts[] = { { "x", 50000, 0 }, { "y", 50000, 0 } };
	struct server s = { .parts = parts, .n_parts = 2 };
	struct asked a;
	(void)state;
	begin(&a);
	start_server(&s, NULL, NULL);
	const struct web_place at = { .base = s.base };
	struct web_request q = { .path = "/parts", .max_bytes = 100000, .stop_fd = -1 };
	assert_int_equal(ask(&a, &at, &q), 0);
	assert_int_equal(a.out.len, 100000);
	q.max_bytes--;
	assert_int_equal(ask(&a, &at, &q), -EFBIG);
	assert_says(&a, "/parts: its answer is too long");
	s.then = BREAKS;
	q.max_bytes++;
	assert_int_equal(ask(&a, &at, &q), -ECONNRESET);
	stop_server(&s);
	end(&a);
}

/* ---- lines ---- */

struct taken {
	struct buf all;
	unsigned calls;
	int rc;
};

static int take(void *ctx, const uint8_t *bytes, size_t len)
{
	struct taken *t = ctx;
	assert_true(len && bytes[len - 1] == '\n');
	assert_int_equal(buf_add(&t->all, bytes, len), 0);
	t->calls++;
	return t->rc;
}

static void test_lines(void **state)
{
	static const struct part parts[] = { { "one\ntw", 0, 0 },
					     { "o", 0, 0 },
					     { "\nthree\nfour", 0, 0 },
					     { "\n", 0, 0 },
					     { "five\nrest", 0, 0 } };
	static const char whole[] = "one\ntwo\nthree\nfour\nfive\n";
	struct server s = { .parts = parts, .n_parts = 5 };
	struct taken t = { 0 };
	struct asked a;
	(void)state;
	begin(&a);
	start_server(&s, NULL, NULL);
	const struct web_place at = { .base = s.base };
	struct web_request q = {
		.path = "/parts", .max_bytes = 10, .lines = take, .ctx = &t, .stop_fd = -1
	};
	assert_int_equal(ask(&a, &at, &q), 0);
	assert_int_equal(a.status, 200);
	assert_int_equal(a.out.len, 0);
	assert_int_equal(t.all.len, strlen(whole));
	assert_memory_equal(t.all.data, whole, strlen(whole));
	assert_int_equal(t.calls, 4);
	/* The rest of that answer is not the beginning of the next. */
	t.rc = -ECANCELED;
	t.all.len = t.calls = 0;
	assert_int_equal(ask(&a, &at, &q), -ECANCELED);
	assert_memory_equal(t.all.data, "one\n", 4);
	assert_int_equal(t.calls, 1);
	/* A refusal is no line, and bounded. */
	q.path = "/gone";
	assert_int_equal(ask(&a, &at, &q), -EFBIG);
	q.max_bytes = 100;
	assert_int_equal(ask(&a, &at, &q), 0);
	assert_answer(&a, 410, "{\"kind\":\"Status\"}");
	assert_int_equal(t.calls, 1);
	stop_server(&s);
	buf_fini(&t.all);
	end(&a);
}

static void test_long_line(void **state)
{
	static struct part parts[] = { { "first\n", 0, 0 },
				       { "x", WEB_LINE_MAX, 0 },
				       { "\nlast\n", 0, 0 } };
	struct server s = { .parts = parts, .n_parts = 3 };
	struct taken t = { 0 };
	struct asked a;
	(void)state;
	begin(&a);
	start_server(&s, NULL, NULL);
	const struct web_place at = { .base = s.base };
	const struct web_request q = { .path = "/parts", .lines = take, .ctx = &t, .stop_fd = -1 };
	assert_int_equal(ask(&a, &at, &q), 0);
	assert_int_equal(t.all.len, 6 + WEB_LINE_MAX + 6);
	t.all.len = 0;
	parts[1].repeated++;
	assert_int_equal(ask(&a, &at, &q), -EFBIG);
	assert_says(&a, "a line is too long");
	assert_int_equal(t.all.len, 6);
	stop_server(&s);
	buf_fini(&t.all);
	end(&a);
}

/* ---- what ends a request ---- */

static void test_limits(void **state)
{
	static struct part slow[50];
	struct server s = { .parts = slow, .n_parts = 1, .then = HANGS };
	struct taken t = { 0 };
	struct asked a;
	(void)state;
	for (size_t i = 0; i < 50; i++)
		slow[i] = (struct part){ "line\n", 0, 50 };
	begin(&a);
	start_server(&s, NULL, NULL);
	const struct web_place at = { .base = s.base };
	struct web_request q = { .path = "/silence", .idle_ms = 300, .stop_fd = -1 };
	assert_int_equal(ask(&a, &at, &q), -ETIMEDOUT);
	assert_says(&a, "nothing came for 300 ms");
	assert_in_range(a.took_ms, 290, 10000);
	q = (struct web_request){ .path = "/parts", .idle_ms = 300, .stop_fd = -1, .lines = take };
	q.ctx = &t;
	assert_int_equal(ask(&a, &at, &q), -ETIMEDOUT); /* a line, and then nothing */
	assert_int_equal(t.calls, 1);
	/* What comes now and then keeps it from being idle, and is late all the same. */
	s.n_parts = 50;
	q.deadline_ms = 600;
	assert_int_equal(ask(&a, &at, &q), -ETIMEDOUT);
	assert_says(&a, "no whole answer within 600 ms");
	assert_in_range(a.took_ms, 590, 2400);
	assert_in_range(t.calls, 2, 40);
	s.n_parts = 12;
	s.then = ENDS;
	q.deadline_ms = 0; /* longer than idle_ms */
	t.calls = 0;
	assert_int_equal(ask(&a, &at, &q), 0);
	assert_in_range(t.calls, 1, 12);
	stop_server(&s);
	buf_fini(&t.all);
	end(&a);
}

static void *stop_later(void *ctx)
{
	usleep(700000);
	close(*(int *)ctx);
	return NULL;
}

static void test_stop(void **state)
{
	struct server s = { .then = HANGS };
	struct asked a;
	pthread_t thread;
	int fd[2];
	(void)state;
	begin(&a);
	start_server(&s, NULL, NULL);
	const struct web_place at = { .base = s.base };
	assert_int_equal(pipe(fd), 0);
	const struct web_request q = { .path = "/parts", .lines = take, .stop_fd = fd[0] };
	assert_int_equal(pthread_create(&thread, NULL, stop_later, &fd[1]), 0);
	assert_int_equal(ask(&a, &at, &q), -EINTR);
	assert_in_range(a.took_ms, 690, 3000);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(ask(&a, &at, &q), -EINTR); /* still closed: nothing is asked */
	assert_int_equal(s.requests, 1);
	close(fd[0]);
	stop_server(&s);
	end(&a);
}

/* ---- who cannot be asked ---- */

static void test_refused(void **state)
{
	struct asked a;
	unsigned port;
	char base[64];
	(void)state;
	begin(&a);
	write_file("token", TOKEN, strlen(TOKEN));
	close(listen_loopback(&port));
	snprintf(base, sizeof(base), "http://127.0.0.1:%u", port);
	const struct web_place at = { .base = base, .token = token_file };
	assert_int_equal(get(&a, &at, "/api?continue=x"), -ECONNREFUSED);
	assert_says(&a, base);
	assert_says(&a, "/api:");
	const struct web_place nowhere = { .base = "http://no-such-host.invalid" };
	assert_int_equal(get(&a, &nowhere, "/"), -EHOSTUNREACH);
	end(&a);
}

/* What the request said, instead of an answer. */
static void talk_nonsense(int fd, const char *request)
{
	dprintf(fd, "%s", strstr(request, "Authorization"));
}

static void send_headers(int fd, const char *request)
{
	(void)request;
	int n = dprintf(fd, "HTTP/1.1 200 OK\r\n");
	for (int i = 0; i < 100000 && n > 0; i++)
		n = dprintf(fd, "X-%d: 0123456789012345678901234567890123456789\r\n", i);
}

struct talk {
	int listening;
	void (*answer)(int fd, const char *request);
};

static void *run_talk(void *ctx)
{
	const struct talk *t = ctx;
	char request[4096];
	int fd = accept(t->listening, NULL, NULL);
	ssize_t n = read(fd, request, sizeof(request) - 1);
	request[n > 0 ? n : 0] = '\0';
	t->answer(fd, request);
	close(fd);
	return NULL;
}

static void assert_talk(struct asked *a, int rc, void (*answer)(int fd, const char *request))
{
	pthread_t thread;
	unsigned port;
	char base[64];
	struct talk t = { listen_loopback(&port), answer };
	snprintf(base, sizeof(base), "http://127.0.0.1:%u", port);
	const struct web_place at = { .base = base, .token = token_file };
	assert_int_equal(pthread_create(&thread, NULL, run_talk, &t), 0);
	assert_int_equal(get(a, &at, "/"), rc);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(t.listening);
}

static void test_no_http(void **state)
{
	struct asked a;
	(void)state;
	begin(&a);
	write_file("token", TOKEN, strlen(TOKEN));
	assert_talk(&a, -EPROTO, talk_nonsense);
	signal(SIGPIPE, SIG_IGN);
	assert_talk(&a, -EFBIG, send_headers);
	assert_says(&a, "headers are too long");
	end(&a);
}

static void test_socket(void **state)
{
	const struct web_place at = { .base = "http://localhost", .socket = socket_path };
	struct server s = { 0 };
	struct asked a;
	(void)state;
	/* No proxy is asked for the socket. */
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	begin(&a);
	assert_int_equal(get(&a, &at, "/"), -ENOENT);
	assert_says(&a, socket_path);
	start_server(&s, NULL, socket_path);
	assert_int_equal(get(&a, &at, "/"), 0);
	assert_answer(&a, 200, "none");
	assert_int_equal(get(&a, &at, "/denied"), 0);
	assert_answer(&a, 401, "{\"kind\":\"Status\"}");
	assert_int_equal(s.connections, 1);
	stop_server(&s);
	assert_int_equal(get(&a, &at, "/"), -ECONNREFUSED);
	assert_says(&a, "start its server");
	if (!geteuid()) {
		assert_int_equal(chmod(socket_path, 0600), 0);
		assert_int_equal(chmod(dir, 0711), 0);
		assert_int_equal(seteuid(65534), 0);
		assert_int_equal(get(&a, &at, "/"), -EACCES);
		assert_int_equal(seteuid(0), 0);
	}
	unsetenv("http_proxy");
	end(&a);
}

/* ---- TLS ---- */

/* A certificate of this name that signs itself, and its key: PEM, to be freed. */
static char *make_certificate(const char *name)
{
	char command[600], path[128];
	snprintf(command, sizeof(command),
		 "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
		 "-nodes -days 2 -subj /CN=%s -addext subjectAltName=IP:127.0.0.1 -keyout %s.key "
		 "-out %s.crt 2>/dev/null && cat %s.key %s.crt >%s.pem",
		 dir, name, name, name, name, name, name);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/%s.pem", dir, name);
	FILE *f = fopen(path, "r");
	char *pem = calloc(1, 8192);
	assert_true(f && fread(pem, 1, 8191, f) > 0);
	fclose(f);
	return pem;
}

static void test_tls(void **state)
{
	struct server s = { 0 }, replaced = { 0 };
	struct asked a;
	char wrong[128], ca[128], by_name[64];
	(void)state;
	begin(&a);
	char *pem = make_certificate("server"), *other = make_certificate("other");
	snprintf(wrong, sizeof(wrong), "%s/other.crt", dir);
	snprintf(ca, sizeof(ca), "%s/ca.crt", dir);
	write_file("ca.crt", pem, strlen(pem));
	write_file("token", TOKEN, strlen(TOKEN));
	start_server(&s, pem, NULL);
	struct web_place at = { .base = s.base, .token = token_file };
	assert_int_equal(get(&a, &at, "/token"), -EPROTO); /* none of the system's signed it */
	assert_says(&a, "give the file of its CA");
	at.authority = wrong;
	assert_int_equal(get(&a, &at, "/token"), -EPROTO);
	assert_says(&a, s.base);
	at.authority = "/nonexistent/ca.crt";
	assert_int_equal(get(&a, &at, "/token"), -ENOENT);
	assert_says(&a, "/nonexistent/ca.crt");
	assert_int_equal(s.requests, 0);
	at.authority = ca;
	assert_int_equal(get(&a, &at, "/token"), 0);
	assert_answer(&a, 200, "Bearer " TOKEN);
	/* Another name than the certificate's */
	snprintf(by_name, sizeof(by_name), "https://localhost:%s", strrchr(s.base, ':') + 1);
	at.base = by_name;
	assert_int_equal(get(&a, &at, "/token"), -EPROTO);
	at.authority = NULL;
	at.any_certificate = true;
	setenv("https_proxy", "http://127.0.0.1:1", 1);
	assert_int_equal(get(&a, &at, "/token"), 0); /* without a proxy */
	unsetenv("https_proxy");
	/* It does not count for who asks with certificates: that connection is not used for it. */
	at.any_certificate = false;
	assert_int_equal(get(&a, &at, "/token"), -EPROTO);
	/* The file with the CA is replaced, as the server's certificate is. */
	write_file("ca.crt", other, strlen(other));
	start_server(&replaced, other, NULL);
	const struct web_place now = { .base = replaced.base, .authority = ca };
	assert_int_equal(get(&a, &now, "/token"), 0);
	stop_server(&replaced);
	stop_server(&s);
	end(&a);
	free(pem);
	free(other);
}

static int make_dir(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/ascribe-web-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(token_file, sizeof(token_file), "%s/token", dir);
	snprintf(socket_path, sizeof(socket_path), "%s/sock", dir);
	return 0;
}

static int remove_dir(void **state)
{
	char command[128];
	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_token),	  cmocka_unit_test(test_statuses),
		cmocka_unit_test(test_max_bytes), cmocka_unit_test(test_lines),
		cmocka_unit_test(test_long_line), cmocka_unit_test(test_limits),
		cmocka_unit_test(test_stop),	  cmocka_unit_test(test_refused),
		cmocka_unit_test(test_no_http),	  cmocka_unit_test(test_socket),
		cmocka_unit_test(test_tls),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
