/* SPDX-License-Identifier: Apache-2.0 */
#include "push/target.h"

#include "push/clickhouse.h"
#include "push/message.h"
#include "push/partial.h"
#include "query/selector.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HOUR_NS 3600000000000ll
#define DAY_NS (24 * HOUR_NS)

/*
 * Pyroscope's defaults: 16,000 samples and 4 MiB a profile, a burst of 2 MB, one hour of age.
 * Collectors take 20 MiB. ClickHouse's roll-ups of a day are kept for 400 days.
 */
static const struct push_format formats[] = {
	{ .name = "otlp",
	  .path = "/v1development/profiles",
	  .type = "application/x-protobuf",
	  .compression = PUSH_GZIP,
	  .dictionary = true,
	  .max_bytes = 2u << 20,
	  .encode = push_encode_otlp,
	  .rejected = push_partial_success },
	{ .name = "pyroscope",
	  .path = "/push.v1.PusherService/Push",
	  .type = "application/proto",
	  .series = true,
	  .max_bytes = 1u << 20,
	  .max_rows = 16000,
	  .max_age_ns = HOUR_NS,
	  .encode = push_encode_pyroscope },
	{ .name = "parca",
	  .path = "/profiles/writeraw",
	  .type = "application/x-protobuf",
	  .series = true,
	  .max_bytes = 2u << 20,
	  .encode = push_encode_parca },
	{ .name = "pprof",
	  .type = "application/octet-stream",
	  .dictionary = true,
	  .max_bytes = 4u << 20,
	  .encode = push_encode_pprof },
	{ .name = "clickhouse",
	  .type = "application/octet-stream",
	  .clickhouse = true,
	  .tables = true,
	  .beside = true,
	  .idle = true,
	  .compression = PUSH_ZSTD,
	  .max_bytes = 2u << 20,
	  .max_age_ns = 400 * DAY_NS,
	  .encode = clickhouse_encode,
	  .end_window = clickhouse_end_window },
	{ .name = "clickhouse-otel",
	  .type = "application/octet-stream",
	  .clickhouse = true,
	  .compression = PUSH_ZSTD,
	  .max_bytes = 4u << 20,
	  .encode = push_encode_otel_table },
};

/* What tells services of a fleet apart, and has few values on a node. */
static const char *const series_keys[] = { "service",	"service_name", "namespace", "pod",
					   "container", "workload",	"node",	     "comm" };
/* What has a value for each request, thread or process: each one would be a series. */
static const char *const never_series[] = { "tgid",	"tid",	    "thread",  "cmdline",
					    "query_id", "trace_id", "span_id", "transaction_id" };
#define COUNT(v) (sizeof(v) / sizeof((v)[0]))

static bool ends_in(const char *s, size_t n, const char *end)
{
	size_t len = strlen(end);
	return n >= len && !memcmp(s + n - len, end, len);
}

/* ---- the URL ---- */

/* Its host and port; a URL is never in a text: its path or query may hold a secret. */
static int find_host(const char *url, const char **ret_host, size_t *ret_len, struct err *err)
{
	const char *at = url ? strstr(url, "://") : NULL;
	bool web = at && (!strncmp(url, "http://", 7) || !strncmp(url, "https://", 8));
	if (!web)
		return err_set(err, -EINVAL, "url: it must begin with http:// or https://");
	at += 3;
	size_t n = strcspn(at, "/?#");
	if (memchr(at, '@', n))
		return err_set(err, -EINVAL,
			       "url: it has a user or password, which messages and lists of "
			       "processes would show; use token-file");
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)at[i]) && !strchr(".-_:[]%", at[i]))
			return err_set(err, -EINVAL, "url: no host: it has a character of no name");
	if (!n)
		return err_set(err, -EINVAL, "url: it has no host");
	*ret_host = at;
	*ret_len = n;
	return 0;
}

static int split_url(struct push_target *t, struct err *err)
{
	const char *url = t->c->url, *host, *more = t->format->path ? t->format->path : "";
	size_t len;
	int rc = find_host(url, &host, &len, err);
	if (rc)
		return rc;
	const char *path = host + len;
	size_t n = strcspn(path, "?#");
	if (path[n] && *more)
		return err_set(err, -EINVAL, "url: %s has no parameters", t->format->name);
	while (*more && n && path[n - 1] == '/')
		n--;
	if (ends_in(path, n, more))
		more = "";
	int base = snprintf(t->base, sizeof(t->base), "%.*s", (int)(path - url), url);
	int whole =
		t->format->path
			? snprintf(t->path, sizeof(t->path), "%.*s%s", (int)n, path, more)
			: snprintf(t->path, sizeof(t->path), "%s%s", *path == '/' ? "" : "/", path);
	if (base >= (int)sizeof(t->base) || whole >= (int)sizeof(t->path))
		return err_set(err, -EINVAL, "url: too long");
	for (const char *c = t->path; *c; c++)
		if ((unsigned char)*c <= ' ' || *c > '~' || *c == '#')
			return err_set(err, -EINVAL, "url: write its path with %%XX");
	return 0;
}

static const struct push_format *find_format(const char *name)
{
	for (size_t i = 0; i < COUNT(formats); i++)
		if (!strcmp(formats[i].name, name ? name : formats[0].name))
			return &formats[i];
	return NULL;
}

int push_name(const struct push_config *c, char ret[PUSH_NAME_MAX], struct err *err)
{
	const struct push_format *f = find_format(c->format);
	const char *host;
	size_t len;
	int rc = f ? find_host(c->url, &host, &len, err)
		   : err_set(err, -EINVAL,
			     "format: '%s' is none of otlp, pyroscope, parca, pprof, "
			     "clickhouse, clickhouse-otel",
			     c->format);
	if (!rc)
		snprintf(ret, PUSH_NAME_MAX, "%s to %.*s", f->name, (int)(len < 200 ? len : 200),
			 host);
	return rc;
}

/* ---- headers, keys ---- */

static int check_header(const char *line, struct err *err)
{
	const char *colon = strchr(line, ':');
	size_t n = colon ? (size_t)(colon - line) : 0;
	bool good = n > 0;
	for (size_t i = 0; i < n; i++)
		good &= isalnum((unsigned char)line[i]) || strchr("!#$%&'*+-.^_`|~", line[i]);
	for (const char *c = line; *c; c++)
		good &= (unsigned char)*c >= ' ' && *c != 0x7f;
	return good ? 0
		    : err_set(err, -EINVAL, "header: '%.*s' is no \"Name: value\"",
			      (int)(n ? n : 40), line);
}

void push_target_headers(struct push_target *t)
{
	size_t n = t->c->n_headers;
	if (t->tenant[0])
		t->headers[n++] = t->tenant;
	if (t->user[0])
		t->headers[n++] = t->user;
	snprintf(t->encoding, sizeof(t->encoding), "content-encoding: %s",
		 t->compression == PUSH_ZSTD ? "zstd" : "gzip");
	if (t->compression != PUSH_PLAIN)
		t->headers[n++] = t->encoding;
	t->headers[n] = NULL;
}

static int choose_headers(struct push_target *t, struct err *err)
{
	static const char *const names[] = { "none", "gzip", "zstd" };
	const struct push_config *c = t->c;
	int rc = c->n_headers <= PUSH_HEADERS_MAX
			 ? 0
			 : err_set(err, -EINVAL, "header: more than %d", PUSH_HEADERS_MAX);
	for (size_t i = 0; !rc && i < c->n_headers; i++) {
		rc = check_header(c->headers[i], err);
		t->headers[i] = c->headers[i];
	}
	if (!rc && c->tenant) {
		snprintf(t->tenant, sizeof(t->tenant), "X-Scope-OrgID: %s", c->tenant);
		if (check_header(t->tenant, NULL) || strlen(c->tenant) > 150 || !*c->tenant)
			rc = err_set(err, -EINVAL, "tenant: 1 to 150 printable characters");
	}
	if (!rc && c->user) {
		snprintf(t->user, sizeof(t->user), "X-ClickHouse-User: %s", c->user);
		if (!t->format->clickhouse)
			rc = err_set(err, -EINVAL, "user: of ClickHouse's formats alone");
		else if (check_header(t->user, NULL) || strlen(c->user) > 150 || !*c->user)
			rc = err_set(err, -EINVAL, "user: 1 to 150 printable characters");
	}
	t->compression = t->format->compression;
	bool found = !c->compression;
	for (size_t i = 0; !found && i < COUNT(names); i++)
		if (!strcmp(c->compression, names[i])) {
			t->compression = (enum push_compression)i;
			found = true;
		}
	if (!rc && !found)
		rc = err_set(err, -EINVAL, "compression: '%s' is none of gzip, zstd, none",
			     c->compression);
	push_target_headers(t);
	return rc;
}

static int choose_keys(struct push_target *t, struct err *err)
{
	const struct push_config *c = t->c;
	bool series = t->format->series;
	const char *const *from = c->n_keys || !series ? c->keys : series_keys;
	t->n_keys = c->n_keys || !series ? c->n_keys : COUNT(series_keys);
	if (t->n_keys > PUSH_KEYS_MAX)
		return err_set(err, -EINVAL, "keys: more than %d", PUSH_KEYS_MAX);
	for (size_t i = 0; i < t->n_keys; i++) {
		t->keys[i] = from[i];
		for (size_t k = 0; series && k < COUNT(never_series); k++)
			if (!strcmp(from[i], never_series[k]))
				return err_set(err, -EINVAL,
					       "keys: %s would make a series of each of its many "
					       "values at %s; send it by otlp",
					       from[i], t->format->name);
	}
	return 0;
}

int push_target_init(struct push_target *t, const struct push_config *c, struct err *err)
{
	*t = (struct push_target){ .c = c, .format = find_format(c->format) };
	int rc = push_name(c, t->name, err);
	rc = rc ? rc : split_url(t, err);
	rc = rc ? rc : choose_headers(t, err);
	rc = rc ? rc : choose_keys(t, err);
	if (rc)
		return rc;
	t->max_bytes = c->max_bytes ? c->max_bytes : t->format->max_bytes;
	t->max_age_ns = c->max_age_ns > 0 ? c->max_age_ns
			: c->max_age_ns	  ? 0
					  : t->format->max_age_ns;
	if (!c->certificate != !c->key)
		return err_set(err, -EINVAL,
			       "%s: the other one of cert-file and key-file is missing",
			       c->key ? "key-file" : "cert-file");
	if (c->n_external > PUSH_LABELS_MAX)
		return err_set(err, -EINVAL, "label: more than %d", PUSH_LABELS_MAX);
	return 0;
}

int push_check(const struct push_config *c, struct err *err)
{
	struct push_target t;
	struct selector *s = NULL;
	struct err why = { 0 };
	int rc = push_target_init(&t, c, err);
	if (!rc && selector_parse(&s, c->where, NULL, &why))
		rc = err_set(err, -EINVAL, "where: %s", why.text);
	selector_free(s);
	return rc;
}
