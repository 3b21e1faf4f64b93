/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the store of figures_write, which is opened anew for each. */
#include "export/export.h"
#include "figures/figures.h"
#include "query/series.h"
#include "query/why.h"

#include <stdio.h>
#include <string.h>

#define T0 1777629600000000000ll
#define S 1000000000ll

static struct store *s;
static struct err err;

static void check(int rc, const char *what)
{
	if (rc && err.text[0])
		fprintf(stderr, "figures: %s\n", err.text);
	figures_check(rc, what);
}

static void begin(const char *dir)
{
	figures_begin();
	check(store_open(&s, dir, &err), "open");
}

/* blocks: 0 where there are several questions. rows: an answer without any is none. */
static void end(const char *name, uint64_t blocks, size_t rows, const char *what)
{
	store_close(s);
	figures_end(name, what);
	if (blocks)
		figure("blocks", name, blocks, "blocks", what);
	figures_check(rows ? 0 : -61, name);
}

static void ask_table(const char *name, const char *store, const struct query_spec *spec,
		      const char *const *keys, const char *what)
{
	struct query_table *t;
	struct query *q;
	begin(store);
	check(query_open(&q, s, spec, &err), name);
	check(query_table(q, keys, keys ? 1 : 0, &t, &err), name);
	const uint64_t blocks = query_info(q)->blocks;
	const size_t rows = t->n_rows;
	query_table_free(t);
	query_close(q);
	end(name, blocks, rows, what);
}

void figures_report(const char *store)
{
	static const char *const key = "tenant";
	const struct query_spec spec = { .from_ns = T0 + 25 * S,
					 .to_ns = T0 + 3700 * S,
					 .labels = QUERY_KEYS,
					 .keys = &key,
					 .n_keys = 1 };
	ask_table("report", store, &spec, &key, "report --by tenant of an hour");
}

void figures_functions(const char *store)
{
	const struct query_spec spec = { .from_ns = T0 + 25 * S,
					 .to_ns = T0 + 3700 * S,
					 .labels = QUERY_NO_LABELS };
	ask_table("functions", store, &spec, NULL, "functions of an hour");
}

void figures_value(const char *store)
{
	static const char *const key = "query_id";
	const struct query_spec spec = { .from_ns = T0,
					 .to_ns = T0 + 3800 * S,
					 .where = "{query_id=\"q00000004\"}",
					 .labels = QUERY_KEYS_STACKS,
					 .keys = &key,
					 .n_keys = 1 };
	ask_table("value", store, &spec, NULL, "functions of one query_id in an hour");
}

void figures_flame(const char *store)
{
	const struct query_spec spec = { .from_ns = T0 + 25 * S,
					 .to_ns = T0 + 3700 * S,
					 .labels = QUERY_NO_LABELS,
					 .least = EXPORT_FLAME_LEAST };
	const struct query_node *nodes;
	struct query *q;
	size_t n;
	begin(store);
	check(query_open(&q, s, &spec, &err), "flame");
	check(query_tree(q, &nodes, &n, &err), "flame");
	const uint64_t blocks = query_info(q)->blocks;
	query_close(q);
	end("flame", blocks, n, "the tree of an hour");
}

void figures_series(const char *store)
{
	static const char *const key = "tenant";
	const struct query_series_spec spec = { .range = { .from_ns = T0, .to_ns = T0 + 3600 * S },
						.keys = &key,
						.n_keys = 1,
						.step_ns = 60 * S,
						.top = 10 };
	struct query_series *r;
	begin(store);
	check(query_series(&r, s, &spec, &err), "series");
	const size_t rows = r->n_rows;
	query_series_free(r);
	end("series", 0, rows, "report --step 1m --by tenant of an hour");
}

void figures_why(const char *store)
{
	const struct query_spec spec = { .from_ns = T0 + 3000 * S,
					 .to_ns = T0 + 3600 * S,
					 .where = "{tenant=\"t3\"}" };
	struct why_changes c = { 0 };
	struct why_tables blocked = { 0 };
	struct why w;
	begin(store);
	check(why_open(&w, s, &spec, INT64_MIN, &err), "why");
	check(why_changes(&w, WHY_REST, false, &c, &err), "why");
	check(why_blocked(&w, &blocked, &err), "why");
	const size_t there = c.diff && w.side[WHY_THIS].there && w.side[WHY_THIS].waits;
	why_tables_free(&blocked);
	why_changes_free(&c);
	why_close(&w);
	end("why", 0, there, "why of a tenant and ten minutes, with waits");
}
