/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe serve: the page and the API over a store, without recording. */
#include "cli/cmd.h"
#include "http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct serve_options {
	struct opt_list listen, hosts;
	const char *token_file, *tls_cert, *tls_key;
	bool anonymous;
	uint64_t workers, connections;
};

static const struct opt options[] = {
	{ "listen", 'l', OPT_LIST, "ADDRESS,..", "unix:/path, 127.0.0.1:PORT, [::1]:PORT (default 127.0.0.1:4041; port 0: any)",
	  offsetof(struct serve_options, listen), 0, 0 },
	{ "token-file", 0, OPT_STRING, "FILE", "ask every request for the token in this file", offsetof(struct serve_options, token_file), 0, 0 },
	{ "host", 0, OPT_LIST, "NAME,..", "names of this server that a Host header may have, besides localhost",
	  offsetof(struct serve_options, hosts), 0, 0 },
	{ "tls-cert", 0, OPT_STRING, "FILE", "serve TLS with this certificate (PEM)", offsetof(struct serve_options, tls_cert), 0, 0 },
	{ "tls-key", 0, OPT_STRING, "FILE", "and its key", offsetof(struct serve_options, tls_key), 0, 0 },
	{ "anonymous", 0, OPT_FLAG, NULL, "listen on other addresses than loopback without a token", offsetof(struct serve_options, anonymous), 0, 0 },
	{ "workers", 0, OPT_UINT, "N", "questions answered at a time (default 2)", offsetof(struct serve_options, workers), 1, 16 },
	{ "connections", 0, OPT_UINT, "N", "connections at a time and address (default 128)", offsetof(struct serve_options, connections), 1, 10000 },
};

static const struct opt_command command = {
	.name = "serve",
	.usage = "[STORE] [OPTIONS]",
	.about = "Serve the page and the HTTP API of docs/http.md over a store, read-only; the store may be written meanwhile.\n",
	.examples = "  ascribe serve                                   # http://127.0.0.1:4041/ over " DEFAULT_STORE "\n"
		    "  ascribe serve /var/lib/ascribe -l unix:/tmp/a.sock\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = 1,
};

/* Of the end of a text. */
static size_t line_of(const char *text)
{
	size_t n = 1;
	for (; *text; text++)
		n += *text == '\n';
	return n;
}

int cmd_read_text(const char *path, size_t max, char **ret, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char *text = malloc(max + 1);
	size_t n = 0;
	ssize_t got = 0;
	if (fd < 0 || !text) {
		int rc = fd < 0 ? -errno : -ENOMEM;
		free(text);
		if (fd >= 0)
			close(fd);
		return err_sys(err, rc, "cannot read %s", path);
	}
	while (n < max && (got = read(fd, text + n, max - n)) > 0)
		n += (size_t)got;
	int rc = got < 0 ? -errno : 0;
	close(fd);
	text[n] = 0;
	if (rc)
		err_sys(err, rc, "cannot read %s", path);
	else if (n == max)
		rc = err_set(err, -EINVAL, "%s: longer than %zu KiB", path, max >> 10);
	else if (memchr(text, 0, n))
		rc = err_set(err, -EINVAL, "%s:%zu: a NUL byte", path, line_of(text));
	if (rc) {
		free(text);
		return rc;
	}
	*ret = text;
	return 0;
}

int cmd_read_token(const char *path, char **ret, struct err *err)
{
	int rc = cmd_read_text(path, 4096, ret, err);
	if (!rc)
		(*ret)[strcspn(*ret, " \t\r\n")] = 0;
	return rc;
}

static int read_files(const struct serve_options *o, struct http_config *cfg, char **token, char **cert, char **key, struct err *err)
{
	int rc = o->token_file ? cmd_read_token(o->token_file, token, err) : 0;
	rc = rc || !o->tls_cert ? rc : cmd_read_text(o->tls_cert, 1 << 20, cert, err);
	rc = rc || !o->tls_key ? rc : cmd_read_text(o->tls_key, 1 << 20, key, err);
	cfg->token = *token;
	cfg->tls_cert = *cert;
	cfg->tls_key = *key;
	return rc;
}

/*
 * Threads that only read now and then need no heaps of their own; arrays that a question needs and the next one needs again are not to be given
 * back in between, which costs more than the question. The server trims when nobody asks.
 */
void cmd_server_memory(void)
{
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

static int serve(const struct http_config *cfg, struct err *err)
{
	struct http_server *server;
	sigset_t set;
	int sig;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL); /* before there are threads */
	signal(SIGPIPE, SIG_IGN);
	cmd_server_memory();
	int rc = http_open(&server, cfg, err);
	if (rc)
		return rc;
	for (size_t i = 0; http_address(server, i); i++)
		cmd_say("serving %s on %s%s", cfg->store, strncmp(http_address(server, i), "unix:", 5) ? cfg->tls_cert ? "https://" : "http://" : "",
			http_address(server, i));
	sigwait(&set, &sig);
	http_close(server);
	return 0;
}

int cmd_serve(int argc, char **argv)
{
	static const char *const by_default[] = { "127.0.0.1:4041" };
	struct serve_options o = { 0 };
	struct opt_args args;
	struct err err = { 0 };
	char *token = NULL, *cert = NULL, *key = NULL;
	int status;
	if (!cmd_parse(&command, argc, argv, &o, &args, &status))
		return status;
	struct http_config cfg = {
		.store = args.n ? args.v[0] : DEFAULT_STORE,
		.listen = o.listen.n ? (const char *const *)o.listen.v : by_default,
		.n_listen = o.listen.n ? o.listen.n : 1,
		.hosts = (const char *const *)o.hosts.v,
		.n_hosts = o.hosts.n,
		.anonymous = o.anonymous,
		.workers = (unsigned)o.workers,
		.connections = (unsigned)o.connections,
	};
	struct store *store;
	int rc = read_files(&o, &cfg, &token, &cert, &key, &err);
	rc = rc ? rc : store_open(&store, cfg.store, &err); /* what cannot be read now would be a surprise later */
	if (!rc) {
		store_close(store);
		rc = serve(&cfg, &err);
	}
	if (rc)
		cmd_error("serve: %s", err.text);
	free(token);
	free(cert);
	free(key);
	opt_release(&command, &o);
	return rc == -EINVAL ? EXIT_USAGE : rc ? EXIT_FAILED : EXIT_OK;
}
