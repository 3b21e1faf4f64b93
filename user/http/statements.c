/* SPDX-License-Identifier: Apache-2.0 */
/* The SQL behind query ids. Nothing waits here: the page asks again while a question is pending. */
#include "export/json.h"
#include "http/server_int.h"
#include "sql/texts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_ids(const struct request *r, int64_t *ids, size_t *ret_n, struct err *err)
{
	const char *at = request_param(r, "ids");
	char *end;
	for (*ret_n = 0; at && *at; at = *end ? end + 1 : end) {
		errno = 0;
		long long id = strtoll(at, &end, 10);
		if (end == at || (*end && *end != ',') || errno)
			return err_set(err, -EINVAL, "ids: integers with commas between");
		if (*ret_n == SQL_IDS_MAX)
			return err_set(err, -EINVAL, "ids: at most %d", SQL_IDS_MAX);
		ids[(*ret_n)++] = id;
	}
	return 0;
}

static int put_texts(json_t *o, const int64_t *ids, char *const *text, size_t n)
{
	json_t *texts = json_object();
	int rc = texts ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++) {
		char id[24];
		snprintf(id, sizeof(id), "%lld", (long long)ids[i]);
		if (text[i])
			rc = json_put(texts, id, json_text(text[i], strlen(text[i])));
	}
	rc = rc ? rc : json_put(o, "statements", json_incref(texts));
	json_decref(texts);
	return rc;
}

int api_statements(struct request *r, struct store *s, struct err *err)
{
	struct sql_texts *t = r->server->cfg.sql;
	int64_t ids[SQL_IDS_MAX];
	char *text[SQL_IDS_MAX] = { NULL }, error[SQL_ERROR_MAX] = "";
	size_t n;
	(void)s;
	int rc = read_ids(r, ids, &n, err);
	if (rc)
		return rc;
	enum sql_state state = t ? sql_texts_look(t, ids, n, text, error) : SQL_DONE;
	json_t *o = json_object();
	rc = put_texts(o, ids, text, n);
	rc = rc ? rc : json_put(o, "configured", json_boolean(t != NULL));
	rc = rc ? rc : json_put(o, "pending", json_boolean(state == SQL_PENDING));
	rc = rc ? rc
		: json_put(o, "error",
			   state == SQL_FAILED ? json_text(error, strlen(error)) : json_null());
	for (size_t i = 0; i < n; i++)
		free(text[i]);
	if (!rc)
		return request_json(r, o, err);
	json_decref(o);
	return err_set(err, rc, "out of memory");
}
