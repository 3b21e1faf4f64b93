/* SPDX-License-Identifier: Apache-2.0 */
/* The server's configuration: what is not given, and what makes no sense or is not safe. */
#include "http/listen.h"
#include "http/server_int.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>

void config_set_defaults(struct http_config *c)
{
	static const uint64_t quota[] = {
		[QUOTA_CPU] = 60000000000, [QUOTA_BYTES] = 1u << 30, [QUOTA_MEMORY] = 128u << 20
	};
	c->workers = c->workers ? c->workers : 2;
	c->workers = c->workers > WORKERS_MAX ? WORKERS_MAX : c->workers;
	c->connections = c->connections ? c->connections : 128;
	c->queue = c->queue ? c->queue : 64;
	c->request_s = c->request_s ? c->request_s : 10;
	c->response_s = c->response_s ? c->response_s : 60;
	c->cache_bytes = c->cache_bytes ? c->cache_bytes : 4u << 20;
	for (int i = 0; i < QUOTA_PARTS; i++)
		c->quota[i] = c->quota[i] ? c->quota[i] : quota[i];
	c->question_bytes = c->question_bytes ? c->question_bytes : 64u << 20;
}

/* Every local user can connect to a port of loopback, every host to the other addresses. */
static int check_reach(const struct http_config *cfg, const struct listen_at *at, const char *text,
		       struct err *err)
{
	if (at->unix_path[0] || (cfg->anonymous && !cfg->access.n))
		return 0;
	if (!cfg->access.n)
		return err_set(
			err, -EINVAL,
			"%s can be reached from other hosts or by other users: set a token (or "
			"allow anonymous access)",
			text);
	if (!at->is_local && !cfg->tls_cert && !cfg->plain)
		return err_set(
			err, -EINVAL,
			"%s would send the token over the network unencrypted: set tls-cert and "
			"tls-key (or plain-http)",
			text);
	return 0;
}

int http_check(const struct http_config *cfg, struct err *err)
{
	struct listen_at at;
	int rc = 0;
	if (!cfg->n_listen || cfg->n_listen > ADDRESSES_MAX)
		return err_set(err, -EINVAL, "%zu addresses to listen on: 1 to %d", cfg->n_listen,
			       ADDRESSES_MAX);
	if (!cfg->tls_cert != !cfg->tls_key)
		return err_set(err, -EINVAL, "TLS needs a certificate and a key");
	if (cfg->tls_client_ca && !cfg->tls_cert)
		return err_set(err, -EINVAL, "certificates of clients need TLS: tls-cert, tls-key");
	if (cfg->tls_cert && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
		return err_set(err, -EINVAL, "this libmicrohttpd has no TLS");
	for (size_t i = 0; !rc && i < cfg->n_listen; i++) {
		rc = listen_parse(&at, cfg->listen[i], err);
		if (!rc)
			rc = check_reach(cfg, &at, cfg->listen[i], err);
	}
	return rc;
}
