/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/fleet.h"

#include "fleet/filler.h"
#include "fleet/functions.h"
#include "fleet/statement.h"
#include "query/lengths.h"
#include "query/waits.h"
#include "util/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS 1000000000ll
#define ROW_BYTES 320 /* of the memory that a row takes, with its share of stacks */
#define STACKS_AT_A_TIME 16384
#define STACKS_BYTES (64u << 20)
#define SMALL_BYTES (4u << 20)	     /* answers of a few rows */
#define ROWS_BYTES ((size_t)1 << 30) /* offsets in them have 32 bits */
#define WINDOWS_MAX 400u
#define STEPS_MAX 20000u /* of a series */

const char *const fleet_few_keys[FLEET_FEW_KEYS] = { "service",	 "service_name", "namespace",
						     "workload", "comm",	 "host",
						     "node",	 "cluster" };

struct filling {
	const struct fleet_question *q;
	struct ask *ask;
	struct selector *selector, *against;
	struct fleet_events events;
	struct fleet_windows windows;
	struct statement st;
	struct fleet_rows rows;
	struct fleet_result *ret;
	char by[300]; /* of blame */
	uint32_t schema;
};

static int no_answer(struct err *err)
{
	return err_set(err, -EPROTO, "clickhouse: an answer of another form came");
}

uint32_t fleet_step_s(int64_t step_ns)
{
	int64_t s = (step_ns + QUERY_WINDOW_NS - 1) / QUERY_WINDOW_NS * (QUERY_WINDOW_NS / NS);
	return step_ns > 0 && s < UINT32_MAX ? (uint32_t)s : 0;
}

/* ---- events ---- */

static bool copy_text(struct cursor *c, char *to, size_t cap)
{
	size_t len = cursor_varint(c);
	const uint8_t *s = cursor_bytes(c, len);
	if (!s || len >= cap || memchr(s, 0, len))
		return false;
	memcpy(to, s, len);
	to[len] = 0;
	return true;
}

static int ask_events(struct filling *f, struct err *err)
{
	static const char sql[] =
		"SELECT toString(name) AS n, toString(unit), ns_per_sample, period FROM ascribe_events "
		"GROUP BY ALL ORDER BY min(place), n LIMIT 256 FORMAT RowBinary";
	struct buf answer = BUF_INIT;
	int rc = ask_run(f->ask, sql, NULL, 0, SMALL_BYTES, &answer, err);
	struct cursor c = cursor_of(&answer);
	while (!rc && c.p < c.end && f->events.n < FLEET_EVENTS_MAX) {
		struct fleet_event *e = &f->events.v[f->events.n];
		bool good = copy_text(&c, e->name, sizeof(e->name));
		good &= copy_text(&c, e->unit, sizeof(e->unit));
		e->ns_per_sample = cursor_u64(&c);
		e->period = cursor_u64(&c);
		rc = c.bad ? no_answer(err) : 0;
		f->events.n += good;
	}
	buf_fini(&answer);
	return rc;
}

static void choose(struct filling *f, const char *name)
{
	for (size_t i = 0; i < f->st.n_events; i++)
		if (!strcmp(f->st.events[i], name))
			return;
	f->st.events[f->st.n_events++] = name;
}

/* The events of a metric: CPU time, waits. */
static bool is_of_metric(const struct filling *f, const struct fleet_event *e)
{
	const struct fleet_event *cpu = NULL;
	enum query_metric m = f->q->metric;
	for (size_t i = 0; i < f->events.n && !cpu; i++)
		cpu = f->events.v[i].ns_per_sample ? &f->events.v[i] : NULL;
	bool on_cpu = cpu && !strcmp(cpu->name, e->name);
	bool off = !strcmp(e->name, WAIT_EVENT), runq = !strcmp(e->name, "runq");
	if (m == QUERY_WAKER)
		return !strcmp(e->name, WAKER_EVENT) || !strcmp(e->name, WAKER_IDLE_EVENT);
	if (m == QUERY_LATENCY)
		return !strcmp(e->name, LATENCY_EVENT) || !strcmp(e->name, LATENCY_OFF_EVENT);
	if (m == QUERY_BLAME)
		return !strcmp(e->name, "blame");
	/* How long the waits of each key were. */
	if ((m == QUERY_OFF || m == QUERY_RUNQ) && f->q->n_keys)
		off |= !strcmp(e->name, WAIT_EVENT LENGTHS_SUFFIX),
			runq |= !strcmp(e->name, "runq" LENGTHS_SUFFIX);
	return (on_cpu && (m == QUERY_CPU || m == QUERY_WALL)) ||
	       (off && (m == QUERY_OFF || m == QUERY_WALL)) ||
	       (runq && (m == QUERY_RUNQ || m == QUERY_WALL));
}

/* Is it the asked event, or the one with the lengths of its hits? */
static bool is_asked(const struct fleet_question *q, const char *name)
{
	const size_t len = strlen(q->event);
	return !strncmp(q->event, name, len) &&
	       (!name[len] || (q->n_keys && !strcmp(name + len, LENGTHS_SUFFIX)));
}

static int choose_events(struct filling *f, struct err *err)
{
	const struct fleet_question *q = f->q;
	bool named = selector_names_event(f->selector);
	int rc = 0;
	for (size_t i = 0; !rc && i < f->events.n; i++) {
		const struct fleet_event *e = &f->events.v[i];
		bool match = true;
		if (named)
			rc = selector_match_event(f->selector, e->name, &match, err);
		if (q->metric && q->metric != QUERY_VALUE)
			match = is_of_metric(f, e);
		else if (q->event)
			match = is_asked(q, e->name);
		else if (!q->several)
			match &= !f->st.n_events;
		if (!rc && match)
			choose(f, e->name);
	}
	return rc;
}

/* ---- range ---- */

static uint32_t seconds(int64_t ns, uint32_t least, uint32_t most)
{
	int64_t s = ns / NS + (ns % NS > 0);
	return s < least ? least : s > most ? most : (uint32_t)s;
}

static int ask_range(struct filling *f, bool *ret_any, struct err *err)
{
	static const char sql[] =
		"SELECT count(), toUInt32(min(time)), toUInt32(max(time)), "
		"ifNull((SELECT toUInt32(min(time)) FROM ascribe_samples), 0), "
		"ifNull((SELECT toUInt32(min(time)) FROM ascribe_samples_1m), 0), "
		"ifNull((SELECT toUInt32(min(time)) FROM ascribe_samples_1h), 0), "
		"ifNull((SELECT toUInt32(min(time)) FROM ascribe_samples_1d), 0), "
		"ifNull((SELECT max(version) FROM ascribe_schema), 0) "
		"FROM ascribe_windows FORMAT RowBinary";
	struct buf answer = BUF_INIT;
	int rc = ask_run(f->ask, sql, NULL, 0, SMALL_BYTES, &answer, err);
	struct cursor c = cursor_of(&answer);
	*ret_any = !rc && cursor_u64(&c);
	uint32_t first = cursor_u32(&c), last = cursor_u32(&c);
	for (int i = 0; i < FLEET_LEVELS; i++) {
		uint32_t since = cursor_u32(&c);
		f->st.since[i] = since ? since : UINT32_MAX;
	}
	f->schema = cursor_u32(&c);
	bool bad = c.bad || cursor_left(&c);
	buf_fini(&answer);
	if (rc || bad)
		return rc ? rc : no_answer(err);
	struct statement_side *side = f->st.side;
	side[0].from = seconds(f->q->from_ns, first, last + 1);
	side[0].to = seconds(f->q->to_ns, first, last + 1);
	side[1].from = seconds(f->q->against_from_ns, first, last + 1);
	side[1].to = seconds(f->q->against_to_ns, first, last + 1);
	if (f->q->step_s && side[0].from < side[0].to) {
		side[0].from = side[0].from / f->q->step_s * f->q->step_s;
		side[0].to = (side[0].to - 1) / f->q->step_s * f->q->step_s + f->q->step_s;
	}
	return 0;
}

/* As short as there may be so many in the range, and as the tables still tell apart. */
static uint32_t shortest(const struct filling *f, uint32_t unit)
{
	static const uint32_t steps[] = { 10, 60, 300, 1200, 3600, 14400, 86400, 604800 };
	size_t i = 0;
	while (i < sizeof(steps) / sizeof(steps[0]) - 1 &&
	       ((f->st.to - f->st.from) / steps[i] > WINDOWS_MAX || steps[i] < unit))
		i++;
	return steps[i];
}

static void choose_step(struct filling *f)
{
	const uint32_t asked = f->q->step_s, unit = statement_unit(&f->st, f->st.from);
	f->st.slot = shortest(f, 0);
	if (!f->q->steps && !asked)
		return;
	bool fits = asked && (f->st.to - f->st.from) / asked <= STEPS_MAX;
	f->st.step = fits ? (asked + unit - 1) / unit * unit : shortest(f, unit);
	f->st.from = f->st.from / f->st.step * f->st.step;
}

/* ---- windows ---- */

static size_t skip_map(struct cursor *c, const struct buf *text)
{
	size_t at = (size_t)(c->p - text->data);
	for (uint64_t n = cursor_varint(c); n && !c->bad; n--) {
		cursor_bytes(c, cursor_varint(c));
		cursor_u64(c);
	}
	return at;
}

static void at_least(int64_t *io, int64_t least)
{
	*io = *io < least ? least : *io;
}

/*
 * Hosts begin their windows when they like. What one has before its step, before what was asked for
 * or in the window before it is left out: so windows do not overlap, and are in the range.
 */
static void cut_begin(const struct filling *f, struct fleet_window *w)
{
	const struct fleet_question *q = f->q;
	const struct fleet_windows *all = &f->windows;
	const int64_t from[] = { q->from_ns, q->against_from_ns },
		      to[] = { q->to_ns, q->against_to_ns };
	struct statement_part parts[STATEMENT_PARTS_MAX];
	int64_t begin = all->n ? all->v[all->n - 1].t1_ns : INT64_MIN;
	if (f->st.step)
		at_least(&begin, (f->st.from + (int64_t)w->bucket * f->st.step) * NS);
	else if (q->by_start && w->bucket < statement_parts(&f->st, parts))
		for (size_t i = 0; i < f->st.n_sides; i++) {
			if (parts[w->bucket].sides & 1u << i)
				at_least(&begin, from[i]);
			else if (f->st.side[i].to <= parts[w->bucket].from)
				at_least(&begin, to[i]);
		}
	begin = begin < w->t1_ns ? begin : w->t1_ns - 1;
	w->t0_ns = w->t0_ns < begin ? begin : w->t0_ns;
}

static uint32_t last_bucket(const struct filling *f)
{
	struct statement_part parts[STATEMENT_PARTS_MAX];
	return f->st.step ? (f->st.to - f->st.from) / f->st.step
			  : (uint32_t)statement_parts(&f->st, parts);
}

static int ask_windows(struct filling *f, struct err *err)
{
	struct fleet_windows *w = &f->windows;
	struct buf sql = BUF_INIT;
	int rc = statement_write_windows(&f->st, &sql);
	if (rc)
		err_sys(err, rc, "cannot ask ClickHouse");
	rc = rc ? rc : ask_run(f->ask, (const char *)sql.data, NULL, 0, SMALL_BYTES, &w->text, err);
	buf_fini(&sql);
	struct cursor c = cursor_of(&w->text);
	while (!rc && c.p < c.end) {
		struct fleet_window v = { .bucket = cursor_u32(&c) };
		cursor_u32(&c); /* the slot: their order */
		v.t0_ns = (int64_t)cursor_u64(&c);
		v.t1_ns = (int64_t)cursor_u64(&c);
		v.fired = cursor_u64(&c);
		v.stored = cursor_u64(&c);
		v.outside = cursor_u64(&c);
		v.own_cpu_ns = cursor_u64(&c);
		v.own_rss = cursor_u64(&c);
		v.lost_at = skip_map(&c, &w->text);
		v.flagged_at = skip_map(&c, &w->text);
		bool makes_sense =
			!c.bad && v.t0_ns >= 0 && v.t0_ns < v.t1_ns && v.bucket <= last_bucket(f);
		if (!makes_sense)
			return no_answer(err);
		cut_begin(f, &v);
		if (ARRAY_RESERVE(w->v, w->cap, w->n + 1))
			return err_sys(err, -ENOMEM, "cannot ask ClickHouse");
		w->v[w->n++] = v;
	}
	return rc;
}

/* ---- rows ---- */

static int ask_rows(struct filling *f, enum statement_sums sums, struct fleet_rows *ret,
		    struct err *err)
{
	struct buf sql = BUF_INIT;
	int rc = statement_write(&f->st, sums, f->ask, &sql);
	if (rc)
		err_sys(err, rc, "cannot ask ClickHouse");
	rc = rc ? rc
		: ask_run(f->ask, (const char *)sql.data, NULL, 0,
			  f->q->memory < ROWS_BYTES / 2 ? 2 * f->q->memory : ROWS_BYTES, &ret->text,
			  err);
	buf_fini(&sql);
	return rc ? rc : fleet_rows_parse(ret, &f->events, err);
}

/* What is beyond the limit: by label set, and where there are too many of them, by event. */
static int ask_other(struct filling *f, struct err *err)
{
	struct fleet_rows sums = { 0 };
	f->ret->bounded = true;
	f->rows.n--;
	fleet_rows_sort(&f->rows);
	int rc = ask_rows(f, STATEMENT_BY_LABELS, &sums, err);
	if (!rc && sums.n > f->st.limit)
		rc = err_set(
			err, -E2BIG,
			"clickhouse: the question has more than %zu label sets: ask for fewer "
			"keys, a shorter range or a narrower selector, or give it more --memory",
			f->st.limit);
	fleet_rows_sort(&sums);
	if (!rc && fleet_rows_add_other(&f->rows, &sums))
		rc = err_sys(err, -ENOMEM, "cannot ask ClickHouse");
	fleet_rows_fini(&sums);
	return rc;
}

/* ---- keys ---- */

static int ask_keys(struct filling *f, struct err *err)
{
	const bool idle = f->q->idle || selector_names_wait(f->selector);
	struct fleet_result *ret = f->ret;
	struct statement st = f->st;
	struct buf sql = BUF_INIT, answer = BUF_INIT;
	st.all_labels = true;
	st.step = 0;
	int rc = statement_write_keys(&st, idle, f->ask, &sql);
	if (rc)
		err_sys(err, rc, "cannot ask ClickHouse");
	rc = rc ? rc : ask_run(f->ask, (const char *)sql.data, NULL, 0, SMALL_BYTES, &answer, err);
	struct cursor c = cursor_of(&answer);
	while (!rc && c.p < c.end) {
		rc = ARRAY_RESERVE(ret->keys, ret->cap_keys, ret->n_keys + 1);
		if (rc) {
			err_sys(err, rc, "cannot ask ClickHouse");
			break;
		}
		struct found_key *k = &ret->keys[ret->n_keys];
		bool good = copy_text(&c, k->name, sizeof(k->name));
		k->values = cursor_u64(&c);
		k->samples = cursor_u64(&c);
		rc = c.bad ? no_answer(err) : 0;
		ret->n_keys += good;
	}
	buf_fini(&sql);
	buf_fini(&answer);
	return rc;
}

void fleet_result_fini(struct fleet_result *r)
{
	free(r->keys);
	free(r->functions.v);
	free(r->names);
	for (size_t i = 0; i < r->n_texts; i++)
		free(r->texts[i]);
	free(r->texts);
	*r = (struct fleet_result){ 0 };
}

/* ---- stacks ---- */

static int by_hash(const void *pa, const void *pb)
{
	const uint64_t *a = pa, *b = pb;
	return a[1] != b[1] ? (a[1] < b[1] ? -1 : 1) : (a[0] > b[0]) - (a[0] < b[0]);
}

static int list_stacks(const struct fleet_rows *r, uint64_t (**ret)[2], size_t *ret_n)
{
	uint64_t(*v)[2] = calloc(r->n + 1, sizeof(*v));
	size_t n = 0, unique = 0;
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < r->n; i++)
		if (!r->v[i].other && (r->v[i].stack[0] || r->v[i].stack[1])) {
			v[n][0] = r->v[i].stack[0];
			v[n++][1] = r->v[i].stack[1];
		}
	qsort(v, n, sizeof(*v), by_hash);
	for (size_t i = 0; i < n; i++)
		if (!i || by_hash(v[i], v[unique - 1])) {
			memmove(v[unique], v[i], sizeof(*v));
			unique++;
		}
	*ret = v;
	*ret_n = unique;
	return 0;
}

static int ask_stacks(struct filling *f, struct filler *to, struct err *err)
{
	static const char sql[] =
		"SELECT hash, any(kinds), CAST(any(functions), 'Array(String)'), "
		"CAST(any(modules), 'Array(String)'), CAST(any(build_ids), 'Array(String)'), "
		"CAST(any(files), 'Array(String)'), any(lines), any(offsets) FROM ascribe_stacks "
		"WHERE hash GLOBAL IN (SELECT hash FROM asked) GROUP BY hash FORMAT RowBinary";
	uint64_t(*v)[2] = NULL;
	struct buf answer = BUF_INIT;
	size_t n = 0;
	int rc = list_stacks(&f->rows, &v, &n);
	if (rc)
		return err_sys(err, rc, "cannot ask ClickHouse");
	f->ret->stacks = n;
	for (size_t i = 0; !rc && i < n; i += STACKS_AT_A_TIME) {
		size_t some = n - i < STACKS_AT_A_TIME ? n - i : STACKS_AT_A_TIME;
		rc = ask_run(f->ask, sql, v[i], some, STACKS_BYTES, &answer, err);
		rc = rc ? rc : filler_add_stacks(to, &answer, err);
	}
	buf_fini(&answer);
	free(v);
	return rc;
}

/* ---- all of it ---- */

static void keep(struct filling *f, const char *key)
{
	for (size_t i = 0; i < f->st.n_keep; i++)
		if (!strcmp(f->st.keep[i], key))
			return;
	if (f->st.n_keep < 2 * FLEET_KEYS_MAX)
		f->st.keep[f->st.n_keep++] = key;
}

static void choose_labels(struct filling *f)
{
	const struct fleet_question *q = f->q;
	const char *used[SELECTOR_KEYS_MAX];
	struct selector *const selectors[] = { f->selector, f->against };
	for (size_t i = 0; i < q->n_keys && i < FLEET_KEYS_MAX; i++)
		if (!query_is_wait_key(q->keys[i]) && strcmp(q->keys[i], "event"))
			keep(f, q->keys[i]);
	if (q->blame && snprintf(f->by, sizeof(f->by), "by.%s", q->keys[0]) < (int)sizeof(f->by))
		keep(f, f->by);
	if (q->blame || q->several)
		keep(f, "by.comm");
	for (size_t k = 0; k < 2; k++) {
		size_t n = selector_keys(selectors[k], used, SELECTOR_KEYS_MAX);
		for (size_t i = 0; i < n && i < SELECTOR_KEYS_MAX; i++)
			keep(f, used[i]);
		f->st.side[k].selector = selectors[k];
	}
	f->st.n_sides = q->compares ? 2 : 1;
	if (q->rest) /* the other one admits everything */
		f->st.side[0].selector = f->against;
	f->st.all_labels = q->all_labels;
	f->st.stacks = !q->no_stacks;
	for (size_t i = 0; i < q->n_keys; i++)
		f->st.stacks |= query_is_wait_key(q->keys[i]);
	f->st.stacks |= selector_names_wait(f->selector) || selector_names_wait(f->against);
	f->st.limit = q->memory / ROW_BYTES;
}

static int ask_all(struct filling *f, struct err *err)
{
	bool any;
	int rc = ask_events(f, err);
	rc = rc ? rc : choose_events(f, err);
	rc = rc ? rc : ask_range(f, &any, err);
	if (rc || !any)
		return rc;
	statement_round(&f->st);
	if (f->st.from >= f->st.to)
		return rc;
	choose_step(f);
	rc = ask_windows(f, err);
	if (rc || !f->st.n_events)
		return rc;
	if (f->q->recent_s && f->st.to - f->st.from > f->q->recent_s)
		f->st.from = f->st.side[0].from = f->st.to - f->q->recent_s;
	rc = f->q->list_keys ? ask_keys(f, err) : 0;
	if (!rc && f->schema >= FUNCTIONS_SCHEMA &&
	    functions_serve(f->q, f->selector, &f->events, &f->st)) {
		rc = functions_ask(f->ask, f->q, &f->st, f->ret, err);
		f->st.stacks &= !f->ret->by_function;
	}
	rc = rc ? rc : ask_rows(f, STATEMENT_ROWS, &f->rows, err);
	if (!rc && f->rows.n > f->st.limit)
		rc = ask_other(f, err);
	return rc;
}

int fleet_fill(const char *dir, const struct fleet_server *server,
	       const struct fleet_question *question, struct fleet_result *ret, struct err *err)
{
	struct filling *f = calloc(1, sizeof(*f));
	struct filler *to = NULL;
	if (!f)
		return err_sys(err, -ENOMEM, "cannot ask ClickHouse");
	*ret = (struct fleet_result){ .server = server };
	f->q = question;
	f->ret = ret;
	int rc = selector_parse(&f->selector, question->where, NULL, err);
	rc = rc ? rc
		: selector_parse(&f->against, question->compares ? question->against : NULL, NULL,
				 err);
	rc = rc ? rc : ask_new(&f->ask, server, err);
	if (!rc) {
		choose_labels(f);
		rc = ask_all(f, err);
	}
	rc = rc ? rc : filler_new(&to, dir, "fleet", &f->windows, &f->events, err);
	rc = rc ? rc : ask_stacks(f, to, err);
	if (!rc) {
		fleet_rows_sort(&f->rows);
		rc = filler_write(to, &f->rows, err);
	}
	ret->rows = f->rows.n;
	filler_free(to);
	fleet_rows_fini(&f->rows);
	buf_fini(&f->windows.text);
	free(f->windows.v);
	ask_free(f->ask);
	selector_free(f->selector);
	selector_free(f->against);
	free(f);
	return rc;
}
