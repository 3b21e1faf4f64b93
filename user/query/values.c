/* SPDX-License-Identifier: Apache-2.0 */
#include "query/values.h"

#include "query/cover.h"
#include "store/top_values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool values_kept(struct store *s, const char *key, int64_t from_ns, int64_t to_ns)
{
	struct store_cover c;
	bool kept = false;
	if (!store_is_wide(s, key) ||
	    store_cover(s, from_ns, to_ns, STORE_FOLDED, NULL, 0, &c, NULL))
		return false;
	for (size_t i = 0; i < c.n && !kept; i++)
		kept = c.blocks[i]->level;
	store_cover_free(&c);
	return kept;
}

bool values_serve(struct store *s, const struct query_spec *spec)
{
	return spec->labels == QUERY_KEYS && spec->n_keys == 1 && (!spec->where || !*spec->where) &&
	       !spec->rest && !spec->metric &&
	       values_kept(s, spec->keys[0], spec->from_ns, spec->to_ns);
}

static int by_set(const void *a, const void *b)
{
	uint32_t x = ((const struct store_row *)a)->set, y = ((const struct store_row *)b)->set;
	return (x > y) - (x < y);
}

/* Replace the rows of q by those of the values, which the lists have exactly. */
static int rows_of_values(struct query *q, const char *key, const struct store_top *top)
{
	uint64_t period = q->info.event->period, rest = q->info.samples - top->total;
	struct store_row *rows = calloc(top->n + 1, sizeof(*rows));
	size_t n = 0;
	int rc = rows ? 0 : -ENOMEM;
	if (!rc && rest)
		rows[n++] = (struct store_row){ 0, 0, q->event, rest, rest * period };
	for (size_t i = 0; !rc && i < top->n; i++) {
		struct label l = top->v[i].label;
		struct store_row *row = &rows[n++];
		*row = (struct store_row){ 0, 0, q->event, top->v[i].samples,
					   top->v[i].samples * period };
		l.key = key;
		l.key_len = (uint32_t)strlen(key);
		rc = setpool_add(&q->sets, &l, 1, &row->set);
	}
	free(q->rows);
	q->rows = rows;
	q->labels = QUERY_KEYS;
	q->n_rows = n;
	if (n)
		qsort(rows, n, sizeof(*rows), by_set);
	return rc;
}

int values_open(struct query **ret, struct store *s, const struct query_spec *spec, struct err *err)
{
	struct query_spec all = *spec;
	struct query *q = NULL;
	struct store_cover cover = { 0 };
	struct store_top top = { 0 };
	all.labels = QUERY_TOTALS;
	*ret = NULL;
	int rc = query_read(&q, s, &all, err);
	const struct query_info *info = rc ? NULL : &q->info;
	/* Lists are of one event: of several rates each has its own. */
	bool serves = !rc && info->event && !q->rates && info->blocks < info->windows &&
		      (spec->idle || !info->idle || !query_is_system_key(spec->keys[0])) &&
		      info->value == info->samples * info->event->period;
	if (serves)
		rc = plan_cover(q, STORE_FOLDED, NULL, 0, &cover, err);
	if (serves && !rc)
		rc = store_top(s, cover.blocks, cover.n, spec->keys[0], q->event, &top, err);
	serves &= !rc && top.exact && top.total <= info->samples;
	if (serves && rows_of_values(q, spec->keys[0], &top))
		rc = err_sys(err, -ENOMEM, "cannot merge the rows");
	store_top_free(&top);
	store_cover_free(&cover);
	if (rc || !serves)
		query_close(q);
	else
		*ret = q;
	return rc;
}
