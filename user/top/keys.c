/* SPDX-License-Identifier: Apache-2.0 */
#include "query/found.h"
#include "top/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int copy_keys(struct top_keys *k, const struct found_list *l)
{
	k->v = calloc(l->n + 1, sizeof(*k->v));
	if (!k->v)
		return -ENOMEM;
	k->samples = l->samples;
	for (size_t i = 0; i < l->n; i++) {
		char *key = strndup(l->v[i].label.key, l->v[i].label.key_len);
		if (!key)
			return -ENOMEM;
		k->v[k->n++] = (struct top_key){ key, l->v[i].values, l->v[i].samples };
	}
	return 0;
}

int view_keys(const struct top_view *v, struct top_keys *k, struct err *err)
{
	const struct top_level *l = &v->level[v->n_levels - 1];
	struct found_list found = { 0 };
	struct query *q = NULL;
	int64_t to_ns = v->head.to_ns;
	const struct query_spec spec = { .where = l->where,
					 .from_ns = view_from(v, to_ns),
					 .to_ns = to_ns,
					 .event = v->event,
					 .metric = v->metric,
					 .idle = v->idle,
					 .labels = QUERY_TOTALS };
	if (!v->store)
		return err_set(err, -ENODATA, "there are no samples yet");
	int rc = query_open(&q, v->store, &spec, err);
	rc = rc ? rc : found_collect(&found, v->store, q, &spec, NULL, err);
	if (!rc && copy_keys(k, &found))
		rc = err_set(err, -ENOMEM, "out of memory");
	found_fini(&found);
	query_close(q);
	return rc;
}

void view_keys_fini(struct top_keys *k)
{
	for (size_t i = 0; i < k->n; i++)
		free(k->v[i].key);
	free(k->v);
	*k = (struct top_keys){ 0 };
}
