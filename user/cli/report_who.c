/* SPDX-License-Identifier: Apache-2.0 */
/* Which label tells best for whom the samples of a store are. */
#include "cli/report.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CANDIDATES 8 /* keys that are looked at; each is a query */
#define COVERED_PERCENT 50

struct candidates {
	char *v[CANDIDATES];
	size_t n;
};

/* Does a label tell where the samples are, or who was in the way, and not for whom they are? */
static bool is_no_who(const char *key)
{
	return query_is_system_key(key) || !strcmp(key, "host") || !strncmp(key, "by.", 3) ||
	       !strncmp(key, "python_", 7);
}

static int add_candidate(void *ctx, const char *key, uint32_t sets)
{
	struct candidates *c = ctx;
	(void)sets;
	if (is_no_who(key) || c->n == CANDIDATES || strlen(key) > 255)
		return 0;
	c->v[c->n] = strdup(key);
	return c->v[c->n++] ? 0 : -ENOMEM;
}

/* Find the samples that have the label. */
static int covered(struct reading *r, const struct filter *f, const char *key, uint64_t *ret,
		   uint64_t *ret_all, struct err *err)
{
	struct opt_list by = { (char *[]){ (char *)key }, 1 };
	struct query_spec spec = reading_spec(f, QUERY_KEYS, &by);
	struct query_table *t = NULL;
	struct query *q = NULL;
	int rc = query_open(&q, r->store, &spec, err);
	rc = rc ? rc : query_table(q, spec.keys, 1, &t, err);
	*ret = 0;
	for (size_t i = 0; !rc && i < t->n_rows; i++)
		*ret += t->rows[i].present[0] ? t->rows[i].samples : 0;
	if (!rc)
		*ret_all = query_info(q)->samples;
	query_table_free(t);
	query_close(q);
	return rc;
}

int report_who_key(struct reading *r, const struct filter *f, char *ret, struct err *err)
{
	struct candidates c = { 0 };
	uint64_t most = 0, n, all;
	bool has = false;
	int rc = store_narrow_keys(r->store, add_candidate, &c, err);
	*ret = '\0';
	for (size_t i = 0; !rc && i < c.n; i++) {
		rc = covered(r, f, c.v[i], &n, &all, err);
		if (!rc && n > most && n * 100 >= all * COVERED_PERCENT) {
			most = n;
			strcpy(ret, c.v[i]);
		}
	}
	for (size_t i = 0; i < c.n; i++)
		free(c.v[i]);
	if (rc || *ret)
		return rc;
	rc = store_has_key(r->store, "service", &has, err);
	strcpy(ret, has ? "service" : "comm");
	return rc;
}
