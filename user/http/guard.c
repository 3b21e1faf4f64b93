/* SPDX-License-Identifier: Apache-2.0 */
#include "http/guard.h"

#include <string.h>
#include <strings.h>

/* The length of a Host header's name: without ":port", with the brackets of an IPv6 address. */
static size_t name_len(const char *host)
{
	if (host[0] == '[') {
		const char *end = strchr(host, ']');
		return end ? (size_t)(end - host) + 1 : strlen(host);
	}
	return strcspn(host, ":");
}

static bool same(const char *a, size_t len, const char *b)
{
	return strlen(b) == len && !strncasecmp(a, b, len);
}

static bool known_host(const struct guard *g, const char *host)
{
	static const char *const loopback[] = { "localhost", "127.0.0.1", "[::1]" };
	size_t len = name_len(host);
	const char *rest = host + len;
	if (!len || strlen(host) >= GUARD_HOST_MAX ||
	    (*rest && (*rest != ':' || strspn(rest + 1, "0123456789") != strlen(rest + 1))))
		return false;
	for (size_t i = 0; i < 3; i++)
		if (same(host, len, loopback[i]))
			return true;
	for (size_t i = 0; i < g->cfg->n_hosts; i++)
		if (same(host, len, g->cfg->hosts[i]))
			return true;
	return len == name_len(g->listen) && !strncasecmp(host, g->listen, len);
}

static bool same_origin(const struct guard *g, const char *host, const char *origin)
{
	const char *scheme = g->tls ? "https://" : "http://";
	size_t n = strlen(scheme);
	return host && !strncmp(origin, scheme, n) && !strcasecmp(origin + n, host);
}

/* What it gave as its token; NULL: nothing. */
static const char *token_of(const struct guard_asker *a)
{
	static const char bearer[] = "Bearer ";
	if (a->token || a->password)
		return a->token ? a->token : a->password;
	return a->authorization && !strncasecmp(a->authorization, bearer, strlen(bearer))
		       ? a->authorization + strlen(bearer)
		       : NULL;
}

unsigned guard_check(const struct guard *g, const struct guard_asker *a, bool open,
		     const struct access_grant **ret, const char **ret_why)
{
	/* Whoever may connect without a token; who is of our group. */
	static const struct access_grant no_token = { .may = ACCESS_READ | ACCESS_INGEST };
	static const struct access_grant member = { .may = ACCESS_READ | ACCESS_INGEST |
							   ACCESS_CAPTURE };
	const struct access *access = &g->cfg->access;
	const char *token = token_of(a);
	if (a->origin && !same_origin(g, a->host, a->origin)) {
		*ret_why = "requests from pages of other origins are refused";
		return 403;
	}
	*ret = token ? access_find(access, token) : NULL;
	if (*ret)
		return 0;
	*ret = a->certificate ? access_certificate(access, a->certificate) : NULL;
	if (!*ret && !open && access->n && !(g->unix_socket && g->cfg->token_tcp_only)) {
		*ret_why = a->token || a->authorization
				   ? "wrong token"
				   : "a token is needed: Authorization: Bearer TOKEN";
		return 401;
	}
	if (!*ret)
		*ret = a->member ? &member : &no_token;
	/* Any page in a browser can use its certificate, and its right to connect. */
	if (open || g->unix_socket || (a->host && known_host(g, a->host)))
		return 0;
	*ret_why =
		"the Host header names no host that is served here (see `host` in the configuration)";
	return 421;
}
