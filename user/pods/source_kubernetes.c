/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watch the pods of this node by the API server: one list, then one watch, renewed when the server
 * ends it.
 *
 *   list --version--> watch --end of time--> watch from the last version
 *     ^                 |
 *     +--- 410 Gone ----+
 *
 * The list asks for any version (resourceVersion=0): the server answers from its memory, and etcd
 * is not asked. A list that is too large is asked for in pages.
 */
#include "pods/watcher.h"

#include "util/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX (32u << 20)
#define LIST_MS 30000u
#define PAGE_PODS 50
#define PAGES_MAX 64 /* of a list: no node has 3,200 pods */
#define WATCH_S 300u
#define WATCH_SPARE_MS 15000u
#define LASTED_NS 5000000000ull
#define TRIES 3 /* without any list: let another source try */

enum { GONE = 410 };

struct server {
	struct watcher *w;
	struct web_place at;
	char base[SOURCE_URL_BYTES], token[512], authority[512], selector[320];
	char version[64];
	bool listed; /* once */
	bool ok;     /* as the recorder was told */
	struct pods_page page;
};

void source_kubernetes_url(const struct pods_config *cfg, char ret[SOURCE_URL_BYTES])
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	ret[0] = 0;
	if (cfg->api)
		snprintf(ret, SOURCE_URL_BYTES, "%s", cfg->api);
	else if (host)
		snprintf(ret, SOURCE_URL_BYTES,
			 strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host,
			 port ? port : "443");
}

static int set_up(struct server *s, struct err *err)
{
	const struct pods_config *cfg = s->w->cfg;
	const char *dir = cfg->credentials ? cfg->credentials : PODS_CREDENTIALS;
	source_kubernetes_url(cfg, s->base);
	if (!s->base[0])
		return err_set(err, -ENOENT,
			       "no Kubernetes here: KUBERNETES_SERVICE_HOST is not set");
	if (!cfg->node)
		return err_set(err, -EINVAL,
			       "the node's name is not known: set NODE_NAME (from spec.nodeName), "
			       "or --node");
	snprintf(s->token, sizeof(s->token), "%s/token", dir);
	snprintf(s->authority, sizeof(s->authority), "%s/ca.crt", dir);
	snprintf(s->selector, sizeof(s->selector), "fieldSelector=spec.nodeName%%3D%s", cfg->node);
	s->at = (struct web_place){ .base = s->base, .token = s->token };
	if (!strncmp(s->base, "https:", 6))
		s->at.authority = s->authority;
	return 0;
}

/* Go on from the version of the last page. It becomes part of an address. */
static void keep_version(struct server *s)
{
	const char *v = s->page.version;
	if (*v && !v[strspn(v, "0123456789")])
		memcpy(s->version, v, sizeof(s->version));
}

/* What the server said instead of an answer: its Status object has the reason. */
static int refusal(struct server *s, unsigned status, struct err *err)
{
	struct pods_page page;
	const struct buf *b = &s->w->body;
	watcher_parse(s->w, PODS_JSON_LIST, b->data ? b->data : (const uint8_t *)"", b->len, &page);
	const char *todo = status == 401 ? "; is the token of this cluster?"
			   : status == 403
				   ? "; allow the service account to get, list and watch pods"
				   : "";
	return err_set(err,
		       status == GONE			? -ESTALE
		       : status == 403 || status == 401 ? -EACCES
							: -EAGAIN,
		       "%s answers %u%s%s%s", s->base, status, *page.message ? ": " : "",
		       page.message, todo);
}

static int ask(struct server *s, const struct web_request *q, struct err *err)
{
	unsigned status = 0;
	s->w->body.len = 0;
	int rc = web_ask(s->w->web, &s->at, q, &status, &s->w->body, err);
	return rc ? rc : status == 200 ? 0 : refusal(s, status, err);
}

/* One page, or all. */
static int list_page(struct server *s, bool paged, const char *next, struct err *err)
{
	char path[8192];
	const struct web_request q = {
		.path = path, .max_bytes = LIST_MAX, .deadline_ms = LIST_MS, .stop_fd = -1
	};
	if (paged)
		snprintf(path, sizeof(path), "/api/v1/pods?%s&limit=%d%s%s", s->selector, PAGE_PODS,
			 *next ? "&continue=" : "", next);
	else
		snprintf(path, sizeof(path), "/api/v1/pods?%s&resourceVersion=0", s->selector);
	int rc = ask(s, &q, err);
	if (rc)
		return rc;
	rc = watcher_parse(s->w, PODS_JSON_LIST, s->w->body.data, s->w->body.len, &s->page);
	return rc ? err_set(err, rc, "%s answers a list of pods that cannot be read", s->base) : 0;
}

/* It becomes part of an address: percent-encoded, unless the parser was taken over. */
static bool is_encoded(const char *text)
{
	for (; *text; text++)
		if ((*text < '0' || *text > '9') && (*text < 'A' || *text > 'Z') &&
		    (*text < 'a' || *text > 'z') && !strchr("%-._~", *text))
			return false;
	return true;
}

/* Of a parser that was taken over. */
static int check_next(const struct server *s, unsigned pages, const char *next, struct err *err)
{
	if (pages == PAGES_MAX)
		return err_set(err, -EBADMSG, "%s answers a list of pods of more than %d pages",
			       s->base, PAGES_MAX);
	return is_encoded(next)
		       ? 0
		       : err_set(err, -EBADMSG,
				 "%s answers a list of pods whose next page has no name", s->base);
}

static int list(struct server *s, struct err *err)
{
	char next[sizeof(s->page.next)] = "";
	unsigned pages = 1;
	watcher_mark(s->w, POD_LIST_BEGIN);
	int rc = list_page(s, false, "", err);
	bool paged = rc == -EFBIG || rc == -ENOMEM;
	if (paged)
		rc = list_page(s, true, "", err);
	while (!rc && *s->page.next) {
		memcpy(next, s->page.next, sizeof(next));
		rc = check_next(s, pages++, next, err);
		rc = rc ? rc : list_page(s, true, next, err);
	}
	if (rc)
		return rc;
	watcher_mark(s->w, POD_LIST_END);
	keep_version(s);
	s->listed = true;
	return 0;
}

/* Tell the recorder what changed. */
static void tell(struct server *s, int rc, const struct err *err)
{
	if (rc)
		watcher_say(s->w, false, "%s", err->text);
	else if (!s->ok)
		watcher_say(s->w, true, "pods of %s from %s", s->w->cfg->node, s->base);
	s->ok = !rc;
}

static int on_lines(void *ctx, const uint8_t *bytes, size_t len)
{
	struct server *s = ctx;
	int rc = watcher_parse(s->w, PODS_JSON_WATCH, bytes, len, &s->page);
	keep_version(s);
	if (s->page.status)
		return s->page.status == GONE ? -ESTALE : -EAGAIN;
	if (!rc)
		tell(s, 0, NULL);
	return rc;
}

/* 0: it ended, as it should. -ESTALE: list again. */
static int watch(struct server *s, struct err *err)
{
	char path[1024];
	const struct web_request q = { .path = path,
				       .max_bytes = 1u << 20,
				       .deadline_ms = WATCH_S * 1000 + WATCH_SPARE_MS,
				       .lines = on_lines,
				       .ctx = s,
				       .stop_fd = -1 };
	/* Agents that started together do not renew their watches together. */
	snprintf(path, sizeof(path),
		 "/api/v1/pods?%s&watch=1&allowWatchBookmarks=true&resourceVersion=%s"
		 "&timeoutSeconds=%u",
		 s->selector, s->version, WATCH_S - web_backoff_ms(0) / 10);
	int rc = ask(s, &q, err);
	return rc == -ETIMEDOUT ? 0 : rc;
}

/* What ends at once is not done again at once. */
int source_kubernetes(struct watcher *w, struct err *err)
{
	struct server s = { .w = w };
	int rc = set_up(&s, err);
	bool stale = true;
	if (rc)
		return rc;
	for (unsigned early = 0; s.listed || early < TRIES;) {
		const uint64_t began = clock_ns(CLOCK_MONOTONIC);
		bool listing = stale;
		rc = listing ? list(&s, err) : watch(&s, err);
		if (rc != -ESTALE)
			tell(&s, rc, err);
		/* A watch that fails again may be of a version that is too old: list, then. */
		stale = rc && (listing || rc == -ESTALE || early);
		if (listing && !rc)
			continue;
		early = clock_ns(CLOCK_MONOTONIC) - began < LASTED_NS ? early + 1 : 0;
		if (rc || early)
			watcher_sleep(w, web_backoff_ms(early), false);
	}
	return rc;
}
