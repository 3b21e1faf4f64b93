/* SPDX-License-Identifier: Apache-2.0 */
#include "http/request.h"

#include "export/json.h"
#include "export/otlp.pb-c.h"
#include "util/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *request_param(const struct request *r, const char *name)
{
	for (size_t i = 0; i < r->n_params; i++)
		if (!strcmp(r->params[i].name, name))
			return r->params[i].value;
	return NULL;
}

int request_number(const struct request *r, const char *name, uint64_t max, uint64_t *ret)
{
	const char *text = request_param(r, name);
	char *end;
	if (!text || !*text)
		return 0;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || v > max)
		return -EINVAL;
	*ret = v;
	return 1;
}

static bool known(const char *const *names, const char *name)
{
	while (*names)
		if (!strcmp(*names++, name))
			return true;
	return false;
}

int request_check_params(const struct request *r, struct err *err)
{
	for (size_t i = 0; r->route->params && i < r->n_params; i++) {
		const char *name = r->params[i].name;
		if (!known(r->route->params, name))
			return err_set(err, -EINVAL, "no parameter '%.60s' here", name);
		if (request_param(r, name) != r->params[i].value)
			return err_set(err, -EINVAL, "the parameter '%s' is given twice", name);
	}
	return 0;
}

static int to_buf(const char *data, size_t len, void *b)
{
	return buf_add(b, data, len);
}

int request_json_rows(struct request *r, json_t *object, const struct json_rows *rows,
		      struct err *err)
{
	r->type = "application/json";
	int rc = json_write(object, rows, to_buf, &r->out);
	json_decref(object);
	rc = rc ? rc : buf_add_u8(&r->out, '\n');
	return rc ? err_set(err, -ENOMEM, "out of memory") : 0;
}

int request_json(struct request *r, json_t *value, struct err *err)
{
	return request_json_rows(r, value, NULL, err);
}

/*
 * Codes by the names of the connect protocol, so that one shape serves every client, and by the
 * numbers of gRPC.
 */
static const struct code {
	unsigned status, grpc;
	const char *name;
} codes[] = {
	{ 400, 3, "invalid_argument" },	  { 401, 16, "unauthenticated" },
	{ 403, 7, "permission_denied" },  { 421, 7, "permission_denied" },
	{ 404, 5, "not_found" },	  { 408, 4, "deadline_exceeded" },
	{ 413, 8, "resource_exhausted" }, { 429, 8, "resource_exhausted" },
	{ 405, 12, "unimplemented" },	  { 415, 12, "unimplemented" },
	{ 501, 12, "unimplemented" },	  { 503, 14, "unavailable" },
};

static const struct code *find_code(unsigned status)
{
	static const struct code other = { 500, 13, "internal" };
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].status == status)
			return &codes[i];
	return &other;
}

unsigned request_status(int rc)
{
	static const struct {
		int error;
		unsigned status;
	} of[] = {
		{ EINVAL, 400 },     { E2BIG, 400 },	{ ERANGE, 400 },	  { EACCES, 403 },
		{ ENOENT, 404 },     { EMSGSIZE, 413 }, { EPROTONOSUPPORT, 415 }, { EDQUOT, 429 },
		{ EOPNOTSUPP, 501 }, { EAGAIN, 503 },	{ ENOMEM, 503 },	  { ESTALE, 503 },
	};
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (of[i].error == -rc)
			return of[i].status;
	return 500;
}

static int write_status(struct request *r, const struct code *code, const char *text)
{
	Otlp__Status m = OTLP__STATUS__INIT;
	struct buf repaired = BUF_INIT;
	int rc = utf8_repair(&repaired, text, strlen(text));
	rc = rc ? rc : buf_add_u8(&repaired, 0);
	m.code = (int32_t)code->grpc;
	m.message = (char *)repaired.data;
	rc = rc ? rc : buf_reserve(&r->out, otlp__status__get_packed_size(&m) + 1);
	if (!rc)
		r->out.len = otlp__status__pack(&m, r->out.data);
	buf_fini(&repaired);
	return rc;
}

static int write_refusal(struct request *r, const struct code *code, const char *text)
{
	return request_json(r,
			    json_pack("{s:s,s:o}", "code", code->name, "message",
				      json_text(text, strlen(text))),
			    NULL);
}

/* OpenTelemetry's exporters read google.rpc.Status; it is they who send this type. */
void request_fail(struct request *r, unsigned status, const char *text)
{
	static const char otlp[] = "application/x-protobuf";
	const struct code *code = find_code(status);
	bool is_otlp = !strncasecmp(r->content_type, otlp, strlen(otlp));
	r->out.len = 0;
	r->etag[0] = 0;
	r->gzipped = false;
	r->status = status;
	r->type = is_otlp ? otlp : "application/json";
	if (is_otlp ? write_status(r, code, text) : write_refusal(r, code, text))
		r->out.len = 0;
}

void request_free(struct request *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_params; i++) {
		free(r->params[i].name);
		free(r->params[i].value);
	}
	free(r->params);
	free(r->path);
	buf_fini(&r->body);
	buf_fini(&r->question);
	buf_fini(&r->out);
	free(r);
}
