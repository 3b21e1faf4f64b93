/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens, certificates and keys are looked at once, so that a bad file is refused with its line,
 * and wiped. What stays are open files, for the process that serves.
 */
#include "daemon/settings_http.h"

#include "opt/access_files.h"
#include "opt/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int settings_parse_mode(struct daemon_settings *s, struct err *err)
{
	char *end = NULL;
	unsigned long mode = s->o.socket_mode ? strtoul(s->o.socket_mode, &end, 8) : 0;
	if (s->o.socket_mode && (end == s->o.socket_mode || *end || mode > 0777 || !mode))
		return err_set(err, -EINVAL, "'%s' is no mode; try 0660", s->o.socket_mode);
	s->http.socket_mode = (unsigned)mode;
	return 0;
}

/* Check what is open so far. *ret_captures: whether a token allows them; may be NULL. */
static int check_tokens(int token, int capture, int tokens, bool *ret_captures, struct err *err)
{
	const struct access_files files = { { token, capture, tokens } };
	struct access read;
	int rc = access_read(&read, &files, err);
	if (!rc && ret_captures)
		*ret_captures = access_any_may(&read, ACCESS_CAPTURE);
	access_fini(&read);
	return rc;
}

int settings_read_token(struct daemon_settings *s, struct err *err)
{
	s->own_token = !s->o.token_file && !s->o.anonymous;
	s->http.token_tcp_only = s->own_token;
	int rc = s->o.token_file ? cmd_open_text(s->o.token_file, &s->token, err) : 0;
	return rc ? rc : check_tokens(s->token, -1, -1, NULL, err);
}

int settings_read_capture_token(struct daemon_settings *s, struct err *err)
{
	const char *file = s->o.capture_token_file;
	int rc = file ? cmd_open_text(file, &s->capture_token, err) : 0;
	return rc ? rc : check_tokens(s->token, s->capture_token, -1, NULL, err);
}

int settings_read_tokens(struct daemon_settings *s, struct err *err)
{
	int rc = s->o.tokens_file ? cmd_open_text(s->o.tokens_file, &s->tokens, err) : 0;
	return rc ? rc : check_tokens(s->token, s->capture_token, s->tokens, &s->captures, err);
}

static int open_pem(const char *file, int *ret_fd, struct err *err)
{
	char *text = NULL;
	int rc = cmd_open_text(file, ret_fd, err);
	rc = rc ? rc : cmd_read_open_text(*ret_fd, file, CMD_PEM_MAX, &text, err);
	cmd_wipe_text(text);
	return rc;
}

int settings_read_cert(struct daemon_settings *s, struct err *err)
{
	int rc = s->o.tls_cert ? open_pem(s->o.tls_cert, &s->cert, err) : 0;
	return rc || !s->o.tls_cert || s->o.tls_key
		       ? rc
		       : err_set(err, -EINVAL, "needs its key: tls-key");
}

int settings_read_key(struct daemon_settings *s, struct err *err)
{
	int rc = s->o.tls_key ? open_pem(s->o.tls_key, &s->key, err) : 0;
	return rc || !s->o.tls_key || s->o.tls_cert
		       ? rc
		       : err_set(err, -EINVAL, "needs its certificate: tls-cert");
}

int settings_read_client_ca(struct daemon_settings *s, struct err *err)
{
	int rc = s->o.tls_client_ca ? open_pem(s->o.tls_client_ca, &s->client_ca, err) : 0;
	return rc || !s->o.tls_client_ca || s->o.tls_cert
		       ? rc
		       : err_set(err, -EINVAL, "needs TLS: tls-cert and tls-key");
}

/* The process that serves may write files of 64 MiB (confine_web). */
int settings_check_audit(struct daemon_settings *s, struct err *err)
{
	return s->o.audit_max > 128u << 20 ? err_set(err, -EINVAL, "at most 128MiB") : 0;
}

int settings_parse_listen(struct daemon_settings *s, struct err *err)
{
	static const char *const by_default[] = { "127.0.0.1:4041" };
	static const char there[] = "in the process that serves";
	static struct access_grant some;
	const struct daemon_options *o = &s->o;
	struct http_config *h = &s->http;
	h->listen = o->listen.n ? (const char *const *)o->listen.v : by_default;
	h->n_listen = o->listen.n ? o->listen.n : 1;
	h->anonymous = o->anonymous;
	h->plain = o->plain;
	h->hosts = (const char *const *)o->hosts.v;
	h->n_hosts = o->hosts.n;
	h->workers = (unsigned)o->workers;
	h->connections = (unsigned)o->connections;
	h->quota[QUOTA_CPU] = o->quota_cpu_s ? o->quota_cpu_s * 1000000000 : UINT64_MAX;
	h->quota[QUOTA_BYTES] = o->quota_bytes ? o->quota_bytes : UINT64_MAX;
	h->quota[QUOTA_MEMORY] = o->quota_memory ? o->quota_memory : UINT64_MAX;
	if (o->capture_ns || (o->listen.n == 1 && !strcmp(o->listen.v[0], "none")))
		h->n_listen = 0;
	/* What is served how far depends on whether there is a token, not on which. */
	struct http_config all = *h;
	all.access = (struct access){ &some, s->token >= 0 || s->own_token || s->tokens >= 0 };
	all.tls_cert = s->cert >= 0 ? there : NULL;
	all.tls_key = s->key >= 0 ? there : NULL;
	return h->n_listen ? http_check(&all, err) : 0;
}

void settings_close_secrets(struct daemon_settings *s)
{
	int *const fd[] = { &s->token, &s->capture_token, &s->tokens,
			    &s->cert,  &s->key,		  &s->client_ca };
	for (size_t i = 0; i < sizeof(fd) / sizeof(fd[0]); i++) {
		if (*fd[i] >= 0)
			close(*fd[i]);
		*fd[i] = -1;
	}
}

int daemon_settings_token_path(const struct daemon_settings *s, char ret_path[static 512],
			       struct err *err)
{
	if (snprintf(ret_path, 512, "%s/http.token", s->o.store) >= 512)
		return err_set(err, -ENAMETOOLONG, "%s: too long a name", s->o.store);
	return 0;
}

int daemon_settings_keep_token(struct daemon_settings *s, char ret_path[static 512],
			       struct err *err)
{
	int fd = -1;
	int rc = daemon_settings_token_path(s, ret_path, err);
	rc = rc ? rc : cmd_keep_token(ret_path, err);
	rc = rc ? rc : cmd_open_text(ret_path, &fd, err);
	rc = rc ? rc : check_tokens(fd, s->capture_token, s->tokens, NULL, err);
	if (rc) {
		if (fd >= 0)
			close(fd);
		return rc;
	}
	if (s->token >= 0)
		close(s->token);
	s->token = fd;
	return 0;
}
