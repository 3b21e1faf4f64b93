/* SPDX-License-Identifier: Apache-2.0 */
/* Who sent a request, and whether that one may. */
#include "http/certificate.h"
#include "http/server_int.h"

#include <microhttpd.h>

static const char *header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

unsigned asker_check(struct address *a, struct MHD_Connection *c, struct request *r,
		     const char **ret_why)
{
	char *password = NULL, *user = MHD_basic_auth_get_username_password(c, &password);
	char name[ACCESS_NAME_MAX + 1];
	const bool named =
		a->guard.tls && a->server->cfg.tls_client_ca && certificate_name(c, name);
	const struct conn *conn = conn_of(c);
	const struct guard_asker asker = { header(c, MHD_HTTP_HEADER_HOST),
					   header(c, MHD_HTTP_HEADER_ORIGIN),
					   header(c, MHD_HTTP_HEADER_AUTHORIZATION),
					   header(c, GUARD_TOKEN_HEADER),
					   password,
					   named ? name : NULL,
					   conn && conn->peer.member };
	unsigned status =
		guard_check(&a->guard, &asker, r->route->flags & ROUTE_OPEN, &r->grant, ret_why);
	if (!status)
		r->asker = quota_asker(a->server->quota, r->grant, conn ? conn->peer.uid : -1);
	MHD_free(password);
	MHD_free(user);
	return status;
}

const char *asker_may_not(const struct request *r)
{
	const struct access_grant *g = r->grant;
	if (r->route->flags & ROUTE_OPEN)
		return NULL;
	if (http_is_capture(r) && !r->server->cfg.hooks.capture)
		return NULL; /* nobody may: that is said later */
	if (http_is_capture(r))
		return access_may(g, ACCESS_CAPTURE) ? NULL
						     : "a capture needs a token with the scope "
						       "capture (capture-token-file, tokens-file), "
						       "or a Unix socket and the daemon's group";
	if (r->route->flags & ROUTE_FREEZE)
		return !r->server->cfg.hooks.freeze || (access_may(g, ACCESS_CAPTURE) && !g->where)
			       ? NULL
			       : "freezing needs a token with the scope capture "
				 "(capture-token-file, tokens-file), or a Unix socket and the "
				 "daemon's group";
	if (r->route->flags & ROUTE_INGEST)
		return access_may(g, ACCESS_INGEST) ? NULL
						    : "sending profiles needs a token with the "
						      "scope ingest";
	if (!access_may(g, ACCESS_READ))
		return "reading needs a token with the scope read";
	return g->where && !(r->route->flags & ROUTE_SCOPED)
		       ? "this says something of everybody: a token that reads by a selector may "
			 "not ask for it"
		       : NULL;
}

bool asker_must_wait(struct request *r)
{
	static const char *const why[] = {
		[QUOTA_CPU] = "you have used up your CPU time (quota-cpu)",
		[QUOTA_BYTES] = "you have used up your bytes (quota-bytes)",
		[QUOTA_MEMORY] = "take the answers that wait for you first (quota-memory)",
	};
	enum quota_part part = QUOTA_CPU;
	if (r->route->flags & ROUTE_OPEN)
		return false;
	const unsigned delay = quota_delay_s(r->server->quota, r->asker, &part);
	if (!delay)
		return false;
	count_refused(r->server, REFUSED_quota);
	request_fail(r, 429, why[part]);
	r->retry_after = delay;
	return true;
}
