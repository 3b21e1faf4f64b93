/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe serve: the page and the API over a store, without recording. */
#include "cli/browser.h"
#include "cli/cmd.h"
#include "daemon/web_process.h"
#include "http/http.h"
#include "opt/access_files.h"
#include "opt/files.h"
#include "opt/filter.h"
#include "opt/old_store.h"
#include "opt/temp_store.h"
#include "opt/text.h"
#include "sql/texts.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct serve_options {
	struct opt_list listen, hosts;
	const char *token_file, *tokens_file, *tls_cert, *tls_key, *tls_client_ca, *postgres;
	struct fleet_server clickhouse;
	bool anonymous, plain, open, web;
	uint64_t workers, connections;
};

static const struct opt options[] = {
	{ "listen", 'l', OPT_LIST, "ADDRESS,..",
	  "unix:/path, 127.0.0.1:PORT, [::1]:PORT (default 127.0.0.1:4041; port 0: any)",
	  offsetof(struct serve_options, listen), 0, 0 },
	{ "token-file", 0, OPT_STRING, "FILE",
	  "every request needs the token in this file (default: a new token, in the address that "
	  "is printed)",
	  offsetof(struct serve_options, token_file), 0, 0 },
	{ "tokens-file", 0, OPT_STRING, "FILE",
	  "more tokens, each with a name and what it allows: lines of NAME TOKEN SCOPES, where "
	  "scopes are read, read {tenant=\"a\"}, admin (docs/http.md)",
	  offsetof(struct serve_options, tokens_file), 0, 0 },
	{ "host", 0, OPT_LIST, "NAME,..",
	  "names that a Host header may have besides localhost, where no token is asked for",
	  offsetof(struct serve_options, hosts), 0, 0 },
	{ "tls-cert", 0, OPT_STRING, "FILE", "serve TLS with this certificate (PEM)",
	  offsetof(struct serve_options, tls_cert), 0, 0 },
	{ "tls-key", 0, OPT_STRING, "FILE", "and its key", offsetof(struct serve_options, tls_key),
	  0, 0 },
	{ "tls-client-ca", 0, OPT_STRING, "FILE",
	  "certificates of authorities (PEM): a client with a certificate of theirs is who a line "
	  "NAME certificate SCOPES of tokens-file names",
	  offsetof(struct serve_options, tls_client_ca), 0, 0 },
	{ "anonymous", 0, OPT_FLAG, NULL, "no token: every user who can connect may read the store",
	  offsetof(struct serve_options, anonymous), 0, 0 },
	{ "plain-http", 0, OPT_FLAG, NULL, "let the token cross the network without TLS",
	  offsetof(struct serve_options, plain), 0, 0 },
	{ "open", 0, OPT_FLAG, NULL,
	  "start the browser; without a desktop print the ssh command that leads here",
	  offsetof(struct serve_options, open), 0, 0 },
	{ "postgres", 0, OPT_STRING, "CONNINFO",
	  "PostgreSQL to ask for the SQL behind query ids, from pg_stat_statements: a connection "
	  "string of libpq, such as \"host=/run/postgresql user=monitor dbname=postgres\"",
	  offsetof(struct serve_options, postgres), 0, 0 },
	CLICKHOUSE_OPTIONS(struct serve_options, clickhouse),
	{ "web", 0, OPT_FLAG, NULL, NULL, offsetof(struct serve_options, web), 0, 0 },
	{ "workers", 0, OPT_UINT, "N", "questions answered at a time (default 2)",
	  offsetof(struct serve_options, workers), 1, 16 },
	{ "connections", 0, OPT_UINT, "N", "connections at a time and address (default 128)",
	  offsetof(struct serve_options, connections), 1, 10000 },
};

static const struct opt_command command = {
	.name = "serve",
	.usage = "[STORE ...] [OPTIONS]",
	.about = "Serve the page and the HTTP API of docs/http.md over a store, read-only; the "
		 "store may be written meanwhile. Several stores are served as one, with the label "
		 "host.",
	.examples = "  ascribe serve                                   # " DEFAULT_STORE
		    ", at the address that is printed\n"
		    "  ascribe serve --open                            # in the browser\n"
		    "  ascribe serve /var/lib/ascribe -l unix:/tmp/a.sock\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = STORE_UNION_MAX,
};

static int read_tokens(const struct serve_options *o, struct http_config *cfg, struct err *err)
{
	struct access_files files = { { -1, -1, -1 } };
	int *const fd = files.fd;
	int rc = o->token_file ? cmd_open_text(o->token_file, &fd[ACCESS_FILE_TOKEN], err) : 0;
	if (!rc && o->tokens_file)
		rc = cmd_open_text(o->tokens_file, &fd[ACCESS_FILE_TOKENS], err);
	rc = rc ? rc : access_read(&cfg->access, &files, err);
	for (size_t i = 0; i < ACCESS_FILES; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	return rc;
}

/* *own: a token that was made here, to be shown. */
static int read_files(const struct serve_options *o, struct http_config *cfg, char **own,
		      char **cert, char **key, char **client_ca, struct err *err)
{
	int rc = read_tokens(o, cfg, err);
	if (!rc && !o->token_file && !o->anonymous) {
		rc = cmd_make_token(own, err);
		rc = rc ? rc : access_add(&cfg->access, "token", *own, ACCESS_READ, err);
	}
	rc = rc || !o->tls_cert ? rc : cmd_read_text(o->tls_cert, 1 << 20, cert, err);
	rc = rc || !o->tls_key ? rc : cmd_read_text(o->tls_key, 1 << 20, key, err);
	rc = rc || !o->tls_client_ca ? rc
				     : cmd_read_text(o->tls_client_ca, 1 << 20, client_ca, err);
	cfg->token_tcp_only = !o->token_file;
	cfg->tls_cert = *cert;
	cfg->tls_key = *key;
	cfg->tls_client_ca = *client_ca;
	return rc;
}

/*
 * Threads that only read now and then need no heaps of their own. Arrays that a question needs and
 * the next one needs again are kept in between: giving them back costs more than the question. The
 * server trims when nobody asks.
 */
static void keep_memory(void)
{
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

/*
 * A token of our own making stands behind "#": a browser keeps that part to itself, and the page
 * moves it from the address bar into its session.
 */
static void say_addresses(const struct http_server *server, const struct http_config *cfg,
			  const char *own, struct browser *b)
{
	const char *address, *scheme = cfg->tls_cert ? "https://" : "http://";
	char stores[1024];
	text_join(stores, sizeof(stores), cfg->stores, cfg->n_stores);
	const char *what = cfg->clickhouse.url ? "ClickHouse" : stores;
	bool opened = !b;
	for (size_t i = 0; (address = http_address(server, i)); i++) {
		const bool tcp = strncmp(address, "unix:", 5) != 0;
		char url[512];
		snprintf(url, sizeof(url), "%s%s%s%s", tcp ? scheme : "", address,
			 tcp && own ? "/#token=" : "", tcp && own ? own : "");
		cmd_say("serving %s on %s", what, url);
		if (tcp && !opened)
			browser_open_address(b, url);
		opened |= tcp;
	}
}

static int serve(const struct http_config *cfg, const char *own, bool open, struct err *err)
{
	struct http_server *server;
	struct http_sockets *sockets = NULL;
	struct browser browser = BROWSER_INIT;
	sigset_t set;
	int sig;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL); /* before there are threads */
	signal(SIGPIPE, SIG_IGN);
	keep_memory();
	int rc = http_check(cfg, err);
	rc = rc ? rc : http_sockets_open(&sockets, cfg, err);
	rc = rc ? rc : http_open(&server, cfg, sockets, err);
	if (rc) {
		http_sockets_close(sockets);
		return rc;
	}
	say_addresses(server, cfg, own, open ? &browser : NULL);
	sigwait(&set, &sig);
	browser_done(&browser);
	http_close(server);
	http_sockets_close(sockets);
	return 0;
}

int cmd_serve(int argc, char **argv)
{
	static const char *const by_default[] = { "127.0.0.1:4041" };
	struct serve_options o = { 0 };
	struct opt_args args;
	struct err err = { 0 };
	char *token = NULL, *cert = NULL, *key = NULL, *client_ca = NULL;
	int status;
	if (!cmd_parse(&command, argc, argv, &o, &args, &status))
		return status;
	if (o.web) /* for a daemon, which says all else */
		return web_process_run() ? EXIT_FAILED : EXIT_OK;
	const char *stores[STORE_UNION_MAX] = { DEFAULT_STORE };
	for (size_t i = 0; i < args.n; i++)
		stores[i] = args.v[i];
	struct http_config cfg = {
		.stores = stores,
		.n_stores = args.n ? args.n : 1,
		.listen = o.listen.n ? (const char *const *)o.listen.v : by_default,
		.n_listen = o.listen.n ? o.listen.n : 1,
		.hosts = (const char *const *)o.hosts.v,
		.n_hosts = o.hosts.n,
		.anonymous = o.anonymous,
		.plain = o.plain,
		.workers = (unsigned)o.workers,
		.connections = (unsigned)o.connections,
	};
	struct fleet_result ignored;
	struct sql_asker asker = SQL_ASKER_NONE;
	struct store *store;
	int rc = o.postgres ? sql_asker_start(&asker, o.postgres, &err) : 0;
	if (!rc && o.postgres && sql_texts_new(&cfg.sql, asker.fd))
		rc = err_set(&err, -ENOMEM, "out of memory");
	rc = rc ? rc : read_files(&o, &cfg, &token, &cert, &key, &client_ca, &err);
	if (!rc && o.clickhouse.url) {
		/* Of no length: whether the server is there, with ascribe's tables. */
		const struct fleet_question q = { .memory = 1 << 20 };
		cfg.clickhouse = o.clickhouse;
		rc = args.n ? err_set(&err, -EINVAL, "--clickhouse and a store exclude each other")
			    : temp_store_new(&stores[0], &err);
		rc = rc ? rc : fleet_fill(stores[0], &o.clickhouse, &q, &ignored, &err);
		cfg.scratch = stores[0];
	}
	rc = rc ? rc : old_store_copies(stores, cfg.n_stores, &err);
	/* What cannot be read now would be a surprise later. */
	rc = rc ? rc : store_open_all(&store, cfg.stores, cfg.n_stores, &err);
	if (!rc) {
		store_close(store);
		rc = serve(&cfg, token, o.open, &err);
	}
	if (rc)
		cmd_error("serve: %s", err.text);
	sql_texts_free(cfg.sql);
	sql_asker_stop(&asker);
	access_fini(&cfg.access);
	cmd_wipe_text(token);
	free(cert);
	free(key);
	free(client_ca);
	opt_release(&command, &o);
	return rc == -EINVAL ? EXIT_USAGE : rc ? EXIT_FAILED : EXIT_OK;
}
