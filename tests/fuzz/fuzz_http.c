/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: requests to the server on a Unix socket. Lines of a head end in "\n" here, which
 * goes out as "\r\n", and "Content-Length: *" counts the body, up to a line "%%": so changes get
 * through the framing. A first byte '!' leaves all as it is. After '@' a byte says what a server of
 * the input's own has: TCP, tokens, no hooks, TLS, small quotas. Every answer begins as one, and
 * the server lives.
 *
 * Covers: http/framing.c http/server.c http/request.c http/routes.c http/asked.c http/ingest.c
 * http/ingest_pyroscope.c http/ingest_otlp.c
 */
#include "fuzz/input.h"
#include "http/http.h"
#include "store/writer.h"
#include "unit/store_model.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PATIENCE_MS 30

static struct http_server *server;
static struct http_sockets *sockets;
static char dir[64], address[128], store[96];

enum { ON_TCP = 1, TOKENS = 2, NO_HOOKS = 4, TLS = 8, SMALL = 16 };

static int take_profile(void *ctx, const struct profile *p, struct err *err)
{
	(void)ctx, (void)p, (void)err;
	return 0;
}

/* Another one is running. */
static int take_capture(void *ctx, const struct http_capture *asked, char ret[static 512],
			struct err *err)
{
	(void)ctx, (void)asked, (void)ret;
	return err_set(err, -EBUSY, "another capture is running");
}

static void end_capture(void *ctx)
{
	(void)ctx;
}

static void stop_capture(void *ctx, bool stop)
{
	(void)ctx, (void)stop;
}

static void end(void)
{
	http_close(server);
	http_sockets_close(sockets);
	remove_tree(dir);
}

static void write_store(void)
{
	struct store_writer *w = NULL;
	struct model m = { .random = 3 };
	struct err err;
	require(!store_writer_open_with(&w, store, &model_meta, &model_options, &err));
	for (int i = 0; i < 3; i++)
		require(!model_commit(&m, w, 6, &err));
	store_writer_close(w);
	model_fini(&m);
}

static void begin(void)
{
	static const char *const stores[] = { store }, *const listen[] = { address };
	static struct http_config cfg = { .stores = stores,
					  .n_stores = 1,
					  .listen = listen,
					  .n_listen = 1,
					  .anonymous = true,
					  .workers = 1,
					  .request_s = 1,
					  .hooks = { .ingest = take_profile } };
	struct err err;
	temp_dir(dir);
	snprintf(store, sizeof(store), "%s/store", dir);
	snprintf(address, sizeof(address), "unix:%s/socket", dir);
	write_store();
	require(!http_sockets_open(&sockets, &cfg, &err));
	require(!http_open(&server, &cfg, sockets, &err));
	atexit(end);
}

/* A request without its body: "\n" becomes "\r\n", the length of the body is put in. */
static void add_head(struct buf *out, const char *head, size_t body, bool last)
{
	static const char length[] = "Content-Length: *";
	while (*head) {
		size_t n = strcspn(head, "\n");
		if (n == sizeof(length) - 1 && !memcmp(head, length, n))
			buf_printf(out, "Content-Length: %zu\r\n", body);
		else
			buf_printf(out, "%.*s\r\n", (int)n, head);
		head += n + (head[n] == '\n');
	}
	buf_printf(out, "%s\r\n", last ? "Connection: close\r\n" : "");
}

static void add_requests(struct buf *out, const char *text, size_t len)
{
	const char *stop = text + len;
	while (text < stop) {
		const char *end_of = memmem(text, (size_t)(stop - text), "\n%%\n", 4);
		const char *last = end_of ? end_of : stop;
		const char *gap = memmem(text, (size_t)(last - text), "\n\n", 2);
		const char *body = gap ? gap + 2 : last;
		char *head = copy_of((const uint8_t *)text, (size_t)((gap ? gap : last) - text));
		add_head(out, head, (size_t)(last - body), !end_of);
		buf_add(out, body, (size_t)(last - body));
		free(head);
		text = end_of ? end_of + 4 : stop;
	}
}

static int connect_to(const char *at)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	const bool tcp = strncmp(at, "unix:", 5);
	int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	require(fd >= 0);
	if (tcp)
		in.sin_port = htons((uint16_t)atoi(strrchr(at, ':') + 1));
	else
		snprintf(un.sun_path, sizeof(un.sun_path), "%s", at + 5);
	if (connect(fd, tcp ? (struct sockaddr *)&in : (struct sockaddr *)&un,
		    tcp ? sizeof(in) : sizeof(un)))
		abort();
	return fd;
}

static void ask(const char *at, const struct buf *b)
{
	int fd = connect_to(at);
	char answer[65536], first[8] = "";
	size_t sent = 0, got = 0;
	int patience_ms = PATIENCE_MS;
	while (sent < b->len) {
		ssize_t n = send(fd, b->data + sent, b->len - sent, MSG_NOSIGNAL);
		if (n <= 0)
			break;
		sent += (size_t)n;
	}
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int ready = poll(&p, 1, patience_ms);
		if (ready < 0 && errno == EINTR) /* libFuzzer has a timer */
			continue;
		if (!ready && patience_ms == PATIENCE_MS) { /* it waits for more of a request */
			shutdown(fd, SHUT_WR);
			patience_ms = 20000;
			continue;
		}
		require(ready == 1);
		ssize_t n = read(fd, answer, sizeof(answer));
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n && got < 7; i++)
			first[got++] = answer[i];
	}
	require(!got || !memcmp(first, "HTTP/1.", got));
	close(fd);
}

/* Ask a server that lives as long as the input, again and again: quotas count what went before. */
static void ask_own(uint8_t how, const struct buf *b)
{
	static const char *const stores[] = { store };
	char own[128];
	const char *const listen[] = { how & ON_TCP ? "127.0.0.1:0" : own };
	struct http_config cfg = { .stores = stores,
				   .n_stores = 1,
				   .listen = listen,
				   .n_listen = 1,
				   .anonymous = !(how & TOKENS),
				   .workers = 1,
				   .request_s = 1,
				   .tls_cert = how & TLS ? "no certificate" : NULL,
				   .tls_key = how & TLS ? "no key" : NULL,
				   .tls_client_ca = how & TLS ? "no authority" : NULL };
	struct http_sockets *s = NULL;
	struct http_server *h = NULL;
	struct err err;
	snprintf(own, sizeof(own), "unix:%s/own", dir);
	if (!(how & NO_HOOKS))
		cfg.hooks = (struct http_hooks){ .ingest = take_profile,
						 .capture = take_capture,
						 .capture_end = end_capture,
						 .capture_stop = stop_capture };
	for (size_t i = 0; how & SMALL && i < QUOTA_PARTS; i++)
		cfg.quota[i] = 1;
	if (how & TOKENS)
		well(access_add(&cfg.access, "reader", "a-token-of-the-fuzzer", ACCESS_READ, &err));
	if (!http_sockets_open(&s, &cfg, &err)) {
		int rc = http_open(&h, &cfg, s, &err);
		require(!rc || how & TLS);
		for (int i = 0; i < 2 && !rc; i++)
			ask(http_address(h, 0), b);
		require(rc || !http_address(h, 1));
		http_limit(h, 1 << 20);
		if (!rc)
			ask(http_address(h, 0), b);
	}
	http_close(h);
	http_sockets_close(s);
	access_fini(&cfg.access);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = BUF_INIT;
	if (!server)
		begin();
	if (size && data[0] == '!') {
		buf_add(&b, data + 1, size - 1);
		ask(address, &b);
	} else if (size > 1 && data[0] == '@') {
		add_requests(&b, (const char *)data + 2, size - 2);
		ask_own(data[1], &b);
	} else {
		add_requests(&b, (const char *)data, size);
		ask(address, &b);
	}
	buf_fini(&b);
	return 0;
}
