/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: requests to the server on a Unix socket. Lines of a head end in "\n" here, which
 * goes out as "\r\n", and "Content-Length: *" counts the body, up to a line "%%": so changes get
 * through the framing. A first byte '!' leaves all as it is. Every answer begins as one, and the
 * server lives.
 *
 * Covers: http/framing.c http/server.c http/request.c http/routes.c http/asked.c http/ingest.c
 * http/ingest_pyroscope.c http/ingest_otlp.c
 */
#include "fuzz/input.h"
#include "http/http.h"
#include "store/writer.h"
#include "unit/store_model.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PATIENCE_MS 30

static struct http_server *server;
static struct http_sockets *sockets;
static char dir[64], address[128], path[96], store[96];

static int take_profile(void *ctx, const struct profile *p, struct err *err)
{
	(void)ctx, (void)p, (void)err;
	return 0;
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
	snprintf(path, sizeof(path), "%s/socket", dir);
	snprintf(store, sizeof(store), "%s/store", dir);
	snprintf(address, sizeof(address), "unix:%s", path);
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

static void ask(const struct buf *b)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char answer[65536], first[8] = "";
	size_t sent = 0, got = 0;
	int patience_ms = PATIENCE_MS;
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	require(fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof(to)));
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = BUF_INIT;
	if (!server)
		begin();
	if (size && data[0] == '!')
		buf_add(&b, data + 1, size - 1);
	else
		add_requests(&b, (const char *)data, size);
	ask(&b);
	buf_fini(&b);
	return 0;
}
