/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/statement.h"

#include <string.h>

#define DAY_S 86400u
#define PIECES_MAX (2 * FLEET_LEVELS) /* of a part */

const uint32_t fleet_level_s[FLEET_LEVELS] = { 1, 60, 3600, DAY_S };

static const char *const tables[] = { "ascribe_samples", "ascribe_samples_1m", "ascribe_samples_1h",
				      "ascribe_samples_1d" };

/* Of a part of the range: what one table answers. */
struct piece {
	enum fleet_level level;
	uint32_t from, to;
	unsigned sides;
	size_t bucket; /* without a step */
};

/* What is being written. */
struct text {
	const struct statement *s;
	enum statement_sums sums;
	struct ask *ask;
	struct buf *to;
	bool no_idle;
	int rc;
};

static void add(struct text *t, const char *text)
{
	t->rc = t->rc ? t->rc : buf_add(t->to, text, strlen(text));
}

#define ADD(t, ...) ((t)->rc = (t)->rc ? (t)->rc : buf_printf((t)->to, __VA_ARGS__))

static void add_bound(struct text *t, const char *bytes, size_t len)
{
	unsigned n = 0;
	t->rc = t->rc ? t->rc : ask_bind(t->ask, bytes, len, &n);
	ADD(t, "{p%u:String}", n);
}

/* ---- which tables ---- */

/* The labels that roll-ups keep in any case (user/push/clickhouse.c). */
static bool is_of_series(const char *key)
{
	static const char *const keys[] = { "service", "service_name", "namespace", "workload",
					    "comm",    "event",	       "wait" };
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

static bool series_suffice(const struct statement *s)
{
	struct selector_matcher m;
	bool all = !s->all_labels;
	for (size_t i = 0; i < s->n_keep; i++)
		all &= is_of_series(s->keep[i]);
	for (size_t k = 0; k < s->n_sides; k++)
		for (size_t i = 0; selector_matcher(s->side[k].selector, i, &m); i++)
			all &= is_of_series(m.key);
	return all;
}

/* Whether a level can serve whole units of the range. */
static bool serves(const struct statement *s, enum fleet_level level, bool series)
{
	uint32_t unit = fleet_level_s[level];
	if (level > FLEET_MINUTE && !series)
		return false;
	return !s->step || (s->step % unit == 0 && s->from % unit == 0);
}

static size_t cut(const struct statement *s, enum fleet_level level, uint32_t from, uint32_t to,
		  bool series, struct piece *ret)
{
	uint32_t unit = fleet_level_s[level];
	uint64_t first = ((uint64_t)from + unit - 1) / unit * unit, last = to / unit * unit;
	size_t n = 0;
	if (from >= to)
		return 0;
	if (level == FLEET_RAW) {
		ret[0] = (struct piece){ .level = level, .from = from, .to = to };
		return 1;
	}
	if (!serves(s, level, series) || first >= last)
		return cut(s, level - 1, from, to, series, ret);
	n += cut(s, level - 1, from, (uint32_t)first, series, ret + n);
	ret[n++] = (struct piece){ .level = level, .from = (uint32_t)first, .to = (uint32_t)last };
	return n + cut(s, level - 1, (uint32_t)last, to, series, ret + n);
}

uint32_t statement_unit(const struct statement *s, uint32_t at)
{
	enum fleet_level level = FLEET_RAW, most = series_suffice(s) ? FLEET_DAY : FLEET_MINUTE;
	while (level < most && s->since[level] > at)
		level++;
	/* older than all: nothing is lost */
	return s->since[level] > at ? fleet_level_s[FLEET_RAW] : fleet_level_s[level];
}

static uint32_t round_end(const struct statement *s, uint32_t at)
{
	uint64_t unit = statement_unit(s, at);
	return (uint32_t)(((uint64_t)at + unit / 2) / unit * unit);
}

void statement_round(struct statement *s)
{
	s->from = UINT32_MAX;
	s->to = 0;
	for (size_t i = 0; i < s->n_sides; i++) {
		struct statement_side *side = &s->side[i];
		uint32_t from = round_end(s, side->from), to = round_end(s, side->to);
		if (from < to) {
			side->from = from;
			side->to = to;
		}
		s->from = side->from < s->from ? side->from : s->from;
		s->to = side->to > s->to ? side->to : s->to;
	}
}

/* ---- parts ---- */

static unsigned sides_of(const struct statement *s, uint32_t from, uint32_t to)
{
	unsigned sides = 0;
	for (size_t i = 0; i < s->n_sides; i++)
		if (s->side[i].from <= from && s->side[i].to >= to)
			sides |= 1u << i;
	return sides;
}

/* The first end of a side behind `at`; UINT32_MAX: there is none. */
static uint32_t next_end(const struct statement *s, uint32_t at)
{
	uint32_t next = UINT32_MAX;
	for (size_t i = 0; i < s->n_sides; i++) {
		if (s->side[i].from > at && s->side[i].from < next)
			next = s->side[i].from;
		if (s->side[i].to > at && s->side[i].to < next)
			next = s->side[i].to;
	}
	return next;
}

size_t statement_parts(const struct statement *s, struct statement_part ret[STATEMENT_PARTS_MAX])
{
	size_t n = 0;
	if (s->step) {
		ret[0] = (struct statement_part){ s->from, s->to, (1u << s->n_sides) - 1 };
		return 1;
	}
	for (uint32_t at = s->from, next; n < STATEMENT_PARTS_MAX; at = next) {
		next = next_end(s, at);
		if (next == UINT32_MAX)
			break;
		unsigned sides = sides_of(s, at, next);
		if (sides)
			ret[n++] = (struct statement_part){ at, next, sides };
	}
	return n;
}

/* ---- conditions ---- */

static void add_pattern(struct text *t, const struct selector_matcher *m)
{
	struct buf b = BUF_INIT;
	int rc = buf_printf(&b, "^(?s:");
	rc = rc ? rc : buf_add(&b, m->value, m->value_len);
	rc = rc ? rc : buf_printf(&b, ")$");
	t->rc = t->rc ? t->rc : rc;
	add_bound(t, (const char *)b.data, b.len);
	buf_fini(&b);
}

/* A matcher of what `column` says; NULL: of a label. */
static void add_matcher(struct text *t, const struct selector_matcher *m, const char *column)
{
	add(t, m->regex ? m->negated ? " AND NOT match(" : " AND match(" : " AND ");
	if (column) {
		add(t, column);
	} else {
		add(t, "labels[");
		add_bound(t, m->key, strlen(m->key));
		add(t, "]");
	}
	add(t, m->regex ? ", " : m->negated ? " != " : " = ");
	if (m->regex)
		add_pattern(t, m);
	else
		add_bound(t, m->value, m->value_len);
	add(t, m->regex ? ")" : "");
}

static bool is_column(const char *key)
{
	return !strcmp(key, "host") || !strcmp(key, "wait") || !strcmp(key, "event");
}

static bool matches_labels(const struct selector *s)
{
	struct selector_matcher m;
	for (size_t i = 0; selector_matcher(s, i, &m); i++)
		if (!is_column(m.key))
			return true;
	return false;
}

static void add_days(struct text *t)
{
	ADD(t, "day >= toDate(%u) AND day <= toDate(%u)", t->s->from / DAY_S, t->s->to / DAY_S);
}

/* Label sets or series that the selector admits. */
static void add_sets(struct text *t, const struct selector *s, const char *column, bool series)
{
	struct selector_matcher m;
	ADD(t, " AND %s GLOBAL IN (SELECT %s FROM %s WHERE ", column,
	    strcmp(column, "set") ? column : "hash", series ? "ascribe_series" : "ascribe_sets");
	if (series)
		add(t, "1");
	else
		add_days(t);
	for (size_t i = 0; selector_matcher(s, i, &m); i++)
		if (!is_column(m.key))
			add_matcher(t, &m, NULL);
	add(t, ")");
}

static void add_selector(struct text *t, const struct selector *s, const struct piece *p)
{
	struct selector_matcher m;
	add(t, "(1");
	for (size_t i = 0; selector_matcher(s, i, &m); i++)
		if (is_column(m.key) && strcmp(m.key, "event"))
			add_matcher(t, &m, m.key);
	if (matches_labels(s)) {
		add_sets(t, s, "series", p->level > FLEET_MINUTE);
		if (p->level <= FLEET_MINUTE)
			add_sets(t, s, "set", false);
	}
	add(t, ")");
}

static void add_conditions(struct text *t, const struct piece *p)
{
	const struct statement *s = t->s;
	add(t, " WHERE event IN (");
	for (size_t i = 0; i < s->n_events; i++) {
		add(t, i ? ", " : "");
		add_bound(t, s->events[i], strlen(s->events[i]));
	}
	ADD(t, ") AND time >= toDateTime(%u) AND time < toDateTime(%u)", p->from, p->to);
	add(t, t->no_idle ? " AND wait != 'idle'" : "");
	add(t, " AND (0");
	for (size_t i = 0; i < s->n_sides; i++) {
		if (!(p->sides & 1u << i))
			continue;
		add(t, " OR ");
		add_selector(t, s->side[i].selector, p);
	}
	add(t, ")");
}

/* ---- sums ---- */

static bool keeps_labels(const struct text *t)
{
	return t->s->all_labels || t->s->n_keep;
}

static bool keeps_host(const struct text *t)
{
	bool host = t->s->all_labels;
	for (size_t i = 0; i < t->s->n_keep; i++)
		host |= !strcmp(t->s->keep[i], "host");
	return host && keeps_labels(t);
}

/* Sums of one table by the hashes of label sets and stacks. */
static void add_piece(struct text *t, const struct piece *p)
{
	bool series = p->level > FLEET_MINUTE;
	if (t->s->step)
		ADD(t, "SELECT intDiv(toUInt32(time) - %u, %u) AS bucket", t->s->from, t->s->step);
	else
		ADD(t, "SELECT %zu AS bucket", p->bucket);
	add(t, ", event, ns_per_sample");
	add(t, !keeps_labels(t) ? "" : series ? ", series AS g" : ", set AS g");
	add(t, keeps_host(t) ? ", toString(host) AS host" : "");
	add(t, t->sums != STATEMENT_ROWS ? ""
	       : t->s->stacks		 ? ", wait = 'idle' AS idle, stack"
			      : ", wait = 'idle' AS idle, if(idle OR endsWith(event, '.lengths'), "
				"stack, 0) AS stack");
	ADD(t, ", sum(samples) AS n, sum(value) AS v FROM %s", tables[p->level]);
	add_conditions(t, p);
	add(t, " GROUP BY ALL");
}

/* One of the labels that rows keep. */
static void add_is_kept(struct text *t)
{
	add(t, "k IN (''"); /* no label has an empty key */
	for (size_t i = 0; i < t->s->n_keep; i++) {
		add(t, ", ");
		add_bound(t, t->s->keep[i], strlen(t->s->keep[i]));
	}
	add(t, ")");
}

static void add_labels(struct text *t)
{
	if (!keeps_labels(t)) {
		add(t, ", CAST(map(), 'Map(String, String)') AS labels, "
		       "CAST([], 'Array(String)') AS integers");
		return;
	}
	add(t, keeps_host(t) ? ", mapUpdate(" : ", (");
	if (t->s->all_labels) {
		add(t, "d.labels");
	} else {
		add(t, "mapFilter((k, w) -> ");
		add_is_kept(t);
		add(t, ", d.labels)");
	}
	add(t, keeps_host(t) ? ", map('host', host)) AS labels, " : ") AS labels, ");
	if (t->s->all_labels) {
		add(t, "d.integers AS integers");
	} else {
		add(t, "arrayFilter(k -> ");
		add_is_kept(t);
		add(t, ", d.integers) AS integers");
	}
}

/* Label sets or series with their labels. */
static void add_dictionary(struct text *t, bool series)
{
	ADD(t,
	    "(SELECT %s AS g, CAST(any(labels), 'Map(String, String)') AS labels, "
	    "CAST(any(integers), 'Array(String)') AS integers FROM %s",
	    series ? "series" : "hash", series ? "ascribe_series" : "ascribe_sets");
	if (!series) {
		add(t, " WHERE ");
		add_days(t);
	}
	add(t, " GROUP BY g) AS d");
}

/* All pieces of tables that name labels alike; false: there are none. */
static bool add_branch(struct text *t, const struct piece *v, size_t n, bool series, bool second)
{
	bool some = false;
	for (size_t i = 0; i < n; i++) {
		if ((v[i].level > FLEET_MINUTE) != series)
			continue;
		if (!some) {
			add(t, second ? " UNION ALL " : "");
			add(t, "SELECT bucket, event, ns_per_sample AS ns");
			add_labels(t);
			add(t, t->sums == STATEMENT_ROWS
				       ? ", idle, stack, n, v FROM ("
				       : ", 0 AS idle, toUInt128(0) AS stack, n, v FROM (");
		}
		add(t, some ? " UNION ALL " : "");
		add_piece(t, &v[i]);
		some = true;
	}
	if (some) {
		add(t, ") AS s");
		if (keeps_labels(t)) {
			add(t, " GLOBAL ANY LEFT JOIN ");
			add_dictionary(t, series);
			add(t, " ON s.g = d.g");
		}
	}
	return some;
}

/* The rows of all tables, by their labels. */
static void add_rows(struct text *t)
{
	struct statement_part parts[STATEMENT_PARTS_MAX];
	struct piece pieces[PIECES_MAX * STATEMENT_PARTS_MAX];
	const size_t n_parts = statement_parts(t->s, parts);
	size_t n = 0;
	for (size_t i = 0; i < n_parts; i++) {
		size_t from = n;
		n += cut(t->s, FLEET_DAY, parts[i].from, parts[i].to, series_suffice(t->s),
			 pieces + n);
		for (; from < n; from++) {
			pieces[from].sides = parts[i].sides;
			pieces[from].bucket = i;
		}
	}
	bool first = add_branch(t, pieces, n, false, false);
	add_branch(t, pieces, n, true, first);
}

int statement_write(const struct statement *s, enum statement_sums sums, struct ask *a,
		    struct buf *to)
{
	struct text t = { .s = s, .sums = sums, .ask = a, .to = to };
	add(&t, "SELECT toUInt32(bucket), toString(event), ns, labels, integers, "
		"toUInt128(any(stack)), toUInt64(sum(n)), toUInt64(sum(v)) AS total FROM (");
	add_rows(&t);
	/* All idle waits are one row: their stacks are not told apart. */
	add(&t, ") GROUP BY bucket, event, ns, labels, integers, idle, if(idle, 0, stack) "
		"HAVING sum(n) > 0 ORDER BY total DESC, toString(event), any(stack)");
	ADD(&t, " LIMIT %zu FORMAT RowBinary", s->limit + 1);
	t.rc = t.rc ? t.rc : buf_add_u8(to, 0);
	return t.rc;
}

/* An event that was recorded at several rates is counted in its longest samples. */
int statement_write_keys(const struct statement *s, bool idle, struct ask *a, struct buf *to)
{
	struct text t = {
		.s = s, .sums = STATEMENT_BY_LABELS, .ask = a, .to = to, .no_idle = !idle
	};
	add(&t, "SELECT k, uniqExact(w), toUInt64(if(min(ns) = max(ns), sum(n), "
		"intDiv(sum(n * ns) + intDiv(max(ns), 2), max(ns)))) FROM (");
	add_rows(&t);
	add(&t, ") ARRAY JOIN mapKeys(labels) AS k, mapValues(labels) AS w WHERE n > 0 "
		"GROUP BY k ORDER BY k LIMIT 4096 FORMAT RowBinary");
	t.rc = t.rc ? t.rc : buf_add_u8(to, 0);
	return t.rc;
}

/*
 * The functions of stacks (deploy/clickhouse, `called`) are summed once in a stack. Names come
 * last, for those that are left; ties go by name, as in a store.
 */
int statement_write_functions(const struct statement *s, const struct statement_functions *f,
			      struct ask *a, struct buf *to)
{
	struct text t = { .s = s, .sums = STATEMENT_ROWS, .ask = a, .to = to, .no_idle = true };
	const char *order = f->by_total ? "total DESC, self DESC" : "self DESC, total DESC";
	add(&t, "SELECT name, toString(module), toUInt8(inlined), self, total, n_all, missing "
		"FROM (SELECT id, name, module FROM ascribe_functions) AS k ANY RIGHT JOIN ("
		"SELECT bitAnd(x, 18446744073709551614) AS id, min(x % 2) AS inlined, "
		"sumIf(amount, i = 1) AS self, sum(amount) AS total, count() OVER () AS n_all, "
		"max(if(id = 0, total, 0)) OVER () AS missing FROM (SELECT amount, called FROM "
		"(SELECT hash, called FROM ascribe_stacks) AS f ANY RIGHT JOIN (SELECT stack, ");
	add(&t, f->time ? "sum(if(event IN ('off-cpu', 'runq'), v, n * ns))" : "sum(n)");
	add(&t, " AS amount FROM (");
	add_rows(&t);
	add(&t, ") WHERE stack != 0 GROUP BY stack) AS s ON f.hash = s.stack) "
		"LEFT ARRAY JOIN called AS x, arrayEnumerate(called) AS i GROUP BY id ORDER BY ");
	ADD(&t, "%s LIMIT %zu WITH TIES", order, f->limit);
	add(&t, ") AS t ON k.id = t.id ORDER BY ");
	ADD(&t, "%s, name, module LIMIT %zu FORMAT RowBinary", order, f->limit);
	t.rc = t.rc ? t.rc : buf_add_u8(to, 0);
	return t.rc;
}

/*
 * From the inside out: samples of hosts and functions before (b) and now (a); those of hosts that
 * have the build; functions over all these hosts. 1.645: one of 20 that did not change.
 */
int statement_write_grown(const struct statement *s, const char *file, const char *build,
			  struct ask *a, struct buf *to)
{
	struct text t = { .s = s, .sums = STATEMENT_ROWS, .ask = a, .to = to, .no_idle = true };
	add(&t, "SELECT name, countIf(a > b + 1.645 * sqrt(a + b)) AS n_grew, any(n_hosts), "
		"sum(a_ns) AS now, sum(b_ns) AS before FROM (SELECT *, uniqExact(host) OVER () AS "
		"n_hosts FROM (SELECT *, sum(fresh) OVER (PARTITION BY host) AS has_new FROM ("
		"SELECT labels['host'] AS host, name, sumIf(n, bucket = 1) AS a, "
		"sumIf(n, bucket = 0) AS b, sumIf(n * ns, bucket = 1) AS a_ns, "
		"sumIf(n * ns, bucket = 0) AS b_ns, sumIf(n, bucket = 1 AND new) AS fresh FROM (");
	add_rows(&t);
	add(&t, ") AS r ANY LEFT JOIN (SELECT hash, toString(functions[indexOf(modules, ");
	add_bound(&t, file, strlen(file));
	add(&t, ") AS at]) AS name, build_ids[at] = ");
	add_bound(&t, build, strlen(build));
	add(&t, " AS new FROM ascribe_stacks WHERE has(modules, ");
	add_bound(&t, file, strlen(file));
	add(&t,
	    ")) AS k ON r.stack = k.hash WHERE name != '' GROUP BY host, name)) WHERE has_new > 0) "
	    "GROUP BY name HAVING n_grew > 0 "
	    "ORDER BY n_grew DESC, toInt64(now) - toInt64(before) DESC, name LIMIT 1 "
	    "FORMAT RowBinary");
	t.rc = t.rc ? t.rc : buf_add_u8(to, 0);
	return t.rc;
}

int statement_write_windows(const struct statement *s, struct buf *to)
{
	struct text t = { .s = s, .to = to };
	struct statement_part parts[STATEMENT_PARTS_MAX];
	const size_t n = statement_parts(s, parts);
	add(&t, "SELECT toUInt32(");
	if (s->step)
		ADD(&t, "intDiv(toUInt32(time) - %u, %u)", s->from, s->step);
	add(&t, s->step ? "" : "0");
	for (size_t i = 1; i < n; i++)
		ADD(&t, " + (toUInt32(time) >= %u)", parts[i].from);
	add(&t, ") AS bucket, ");
	if (s->step)
		add(&t, "toUInt32(0) AS slot");
	else
		ADD(&t, "toUInt32(intDiv(toUInt32(time) - %u, %u)) AS slot", s->from, s->slot);
	add(&t, ", min(start), max(end), sum(fired), sum(stored), sum(outside), "
		"sum(own_cpu_ns), max(own_rss), CAST(sumMap(lost), 'Map(String, UInt64)'), "
		"CAST(sumMap(flagged), 'Map(String, UInt64)') FROM ascribe_windows WHERE 0");
	for (size_t i = 0; i < n; i++)
		ADD(&t, " OR (time >= toDateTime(%u) AND time < toDateTime(%u))", parts[i].from,
		    parts[i].to);
	add(&t, " GROUP BY bucket, slot ORDER BY bucket, slot FORMAT RowBinary");
	t.rc = t.rc ? t.rc : buf_add_u8(to, 0);
	return t.rc;
}
