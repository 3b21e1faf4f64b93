/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/blame and /api/v1/locks: who caused waits (docs/http.md). */
#include "http/asked.h"

#include "http/server_int.h"

#include <errno.h>

#define BLAME_PARTIES 20 /* lines, and columns */
#define BLAME_PARTIES_MAX 300

/* Take the key and the limit of a question about causes. */
static int take_blame(struct asked *a, const struct request *r, const char **ret_key,
		      size_t *ret_limit, struct err *err)
{
	int rc = asked_parse(a, r, err);
	const char *key = a->n_keys ? a->keys[0] : "comm";
	size_t limit = a->limit ? a->limit : BLAME_PARTIES;
	if (!rc && (a->n_keys > 1 || limit > BLAME_PARTIES_MAX))
		rc = err_set(err, -EINVAL, a->n_keys > 1 ? "by: one key" : "limit: at most %d",
			     BLAME_PARTIES_MAX);
	if (!rc && query_of_threads(a->spec.where, &key, 1))
		rc = err_set(
			err, -EINVAL,
			"waits are kept here by the labels of the work, not by tgid, tid or thread");
	*ret_key = key;
	*ret_limit = limit;
	return rc;
}

int api_locks(struct request *r, struct store *s, struct err *err)
{
	struct asked a;
	struct query_locks *l = NULL;
	const char *key;
	size_t limit;
	int rc = take_blame(&a, r, &key, &limit, err);
	rc = rc ? rc : query_locks(&l, s, &a.spec, key, limit, err);
	if (!rc) {
		struct answer answer = asked_answer(&a, s, &a.spec);
		rc = request_json(r, answer_locks(&answer, key, l), err);
	}
	query_locks_free(l);
	asked_fini(&a);
	return rc;
}

int api_blame(struct request *r, struct store *s, struct err *err)
{
	struct asked a;
	struct query_blame *b = NULL;
	const char *key;
	size_t limit;
	int rc = take_blame(&a, r, &key, &limit, err);
	if (!rc && a.metric && a.spec.metric != QUERY_WAKER)
		rc = err_set(err, -EINVAL, "metric: of blame waker, or none");
	rc = rc ? rc : query_blame(&b, s, &a.spec, key, limit, limit, err);
	if (!rc) {
		struct answer answer = asked_answer(&a, s, &a.spec);
		rc = request_json(r, answer_blame(&answer, key, b), err);
	}
	query_blame_free(b);
	asked_fini(&a);
	return rc;
}
