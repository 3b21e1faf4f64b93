/* SPDX-License-Identifier: Apache-2.0 */
#include "http/audit.h"

#include "export/json.h"
#include "http/clock.h"
#include "http/server_int.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VALUE_MAX 512 /* bytes of a parameter, and of a body */
#define TEXT_MAX 4096 /* of all parameters */

/* Of paths that take whatever comes (legacy.c), and never a token that stands there by mistake. */
static const char *const known_anywhere[] = { "query",	    "from",	 "until",      "label",
					      "maxNodes",   "leftQuery", "leftFrom",   "leftUntil",
					      "rightQuery", "rightFrom", "rightUntil", NULL };

static bool is_known(const struct request *r, const char *name)
{
	const char *const *names = r->route->params ? r->route->params : known_anywhere;
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names;
}

static int put_text(json_t *o, const char *name, const char *text, size_t len)
{
	return json_put(o, name, json_text(text, len < VALUE_MAX ? len : VALUE_MAX));
}

static int put_params(json_t *o, const struct request *r)
{
	json_t *params = json_object();
	size_t bytes = 0;
	int rc = params ? 0 : -1;
	for (size_t i = 0; !rc && i < r->n_params; i++) {
		const struct param *p = &r->params[i];
		if (!is_known(r, p->name) || json_object_get(params, p->name))
			continue;
		bytes += strlen(p->name) + strnlen(p->value, VALUE_MAX);
		if (bytes > TEXT_MAX)
			break;
		rc = put_text(params, p->name, p->value, strlen(p->value));
	}
	rc = rc ? rc : json_put(o, "params", json_incref(params));
	json_decref(params);
	return rc;
}

static void write_peer(const struct sockaddr *peer, char out[static INET6_ADDRSTRLEN + 8])
{
	char host[INET6_ADDRSTRLEN] = "";
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)peer;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)peer;
	const size_t cap = INET6_ADDRSTRLEN + 8;
	if (peer && peer->sa_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(out, cap, "%s:%u", host, ntohs(v4->sin_port));
	} else if (peer && peer->sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(out, cap, "[%s]:%u", host, ntohs(v6->sin6_port));
	} else {
		snprintf(out, cap, "unix");
	}
}

static void write_time(char out[static 32])
{
	struct timespec now;
	struct tm tm;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	const size_t n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, 32 - n, ".%03ldZ", now.tv_nsec / 1000000);
}

static json_t *make_line(const struct request *r, const struct sockaddr *peer)
{
	char from[INET6_ADDRSTRLEN + 8], time[32];
	/* What is sent may hold labels that rules drop, also in its name. */
	const bool post = r->route->flags & ROUTE_POST, sent = r->route->flags & ROUTE_INGEST;
	write_peer(peer, from);
	write_time(time);
	json_t *o = json_object();
	int rc = json_put(o, "time", json_string(time));
	rc = rc ? rc : json_put(o, "who", json_string(r->asker ? asker_name(r->asker) : "-"));
	rc = rc ? rc : json_put(o, "peer", json_string(from));
	rc = rc ? rc : json_put(o, "method", json_string(r->head ? "HEAD" : post ? "POST" : "GET"));
	rc = rc ? rc : put_text(o, "path", r->path, strlen(r->path));
	rc = rc || !r->n_params || sent ? rc : put_params(o, r);
	if (!rc && post && r->body.len && !sent)
		rc = put_text(o, "body", (const char *)r->body.data, r->body.len);
	rc = rc ? rc : json_put(o, "status", json_integer(r->status));
	rc = rc ? rc : json_put(o, "bytes", json_count(r->out.len));
	rc = rc ? rc : json_put(o, "cpu_ms", json_real((double)(r->cpu_ns / 10000) / 100));
	return json_done(o, rc);
}

/* Of those whom nobody knows, so many a minute. */
static bool is_wanted(struct audit *a, const struct request *r)
{
	const uint64_t minute = http_now_ns() / (60 * HTTP_NS);
	if (r->asker)
		return true;
	if (__atomic_exchange_n(&a->minute, minute, __ATOMIC_RELAXED) != minute)
		__atomic_store_n(&a->unknown, 0, __ATOMIC_RELAXED);
	return __atomic_add_fetch(&a->unknown, 1, __ATOMIC_RELAXED) <= AUDIT_UNKNOWN_MAX;
}

void audit_request(struct audit *a, const struct request *r, const struct sockaddr *peer)
{
	const struct http_hooks *h = &r->server->cfg.hooks;
	if (!h->audit || (r->route->flags & ROUTE_OPEN))
		return;
	json_t *o = is_wanted(a, r) ? make_line(r, peer) : NULL;
	char *line = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
	json_decref(o);
	if (!line || !h->audit(h->ctx, line))
		__atomic_add_fetch(&a->lost, 1, __ATOMIC_RELAXED);
	free(line);
}
