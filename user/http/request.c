/* SPDX-License-Identifier: Apache-2.0 */
#include "http/request.h"

#include "export/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* The names are those of the connect protocol, so that one shape serves every client. */
static const char *code_name(unsigned status)
{
	switch (status) {
	case 400:
		return "invalid_argument";
	case 401:
		return "unauthenticated";
	case 403:
	case 421:
		return "permission_denied";
	case 404:
		return "not_found";
	case 408:
		return "deadline_exceeded";
	case 413:
	case 429:
		return "resource_exhausted";
	case 405:
	case 415:
	case 501:
		return "unimplemented";
	case 503:
		return "unavailable";
	default:
		return "internal";
	}
}

unsigned request_status(int rc)
{
	switch (-rc) {
	case EINVAL:
	case E2BIG:
	case ERANGE:
		return 400;
	case ENOENT:
		return 404;
	case EOPNOTSUPP:
		return 501;
	case EMSGSIZE:
		return 413;
	case EDQUOT:
		return 429;
	case EAGAIN:
	case ENOMEM:
	case ESTALE:
		return 503;
	default:
		return 500;
	}
}

void request_fail(struct request *r, unsigned status, const char *text)
{
	json_t *o = json_pack("{s:s,s:o}", "code", code_name(status), "message",
			      json_text(text, strlen(text)));
	r->out.len = 0;
	r->etag[0] = 0;
	r->gzipped = false;
	r->status = status;
	r->type = "application/json";
	if (request_json(r, o, NULL))
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
