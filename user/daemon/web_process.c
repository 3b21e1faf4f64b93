/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web_process.h"

#include "daemon/web_link.h"
#include "http/metric_rules.h"
#include "opt/access_files.h"
#include "opt/files.h"
#include "opt/rule_options.h"
#include "sandbox/anew.h"
#include "sandbox/confine.h"
#include "sql/texts.h"
#include "util/packet.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ANY_CONFIG (sizeof(struct web_config) + WEB_TEXTS_MAX)
#define QUESTIONS 8		   /* of memory beyond what serving itself takes, in questions */
#define SERVING_BYTES (192u << 20) /* stacks of threads above all, of which little is touched */

/* All that the server refers to; it stays until the process ends. */
struct web {
	struct web_link link;
	struct http_config http;
	struct http_sockets sockets;
	struct web_config *config; /* its texts behind it */
	size_t config_len;
	int fd[WEB_DESCRIPTORS]; /* -1: none */
	const char **hosts;
	struct rule_section rules[RULES_MAX];
	char *cert, *key, *client_ca;
};

/* ---- the first packet ---- */

/* Each bit has its descriptor, in the order of the bits. */
static int sort_descriptors(struct web *w, const int *got, size_t n)
{
	size_t at = 0;
	for (unsigned i = 0; i < WEB_LISTEN; i++)
		w->fd[i] = w->config->has >> i & 1 && at < n ? got[at++] : -1;
	for (unsigned i = 0; i < w->config->n_listen && at < n; i++)
		w->fd[WEB_LISTEN + i] = got[at++];
	return w->fd[WEB_STORE] >= 0 && at == n && w->fd[WEB_LISTEN + w->config->n_listen - 1] >= 0
		       ? 0
		       : -EBADMSG;
}

static int take_config(struct web *w)
{
	int got[WEB_DESCRIPTORS];
	size_t n = 0;
	for (unsigned i = 0; i < WEB_DESCRIPTORS; i++)
		w->fd[i] = -1;
	w->config = calloc(1, ANY_CONFIG + 1);
	if (!w->config)
		return -ENOMEM;
	int rc = packet_recv(ANEW_FD, w->config, ANY_CONFIG, &w->config_len, got, WEB_DESCRIPTORS,
			     &n, 0);
	if (rc)
		return rc;
	const struct web_config *c = w->config;
	if (w->config_len < sizeof(*c) || c->what != WEB_CONFIG || !c->n_listen ||
	    c->n_listen > ADDRESSES_MAX || c->n_rules > RULES_MAX)
		return -EBADMSG;
	return sort_descriptors(w, got, n);
}

/* The next text behind the configuration; "" beyond the last one. */
static const char *next_text(const struct web *w, size_t *at)
{
	const char *text = (const char *)w->config + *at;
	if (*at >= w->config_len)
		return "";
	*at += strlen(text) + 1;
	return text;
}

/* ---- the server's configuration ---- */

static int read_secrets(struct web *w, struct err *err)
{
	const int *fd = w->fd;
	const struct access_files files = { { fd[WEB_TOKEN], fd[WEB_CAPTURE_TOKEN],
					      fd[WEB_TOKENS] } };
	int rc = access_read(&w->http.access, &files, err);
	if (!rc && fd[WEB_CERT] >= 0)
		rc = cmd_read_open_text(fd[WEB_CERT], "tls-cert", CMD_PEM_MAX, &w->cert, err);
	if (!rc && fd[WEB_KEY] >= 0)
		rc = cmd_read_open_text(fd[WEB_KEY], "tls-key", CMD_PEM_MAX, &w->key, err);
	if (!rc && fd[WEB_CLIENT_CA] >= 0)
		rc = cmd_read_open_text(fd[WEB_CLIENT_CA], "tls-client-ca", CMD_PEM_MAX,
					&w->client_ca, err);
	return rc;
}

static int read_rules(struct web *w, size_t *at, struct err *err)
{
	struct metric_rule v[RULES_MAX];
	int rc = 0;
	for (uint32_t i = 0; !rc && i < w->config->n_rules; i++) {
		rc = rule_section_parse(&w->rules[i], next_text(w, at), err);
		v[i] = w->rules[i].r;
	}
	if (rc || !w->config->n_rules)
		return rc;
	rc = metric_rules_new(&w->http.rules, v, w->config->n_rules, w->config->rules_from_ns, err);
	if (!rc && w->fd[WEB_RULES] >= 0)
		rc = metric_rules_keep(w->http.rules, w->fd[WEB_RULES], err);
	return rc;
}

static void fill_sockets(struct web *w)
{
	for (; w->sockets.n < w->config->n_listen; w->sockets.n++) {
		struct http_socket *to = &w->sockets.v[w->sockets.n];
		const size_t i = w->sockets.n;
		to->text = w->config->listen[i].text;
		to->fd = w->fd[WEB_LISTEN + i];
		to->at.unix_path[0] = w->config->listen[i].is_unix ? '/' : 0;
		snprintf(to->name, sizeof(to->name), "%s", w->config->listen[i].name);
	}
}

static int configure(struct web *w, struct err *err)
{
	static const char *const here[] = { "." };
	static const char *listen[ADDRESSES_MAX];
	const struct web_config *c = w->config;
	size_t at = sizeof(*c);
	w->link.profile_fd = w->fd[WEB_MEMORY];
	if (w->fd[WEB_AUDIT] >= 0)
		web_link_audit(&w->link, w->fd[WEB_AUDIT], c->audit_bytes);
	w->hosts = calloc((size_t)c->n_hosts + 1, sizeof(*w->hosts));
	if (!w->hosts)
		return err_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < c->n_hosts; i++)
		w->hosts[i] = next_text(w, &at);
	fill_sockets(w);
	for (size_t i = 0; i < w->sockets.n; i++)
		listen[i] = w->sockets.v[i].text;
	w->http = (struct http_config){ .stores = here,
					.n_stores = 1,
					.listen = listen,
					.n_listen = c->n_listen,
					.hosts = w->hosts,
					.n_hosts = c->n_hosts,
					.token_tcp_only = c->token_tcp_only,
					.anonymous = c->anonymous,
					.plain = c->plain,
					.workers = c->workers,
					.connections = c->connections,
					.question_bytes = (size_t)c->question_bytes,
					.hooks = web_link_hooks(&w->link) };
	memcpy(w->http.quota, c->quota, sizeof(c->quota));
	int rc = read_secrets(w, err);
	w->http.tls_cert = w->cert;
	w->http.tls_key = w->key;
	w->http.tls_client_ca = w->client_ca;
	rc = rc ? rc : read_rules(w, &at, err);
	if (!rc && w->fd[WEB_SQL] >= 0 && sql_texts_new(&w->http.sql, w->fd[WEB_SQL]))
		rc = err_set(err, -ENOMEM, "out of memory");
	return rc;
}

/* ---- giving up rights ---- */

/*
 * The rules of the local time are read while files can be: glibc keeps them as long as TZ names the
 * same ones.
 */
static void keep_time_zone(void)
{
	setenv("TZ", ":/etc/localtime", 0);
	tzset();
}

static int confine(const struct web *w, struct err *err)
{
	const struct confine_given given = {
		.memory = SERVING_BYTES + QUESTIONS * (size_t)w->config->question_bytes
	};
	keep_time_zone();
	if (fchdir(w->fd[WEB_STORE]))
		return err_sys(
			err, -errno,
			"cannot enter the store: as a unit this process needs the recorder's "
			"group (Group= of ascribe-web@.service)");
	int rc = confine_rights(ROLE_WEB, CONFINE_KEEP_ALL);
	/* A change of user clears what was asked for before. */
	if (!rc && (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_DUMPABLE, 0)))
		rc = -errno;
	rc = rc ? rc : confine_reach(ROLE_WEB, &given);
	return rc ? err_sys(err, rc, "giving up the rights of the process that serves") : 0;
}

/* ---- life ---- */

static void keep_little_memory(void)
{
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	mallopt(M_TRIM_THRESHOLD, 8 << 20);
}

static int begin(struct web *w, struct http_server **ret, struct err *err)
{
	int rc = take_config(w);
	if (rc)
		return err_sys(err, rc, "the configuration of the process that serves");
	rc = configure(w, err);
	rc = rc ? rc : confine(w, err);
	if (!rc && (rc = web_link_begin(&w->link)))
		return err_sys(err, rc, "the first state of the recorder");
	return rc ? rc : http_open(ret, &w->http, &w->sockets, err);
}

/* systemd stops the unit: end as if the recorder wanted it, with what has begun answered. */
static void asked_to_end(int sig)
{
	(void)sig;
	shutdown(ANEW_FD, SHUT_RD);
}

int web_process_run(void)
{
	static struct web w;
	const struct web_here here = { .what = WEB_HERE, .pid = getpid() };
	const struct web_plain up = { .what = WEB_UP };
	struct web_failed failed = { .what = WEB_FAILED };
	struct http_server *server;
	struct err err = { 0 };
	prctl(PR_SET_NAME, roles[ROLE_WEB].name);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 0); /* it has a token */
	confine_signals();
	signal(SIGTERM, asked_to_end);
	syscall(SYS_close_range, ANEW_FD + 1, ~0u, 0);
	setpriority(PRIO_PROCESS, 0, 0); /* the recorder has a higher one */
	keep_little_memory();
	int rc = web_link_init(&w.link, ANEW_FD);
	rc = rc ? rc : web_link_send(&w.link, &here, sizeof(here));
	rc = rc ? rc : begin(&w, &server, &err);
	if (rc) {
		snprintf(failed.text, sizeof(failed.text), "%s", err.text);
		(void)web_link_send(&w.link, &failed, sizeof(failed));
		return rc;
	}
	(void)web_link_send(&w.link, &up, sizeof(up));
	web_link_run(&w.link, server);
	http_close(server);
	return 0;
}
