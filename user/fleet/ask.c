/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/ask.h"

#include "client/web.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS 60000u
#define BOUNDARY "ascribe-table-of-hashes"
#define HEAD \
	"--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"asked\"; filename=\"asked\"\r\n" \
	"Content-Type: application/octet-stream\r\n\r\n"
#define TAIL "\r\n--" BOUNDARY "--\r\n"
#define HASH_BYTES 16

struct ask {
	const struct fleet_server *server;
	struct web *web;
	char base[512], user[300];
	const char *headers[2];
	struct buf bound; /* &param_pN=..., of the next statement */
	unsigned n_bound;
	struct buf path, body;
	const char *more; /* path and parameters of the URL */
};

int ask_new(struct ask **ret, const struct fleet_server *server, struct err *err)
{
	const char *url = server->url, *at = strstr(url, "://");
	bool web = at && (!strncmp(url, "http://", 7) || !strncmp(url, "https://", 8));
	size_t host = web ? strcspn(at + 3, "/?#") : 0;
	if (!host || memchr(at + 3, '@', host) || strchr(url, '#'))
		return err_set(err, -EINVAL,
			       "clickhouse: the URL is http://HOST:PORT/?database=NAME, without "
			       "user and password");
	struct ask *a = calloc(1, sizeof(*a));
	if (!a)
		return err_sys(err, -ENOMEM, "cannot ask ClickHouse");
	a->server = server;
	a->more = at + 3 + host;
	int n = snprintf(a->base, sizeof(a->base), "%.*s", (int)(a->more - url), url);
	int rc = n < (int)sizeof(a->base) && strlen(a->more) < 1024
			 ? 0
			 : err_set(err, -EINVAL, "clickhouse: the URL is too long");
	if (server->user) {
		snprintf(a->user, sizeof(a->user), "X-ClickHouse-User: %s", server->user);
		a->headers[0] = a->user;
		for (const char *c = server->user; !rc && *c; c++)
			if ((unsigned char)*c < ' ' || *c == 0x7f)
				rc = err_set(err, -EINVAL,
					     "clickhouse: a user has no control "
					     "characters");
	}
	rc = rc ? rc : web_new(&a->web, err);
	if (rc)
		ask_free(a);
	else
		*ret = a;
	return rc;
}

void ask_free(struct ask *a)
{
	if (!a)
		return;
	web_free(a->web);
	buf_fini(&a->bound);
	buf_fini(&a->path);
	buf_fini(&a->body);
	free(a);
}

/* A byte of a parameter's value: escaped as in TabSeparated, then for an address. */
static int add_byte(struct buf *b, char c)
{
	switch (c) {
	case '\\':
		return buf_printf(b, "%%5C%%5C");
	case '\t':
		return buf_printf(b, "%%5Ct");
	case '\n':
		return buf_printf(b, "%%5Cn");
	case '\r':
		return buf_printf(b, "%%5Cr");
	case 0:
		return buf_printf(b, "%%5C0");
	default:
		return isalnum((unsigned char)c) ? buf_add_u8(b, (uint8_t)c)
						 : buf_printf(b, "%%%02X", (unsigned char)c);
	}
}

int ask_bind(struct ask *a, const char *bytes, size_t len, unsigned *ret_n)
{
	int rc = buf_printf(&a->bound, "&param_p%u=", a->n_bound);
	for (size_t i = 0; !rc && i < len; i++)
		rc = add_byte(&a->bound, bytes[i]);
	*ret_n = a->n_bound++;
	return rc;
}

static int add_path(struct ask *a)
{
	const char *slash = a->more[0] == '/' ? "" : "/";
	a->path.len = 0;
	int rc = buf_printf(&a->path, "%s%s%c", slash, a->more, strchr(a->more, '?') ? '&' : '?');
	rc = rc ? rc : buf_printf(&a->path, "default_format=RowBinary");
	return rc ? rc : buf_add(&a->path, a->bound.data, a->bound.len);
}

/* The statement goes with the parameters where the body is a table. */
static int add_table(struct ask *a, const char *sql, const void *hashes, size_t n)
{
	int rc =
		buf_printf(&a->path, "&asked_structure=hash+UInt128&asked_format=RowBinary&query=");
	for (; !rc && *sql; sql++)
		rc = isalnum((unsigned char)*sql)
			     ? buf_add_u8(&a->path, (uint8_t)*sql)
			     : buf_printf(&a->path, "%%%02X", (unsigned char)*sql);
	rc = rc ? rc : buf_printf(&a->body, HEAD);
	rc = rc ? rc : buf_add(&a->body, hashes, n * HASH_BYTES);
	return rc ? rc : buf_printf(&a->body, TAIL);
}

/* The server's words on a line, without what a terminal would obey. */
static int refuse(const struct ask *a, unsigned status, const struct buf *answer, struct err *err)
{
	char said[400];
	size_t n = 0;
	for (size_t i = 0; i < answer->len && n < sizeof(said) - 1; i++)
		said[n++] = answer->data[i] >= ' ' && answer->data[i] <= '~' ? (char)answer->data[i]
									     : ' ';
	said[n] = 0;
	if (strstr(said, "UNKNOWN_TABLE") && strstr(said, "ascribe_"))
		return err_set(err, -ENOENT,
			       "clickhouse: the database has no tables of ascribe; `ascribe push "
			       "--format clickhouse --create-tables` makes them, ?database=NAME in "
			       "the URL names another one");
	return err_set(err, -EPROTO, "clickhouse at %s: HTTP status %u: %s", a->base, status, said);
}

int ask_run(struct ask *a, const char *sql, const void *hashes, size_t n, size_t max_bytes,
	    struct buf *answer, struct err *err)
{
	unsigned status;
	a->body.len = 0;
	int rc = add_path(a);
	rc = rc ? rc : n ? add_table(a, sql, hashes, n) : buf_add(&a->body, sql, strlen(sql));
	rc = rc ? rc : buf_add_u8(&a->path, 0);
	a->bound.len = 0;
	a->n_bound = 0;
	if (rc)
		return err_sys(err, rc, "cannot ask ClickHouse");
	const struct web_place at = { .base = a->base,
				      .token = a->server->password,
				      .token_header = "X-ClickHouse-Key: ",
				      .authority = a->server->authority };
	const struct web_request q = { .path = (const char *)a->path.data,
				       .type = n ? "multipart/form-data; boundary=" BOUNDARY
						 : "text/plain",
				       .headers = a->headers,
				       .body = a->body.data,
				       .body_len = a->body.len,
				       .max_bytes = max_bytes,
				       .deadline_ms = DEADLINE_MS,
				       .stop_fd = -1 };
	rc = web_ask(a->web, &at, &q, &status, answer, err);
	if (!rc && status != 200)
		rc = refuse(a, status, answer, err);
	return rc;
}
