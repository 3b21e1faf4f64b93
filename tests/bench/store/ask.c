/* SPDX-License-Identifier: Apache-2.0 */
/* What questions to a store cost: CPU time and memory, by range. */
#include "bench_store.h"

#include "export/export.h"
#include "query/diff.h"
#include "query/series.h"

static const struct range {
	const char *name;
	int64_t s;
} ranges[] = { { "10 s", 10 },	    { "1 m", 60 },	 { "10 m", 600 },   { "1 h", 3600 },
	       { "6 h", 21600 },    { "24 h", 86400 },	 { "7 d", 604800 }, { "30 d", 2592000 },
	       { "1 y", 31536000 }, { "5 y", 157680000 } };
#define N_RANGES (sizeof(ranges) / sizeof(ranges[0]))

static int64_t span(const char *name)
{
	for (size_t i = 0; i < N_RANGES; i++)
		if (!strcmp(ranges[i].name, name))
			return ranges[i].s * 1000000000;
	return 0;
}

enum kind {
	FLAME,
	BY_KEY,
	CHART, /* of up to 300 steps */
	DIFF,
};

struct question {
	const char *id; /* of its figures */
	const char *name;
	enum kind kind;
	const char *where, *than; /* selectors; than: DIFF's baseline */
	const char *key;
};

struct timing {
	double ms, peak_mib;
	uint64_t blocks;
	size_t rows;
	bool bounded;
};

static struct query_spec spec_of(const struct question *q, int64_t from, int64_t to)
{
	struct query_spec s = {
		.from_ns = from, .to_ns = to, .where = q->where, .labels = QUERY_NO_LABELS
	};
	if (q->kind == FLAME)
		s.least = EXPORT_FLAME_LEAST;
	if (q->kind == BY_KEY) {
		s.labels = QUERY_KEYS;
		s.keys = &q->key;
		s.n_keys = 1;
	}
	return s;
}

static void note(struct timing *t, struct query *q, size_t rows)
{
	t->blocks += query_info(q)->blocks;
	t->bounded |= query_info(q)->bounded;
	t->rows = rows;
}

/* The least of the steps that the server chooses from that is not less. */
static int64_t nice_step(int64_t ns)
{
	static const int64_t s[] = { 10,   20,	 60,	120,   300,   600,   1200,
				     3600, 7200, 14400, 43200, 86400, 604800 };
	size_t i = 0;
	while (i + 1 < sizeof(s) / sizeof(s[0]) && s[i] * 1000000000 < ns)
		i++;
	return s[i] * 1000000000;
}

static void ask_chart(struct store *s, const struct question *q, int64_t from, int64_t to,
		      struct timing *t)
{
	struct query_series_spec spec = {
		.range = spec_of(q, from, to), .keys = &q->key, .n_keys = 1, .top = 10
	};
	struct query_series *r;
	spec.step_ns = nice_step((to - from) / 300);
	check(query_series(&r, s, &spec, &err), "chart");
	note(t, r->whole, r->n_steps);
	t->bounded |= r->bounded;
	query_series_free(r);
}

static void ask_diff(struct store *s, const struct question *q, int64_t from, int64_t to,
		     struct timing *t)
{
	struct query_spec spec = spec_of(q, from, to);
	struct query_diff_tree *r;
	struct query *a, *b;
	spec.parts = 2;
	check(query_open(&a, s, &spec, &err), "query");
	spec.where = q->than;
	check(query_open(&b, s, &spec, &err), "query");
	check(query_diff_tree(&r, a, b, &err), "diff");
	note(t, a, 0);
	note(t, b, r->n_nodes);
	query_diff_tree_free(r);
	query_close(b);
	query_close(a);
}

static void ask_once(struct store *s, const struct question *q, int64_t from, int64_t to,
		     struct timing *t)
{
	struct query_spec spec = spec_of(q, from, to);
	const struct query_node *nodes;
	struct query_table *table;
	struct query *r;
	size_t n;
	if (q->kind == CHART || q->kind == DIFF) {
		(q->kind == CHART ? ask_chart : ask_diff)(s, q, from, to, t);
		return;
	}
	check(query_open(&r, s, &spec, &err), "query");
	if (q->kind == FLAME) {
		check(query_tree(r, &nodes, &n, &err), "tree");
		note(t, r, n);
	} else {
		check(query_table(r, &q->key, 1, &table, &err), "table");
		note(t, r, table->n_rows);
		query_table_free(table);
	}
	query_close(r);
}

/*
 * CPU time, the best of three, or of a dozen where the store stays open and each question adds to
 * what it knows; the memory of the first. dir: the store is opened anew each time.
 */
static struct timing ask(struct store *s, const char *dir, const struct question *q, int64_t from,
			 int64_t to)
{
	struct timing best = { .ms = 1e12 };
	double began = wall(), peak = 0;
	for (int i = 0; i < (dir ? 3 : 12) && (!i || wall() - began < 10); i++) {
		struct timing t = { 0 };
		double before = i ? 0 : peak_begin(), at = cpu();
		if (dir)
			check(store_open(&s, dir, &err), "open");
		ask_once(s, q, from, to, &t);
		if (dir)
			store_close(s);
		t.ms = 1e3 * (cpu() - at);
		peak = i ? peak : peak_mib(before);
		best = t.ms < best.ms ? t : best;
	}
	best.peak_mib = peak;
	return best;
}

static void print(const struct range *range, const struct question *q, const struct timing *warm,
		  const struct timing *opened)
{
	char id[64];
	printf("  %-5s %-16s %9.2f ms  just opened %9.2f ms, %6.1f MiB  %4" PRIu64
	       " blocks %8zu %s%s\n",
	       range->name, q->name, warm->ms, opened->ms, opened->peak_mib, warm->blocks,
	       warm->rows,
	       q->kind == CHART	   ? "steps"
	       : q->kind == BY_KEY ? "rows"
				   : "nodes",
	       opened->bounded ? ", cut" : "");
	snprintf(id, sizeof(id), "Q/%s@%" PRId64, q->id, range->s);
	figure(id, "ascribe", &warm->ms, 1, 1);
	snprintf(id, sizeof(id), "Q/%s-opened@%" PRId64, q->id, range->s);
	figure(id, "ascribe", &opened->ms, 1, 1);
	fflush(stdout);
}

/* Of what the questions have read. */
static void time_strings(struct store *s)
{
	uint32_t n = store_n_strings(s), *ids = need(calloc(1 << 20, sizeof(*ids)));
	uint64_t raw = 0, sum = 0;
	for (uint32_t i = 1; i < n; i++) {
		size_t len;
		store_string(s, i, &len);
		raw += len;
	}
	for (size_t i = 0; i < 1 << 20; i++)
		ids[i] = n > 1 ? 1 + draw(n - 1) : 0;
	double at = wall();
	for (size_t i = 0; i < 1 << 20; i++) {
		size_t len;
		sum += (uint8_t)*store_string(s, ids[i], &len) + len;
	}
	double ns = 1e9 * (wall() - at) / (1 << 20);
	printf("  names              %u strings of %" PRIu64
	       " bytes; id -> string %.1f ns (sum %" PRIu64 ")\n",
	       n - 1, raw, ns, sum & 1);
	figure("Q/name", "ascribe", &ns, 1, 1);
	free(ids);
}

/*
 * The id of a query that ran near the end, kept by the writer beside the store: only with tenants.
 */
static bool query_id(const char *dir, char *where, size_t cap)
{
	char path[4096], id[64];
	snprintf(path, sizeof(path), "%s.id", dir);
	FILE *f = fopen(path, "re");
	bool there = f && fgets(id, sizeof(id), f);
	if (f)
		fclose(f);
	if (there)
		snprintf(where, cap, "query_id=\"%.*s\"", (int)strcspn(id, "\n"), id);
	return there;
}

/* What the store has, from its first window to its last. */
static void whole_range(struct store *s, int64_t *first, int64_t *last)
{
	struct query_spec all = { .from_ns = INT64_MIN,
				  .to_ns = INT64_MAX,
				  .labels = QUERY_TOTALS };
	struct query *q;
	check(query_open(&q, s, &all, &err), "query");
	*first = query_info(q)->from_ns;
	*last = query_info(q)->to_ns;
	query_close(q);
}

void query_store(const char *dir, const char *only)
{
	char one[128];
	const struct question questions[] = {
		{ "flame", "flame graph", FLAME, .key = NULL },
		{ "container", "by container", BY_KEY, .key = "container" },
		{ "chart", "chart", CHART, .key = "container" },
		{ "id", "one query_id", FLAME, .where = one },
		{ "tenant", "one tenant", FLAME, .where = "tenant=\"tenant-3\"" },
		{ "diff", "two tenants", DIFF, .where = "tenant=\"tenant-3\"",
		  .than = "tenant=\"tenant-5\"" },
		{ "by", "by tenant", BY_KEY, .key = "tenant" },
	};
	size_t n = query_id(dir, one, sizeof(one)) ? 7 : 3;
	int64_t first, last;
	struct store *s;
	check(store_open(&s, dir, &err), "open");
	whole_range(s, &first, &last);
	puts("  range what               warm CPU");
	for (size_t i = 0; i < N_RANGES; i++) {
		const int64_t length = ranges[i].s * 1000000000;
		/* Not on a round time: the worst covers begin and end between slots. */
		int64_t to = last - (last - first > length ? 7 * WINDOW_NS : 0), from = to - length;
		if (from < first)
			break;
		if (only && strcmp(only, ranges[i].name))
			continue;
		for (size_t k = 0; k < n; k++) {
			if (store_is_full(s)) { /* as the server does */
				store_close(s);
				check(store_open(&s, dir, &err), "open");
			}
			struct timing opened = ask(NULL, dir, &questions[k], from, to);
			struct timing warm = ask(s, NULL, &questions[k], from, to);
			print(&ranges[i], &questions[k], &warm, &opened);
		}
	}
	time_strings(s);
	store_close(s);
}

/* ---- cover ---- */

/*
 * The mean and the most of the blocks that random ranges of a length need, for stacks alone and by
 * a narrow key.
 */
static void cover_range(struct store *s, const char *name, int64_t first, int64_t last)
{
	static const char *const container[] = { "container" };
	for (int labels = 0; labels < 2; labels++) {
		uint64_t sum = 0, most = 0, n = 2000;
		double at = cpu();
		for (uint64_t i = 0; i < n; i++) {
			struct store_cover c;
			int64_t from = first +
				       (int64_t)(draw_real() * (double)(last - first - span(name)));
			int64_t to = from + span(name);
			check(store_round(s, &from, &to, &err), "round");
			check(store_cover(s, from, to, labels ? STORE_NARROW_KEYS : STORE_FOLDED,
					  container, labels ? 1 : 0, &c, &err),
			      "cover");
			sum += c.n;
			most = c.n > most ? c.n : most;
			store_cover_free(&c);
		}
		printf("  any %-5s %-13s %5.1f blocks on average, at most %3" PRIu64 " (of %" PRIu64
		       " ranges, %.2f ms each)\n",
		       name, labels ? "by container" : "stacks", (double)sum / (double)n, most, n,
		       1e3 * (cpu() - at) / (double)n);
	}
}

void cover_store(const char *dir)
{
	static const char *const names[] = { "1 h", "24 h", "7 d", "30 d", "1 y" };
	int64_t first, last;
	struct store *s;
	check(store_open(&s, dir, &err), "open");
	whole_range(s, &first, &last);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (last - first > span(names[i]))
			cover_range(s, names[i], first, last);
	store_close(s);
}
