/* SPDX-License-Identifier: Apache-2.0 */
/* What is behind waits that grew: where the program waits, and who holds the lock. */
#include "query/findings_int.h"
#include "query/holder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A table by two keys of the time from from_ns to to_ns. */
struct by_two {
	struct query *query;
	struct query_table *table;
};

static int open_by(struct looking *l, enum query_metric metric, const char *where,
		   const char *const keys[2], int64_t from_ns, int64_t to_ns, struct by_two *ret)
{
	struct query_spec spec = { .where = where,
				   .from_ns = from_ns,
				   .to_ns = to_ns,
				   .metric = metric,
				   .labels = QUERY_KEYS,
				   .keys = keys,
				   .n_keys = 2,
				   .by_start = true,
				   .parts = 3 };
	int rc = query_open(&ret->query, l->store, &spec, l->err);
	return rc ? rc : query_table(ret->query, keys, 2, &ret->table, l->err);
}

static void close_by(struct by_two *t)
{
	query_table_free(t->table);
	query_close(t->query);
}

static double rate_of(const struct by_two *t, const struct query_table_row *like)
{
	int64_t covered = query_info(t->query)->covered_ns;
	for (size_t i = 0; covered && i < t->table->n_rows; i++) {
		const struct query_table_row *r = &t->table->rows[i];
		if (!r->other && !strcmp(r->values[0], like->values[0]) &&
		    !strcmp(r->values[1], like->values[1]))
			return (double)r->samples / (double)covered;
	}
	return 0;
}

static int find_holder(struct looking *l, struct finding *f, const char *where,
		       const struct by_two *waits)
{
	struct by_two wakers = { 0 };
	int rc = open_by(l, QUERY_WAKER, where, holder_wakers_keys, f->since_ns,
			 f->since_ns + f->span_ns, &wakers);
	const struct query_table_row *r = rc ? NULL : query_holder(waits->table, wakers.table);
	if (r) {
		rc = findings_keep(l, r->values[1], &f->holder);
		rc = rc ? rc : findings_keep(l, r->values[0], &f->holder_comm);
	}
	close_by(&wakers);
	return rc;
}

int findings_explain_wait(struct looking *l, struct finding *f, const char *where)
{
	struct by_two now = { 0 }, before = { 0 };
	const struct query_table_row *most = NULL;
	int rc = open_by(l, QUERY_OFF, where, holder_waits_keys, f->since_ns,
			 f->since_ns + f->span_ns, &now);
	rc = rc ? rc
		: open_by(l, QUERY_OFF, where, holder_waits_keys, l->before_ns, f->since_ns,
			  &before);
	for (size_t i = 0; !rc && !most && i < now.table->n_rows; i++)
		if (!now.table->rows[i].other && !strcmp(now.table->rows[i].values[1], f->wait))
			most = &now.table->rows[i];
	if (most) {
		f->function_now = rate_of(&now, most);
		f->function_before = rate_of(&before, most);
		rc = findings_keep(l, most->values[0], &f->function);
		rc = rc ? rc : findings_keep(l, most->module, &f->module);
	}
	if (!rc && most && !strcmp(f->wait, "lock") && l->has_wakers)
		rc = find_holder(l, f, where, &now);
	close_by(&now);
	close_by(&before);
	return rc;
}
