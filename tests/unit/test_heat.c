/* SPDX-License-Identifier: Apache-2.0 */
/* Heat maps of random samples and waits, beside sums over all of them for each cell. */
#include "unit/store_model.h"

#include "query/heat.h"
#include "store/instants.h"

#define T0 1700000000000000000ll
#define WINDOW 10000000000ll
#define MS 1000000ll
#define WINDOWS 3
#define ROWS 60
#define DRAWN_MAX 4000

enum { CPU, OFF, RUNQ, N_EVENTS };
static const struct store_event events[N_EVENTS] = {
	{ "cpu-clock", "nanoseconds", 10101010, 10101010 },
	{ "off-cpu", "nanoseconds", 0, 0 },
	{ "runq", "nanoseconds", 0, 0 },
};

/* What was put in: a sample, or a wait from begin to end. */
struct drawn {
	int64_t begin, end;
	size_t window;
	uint32_t event, cpu;
	char labels[60];
	bool idle;
};

struct given {
	struct drawn drawn[DRAWN_MAX];
	size_t n;
	char dir[64];
	struct store_writer *w;
	struct store *s;
	/* of the window at hand */
	struct store_row rows[ROWS];
	struct store_instant instants[DRAWN_MAX];
	size_t n_instants;
};

static void give_row(struct given *g, uint32_t k, uint32_t event, const char *labels, bool idle)
{
	struct store_row *r = &g->rows[k];
	char stack[60];
	uint32_t id;
	for (uint32_t e = 0; e < N_EVENTS; e++) {
		assert_int_equal(store_add_event(g->w, &events[e], &id), 0);
		assert_int_equal(id, e);
	}
	snprintf(stack, sizeof(stack), idle ? "[idle] () 2 0\n" : "f%u (/bin/demo) 1 0\n", k);
	*r = (struct store_row){ .event = event };
	assert_int_equal(model_put_set(g->w, labels, &r->set), 0);
	assert_int_equal(model_put_stack(g->w, stack, &r->stack), 0);
}

/* The track ends a blocked wait behind the wait for a CPU that followed it: `behind` later. */
static void give_instant(struct given *g, uint32_t k, const struct drawn *d, int64_t behind)
{
	const int64_t us = (d->end - d->begin) / 1000;
	g->rows[k].samples++;
	g->rows[k].value += (uint64_t)(us ? us * 1000 : (int64_t)events[d->event].period);
	g->instants[g->n_instants++] =
		(struct store_instant){ d->end + behind, k, d->cpu, (uint32_t)us };
	g->drawn[g->n++] = *d;
}

static void commit(struct given *g, size_t i, uint32_t n_rows)
{
	struct store_instants given = { g->rows, n_rows, g->instants, g->n_instants, 0 };
	struct err err = { 0 };
	for (uint32_t k = 0; k < n_rows; k++) {
		const struct store_row *r = &g->rows[k];
		if (r->samples)
			assert_int_equal(store_add_row(g->w, r->set, r->stack, r->event, r->samples,
						       r->value),
					 0);
	}
	if (n_rows)
		store_set_instants(g->w, &given);
	assert_int_equal(model_commit_at(g->w, i, &err), 0);
	g->n_instants = 0;
}

static void draw_window(struct given *g, struct model *m, size_t i)
{
	struct drawn kind[ROWS] = { 0 };
	for (uint32_t k = 0; k < ROWS; k++) {
		struct drawn *d = &kind[k];
		*d = (struct drawn){ .window = i,
				     .event = k % N_EVENTS,
				     .idle = !model_random(m, 8) };
		if (d->event == RUNQ) { /* of the thread that was blocked before */
			d->idle = d[-1].idle;
			strcpy(d->labels, d[-1].labels);
		} else if (model_random(m, 7))
			snprintf(d->labels, sizeof(d->labels), "query_id=%u\ntenant=t%u\n",
				 model_random(m, 3), model_random(m, 1 + k % 6));
		give_row(g, k, d->event, d->labels, d->idle);
	}
	for (uint32_t n = 0; n < 600; n++) {
		uint32_t k = model_random(m, ROWS);
		struct drawn d = kind[k];
		int64_t ran = T0 + (int64_t)i * WINDOW + 1000ll * (1 + model_random(m, 9999999)),
			waited = 1000ll * (1 + model_random(m, 900000)), behind = 0;
		d.cpu = model_random(m, 6);
		if (d.event == OFF && model_random(m, 2)) {
			struct drawn next = kind[k + 1];
			behind = 1000ll * (1 + model_random(m, 20000));
			next.cpu = d.cpu;
			next.end = ran;
			next.begin = ran - behind;
			give_instant(g, k + 1, &next, 0);
		}
		d.end = ran - behind;
		d.begin = d.event == CPU ? d.end : d.end - waited;
		give_instant(g, k, &d, behind);
	}
	commit(g, i, ROWS);
}

static struct given *given_new(void)
{
	struct given *g = calloc(1, sizeof(*g));
	struct store_options o = model_options;
	struct err err = { 0 };
	o.tracks_ns = INT64_MAX;
	assert_int_equal(store_writer_open_with(&g->w, temp_dir(g->dir), &model_meta, &o, &err), 0);
	return g;
}

static void given_open(struct given *g)
{
	assert_int_equal(store_writer_state(g->w)->tracks_failed, 0);
	store_writer_close(g->w);
	g->s = open_store(g->dir);
}

static void given_free(struct given *g)
{
	store_close(g->s);
	remove_tree(g->dir);
	free(g);
}

static int setup(void **state)
{
	struct model m = { .random = 7 };
	struct given *g = given_new();
	for (size_t i = 0; i < WINDOWS; i++)
		draw_window(g, &m, i);
	commit(g, WINDOWS, 0); /* has no track */
	given_open(g);
	*state = g;
	return 0;
}

static int teardown(void **state)
{
	given_free(*state);
	return 0;
}

/* ---- the oracle ---- */

/* The value of a key, "" without it. */
static void value_of(const char *labels, const char *key, char *out)
{
	char line[32];
	snprintf(line, sizeof(line), "%s=", key);
	const char *p = strstr(labels, line);
	sprintf(out, "%.*s", p ? (int)strcspn(p + strlen(line), "\n") : 0,
		p ? p + strlen(line) : "");
}

/* Is it in the range that was asked for? */
static bool asked_for(const struct drawn *d, const struct query_heat_spec *spec, uint32_t event)
{
	const struct query_spec *q = &spec->range;
	const int64_t t0 = T0 + (int64_t)d->window * WINDOW;
	if (d->event != event || (d->idle && !q->idle) || t0 >= q->to_ns ||
	    t0 + WINDOW <= q->from_ns)
		return false;
	if (q->where && !strstr(d->labels, "tenant=t1\n"))
		return false;
	return event == CPU ? d->end >= q->from_ns && d->end < q->to_ns
			    : d->end > q->from_ns && d->begin < q->to_ns;
}

/* Of a sample 1, of a wait the microseconds that are in the step from `at` on. */
static uint64_t part_in(const struct drawn *d, int64_t at, int64_t step)
{
	int64_t from = d->begin > at ? d->begin : at, to = d->end < at + step ? d->end : at + step;
	if (d->event == CPU)
		return d->end >= at && d->end < at + step;
	return to > from ? (uint64_t)(to - from) / 1000 : 0;
}

/* Is it of the row? A row of no text is of all that have no other one. */
static bool is_of_row(const struct drawn *d, const struct query_heat *h, size_t row, const char *by)
{
	char text[60];
	if (!by || !*by)
		return true;
	if (!strcmp(by, "cpu"))
		return (d->cpu < h->n_rows ? d->cpu : h->n_rows - 1) == row;
	value_of(d->labels, by, text);
	for (size_t i = 0; i < h->n_rows; i++)
		if (h->rows[i].text && !strcmp(h->rows[i].text, text))
			return i == row;
	return !h->rows[row].text;
}

static void check_rows(const struct given *g, const struct query_heat_spec *spec, uint32_t event,
		       const struct query_heat *h)
{
	uint64_t all = 0, most = 0;
	for (size_t r = 0; r < h->n_rows; r++) {
		uint64_t *want = calloc(h->n_steps + 1, sizeof(*want)), total = 0;
		for (size_t k = 0; k < g->n; k++) {
			const struct drawn *d = &g->drawn[k];
			if (!asked_for(d, spec, event) || !is_of_row(d, h, r, spec->by))
				continue;
			int64_t first = (d->begin - h->from_ns) / h->step_ns - 1;
			for (size_t i = first > 0 ? (size_t)first : 0; i < h->n_steps; i++) {
				int64_t at = h->from_ns + (int64_t)i * h->step_ns;
				if (at > d->end)
					break;
				want[i] += part_in(d, at, h->step_ns);
			}
		}
		for (size_t i = 0; i < h->n_steps; i++) {
			assert_int_equal(h->rows[r].cells[i], want[i]);
			total += want[i];
			most = want[i] > most ? want[i] : most;
		}
		assert_int_equal(h->rows[r].total, total);
		all += total;
		free(want);
	}
	assert_int_equal(h->total, all);
	assert_int_equal(h->most, most);
}

/* Values with more come first, and none that has no row has more than one that has. */
static void check_order(const struct query_heat *h, size_t top)
{
	size_t named = 0;
	for (size_t i = 0; i < h->n_rows; i++) {
		named += h->rows[i].text != NULL;
		assert_true(h->rows[i].text || i == h->n_rows - 1);
		assert_true(i < 2 || !h->rows[i].text || h->rows[i - 1].total >= h->rows[i].total);
	}
	assert_true(named <= top);
	assert_true(named == top || h->rows[h->n_rows - 1].text || named == 0);
}

static struct query_heat *heat_of(struct store *s, const struct query_heat_spec *spec)
{
	struct query_heat *h;
	struct err err = { 0 };
	if (query_heat(&h, s, spec, &err))
		fail_msg("%s", err.text);
	return h;
}

static void cells(void **state)
{
	static const enum query_metric metrics[] = { QUERY_CPU, QUERY_OFF, QUERY_RUNQ };
	static const char *const by[] = { NULL, "cpu", "tenant", "query_id", "" };
	const struct given *g = *state;
	struct model m = { .random = 9 };
	for (unsigned n = 0; n < 90; n++) {
		uint32_t event = n % N_EVENTS;
		struct query_heat_spec spec = { .step_ns = 1 + model_random(&m, 3000) * MS / 3,
						.by = by[model_random(&m, 5)],
						.top = model_random(&m, 4) * 2 };
		int64_t from = T0 - WINDOW / 2 + 1000ll * model_random(&m, 30000000),
			to = from + 1 + 1000ll * model_random(&m, 20000000);
		bool open = !model_random(&m, 4);
		spec.step_ns = spec.step_ns < MS ? MS : spec.step_ns;
		spec.range = (struct query_spec){ .metric = metrics[event],
						  .from_ns = open ? INT64_MIN : from,
						  .to_ns = open ? INT64_MAX : to,
						  .idle = model_random(&m, 2) };
		spec.range.where = model_random(&m, 3) ? NULL : "tenant=\"t1\"";
		struct query_heat *h = heat_of(g->s, &spec);
		int64_t begin = open || from < T0 ? T0 : from,
			end = open || to > T0 + 4 * WINDOW ? T0 + 4 * WINDOW : to;
		int64_t first = (begin - T0) / WINDOW, last = (end - T0 - 1) / WINDOW;
		if (end > begin) {
			assert_int_equal(h->from_ns, begin / spec.step_ns * spec.step_ns);
			assert_int_equal(h->n_steps,
					 (end - 1) / spec.step_ns - begin / spec.step_ns + 1);
			assert_int_equal(h->windows, last - first + 1);
			assert_int_equal(h->untracked, last == WINDOWS);
		} else {
			assert_int_equal(h->n_steps, 0);
		}
		assert_string_equal(h->event, events[event].name);
		assert_int_equal(h->waits, event != CPU);
		check_rows(g, &spec, event, h);
		if (spec.by && *spec.by && strcmp(spec.by, "cpu"))
			check_order(h, spec.top ? spec.top : 10);
		query_heat_free(h);
	}
	query_heat_free(NULL);
}

/* Who may see one tenant has the map of it. */
static void in_a_scope(void **state)
{
	const struct given *g = *state;
	struct query_heat_spec spec = {
		.range = { .metric = QUERY_OFF, .from_ns = INT64_MIN, .to_ns = INT64_MAX },
		.step_ns = 500 * MS,
		.by = "query_id",
		.top = 10
	};
	store_set_scope(g->s, "tenant=\"t1\"");
	struct query_heat *h = heat_of(g->s, &spec);
	store_set_scope(g->s, NULL);
	assert_true(h->total > 0);
	spec.range.where = "tenant=\"t1\""; /* as the oracle is asked for it */
	check_rows(g, &spec, OFF, h);
	query_heat_free(h);
}

/* Each value has its row when there is room, also that of no label. */
static void values(void **state)
{
	const struct given *g = *state;
	struct query_heat_spec spec = {
		.range = { .metric = QUERY_CPU, .from_ns = INT64_MIN, .to_ns = INT64_MAX },
		.step_ns = 100 * MS,
		.by = "query_id",
		.top = 4
	};
	struct query_heat *h = heat_of(g->s, &spec);
	bool seen[4] = { false };
	assert_int_equal(h->n_rows, 4);
	for (size_t i = 0; i < 4; i++)
		seen[*h->rows[i].text ? *h->rows[i].text - '0' : 3] = true;
	assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
	query_heat_free(h);
	/* One is left for (other) */
	spec.top = 3;
	h = heat_of(g->s, &spec);
	assert_int_equal(h->n_rows, 4);
	assert_null(h->rows[3].text);
	assert_true(h->rows[3].total > 0 && h->rows[3].total <= h->rows[2].total);
	query_heat_free(h);
	/* A key that no label set has: all samples are without it */
	spec.by = "nothing";
	h = heat_of(g->s, &spec);
	assert_int_equal(h->n_rows, 1);
	assert_string_equal(h->rows[0].text, "");
	query_heat_free(h);
	/* CPUs 0 to 3 are in the account of the windows */
	spec.by = "cpu";
	h = heat_of(g->s, &spec);
	assert_int_equal(h->n_rows, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(atoi(h->rows[i].text), i);
	query_heat_free(h);
	/* A range without windows */
	spec.range.from_ns = T0 + 100 * WINDOW;
	h = heat_of(g->s, &spec);
	assert_int_equal(h->n_steps, 0);
	assert_int_equal(h->windows, 0);
	assert_int_equal(h->total, 0);
	query_heat_free(h);
}

static void refuse(struct store *s, const struct query_heat_spec *spec, const char *text)
{
	struct query_heat *h = NULL;
	struct err err = { 0 };
	assert_int_equal(query_heat(&h, s, spec, &err), -EINVAL);
	assert_non_null(strstr(err.text, text));
	assert_null(h);
}

static void refused(void **state)
{
	const struct given *g = *state;
	struct query_heat_spec spec = {
		.range = { .metric = QUERY_CPU, .from_ns = T0, .to_ns = T0 + 36000 * MS },
		.step_ns = MS
	};
	struct query_heat *h = heat_of(g->s, &spec);
	assert_int_equal(h->n_steps, HEAT_STEPS_MAX);
	query_heat_free(h);
	spec.range.to_ns++;
	refuse(g->s, &spec, "36000 steps");
	spec.range.to_ns--;
	spec.step_ns = MS - 1;
	refuse(g->s, &spec, "at least 1ms");
	spec.step_ns = INT64_MAX;
	h = heat_of(g->s, &spec);
	assert_int_equal(h->n_steps, 1);
	query_heat_free(h);
	spec.step_ns = MS;
	spec.range.metric = QUERY_WALL;
	refuse(g->s, &spec, "cpu, off and runq");
	spec.range.metric = QUERY_SAMPLES;
	spec.range.event = "cycles";
	refuse(g->s, &spec, "no event cycles");
	spec.range.event = "runq";
	h = heat_of(g->s, &spec);
	assert_true(h->waits);
	assert_string_equal(h->event, "runq");
	query_heat_free(h);
	spec.range.event = "";
	spec.range.where = "wait=\"lock\"";
	refuse(g->s, &spec, "wait");
	spec.range.where = NULL;
	h = heat_of(g->s, &spec);
	assert_string_equal(h->event, "cpu-clock");
	query_heat_free(h);
}

/* ---- more than there is room for ---- */

#define MORE 5

/* One window of samples, each of a CPU and a tenant of its own. */
static struct given *many(uint32_t n)
{
	struct given *g = given_new();
	struct store_row *rows = calloc(n, sizeof(*rows));
	struct store_cpu_totals cpu = { n - 1, n, n, (uint64_t[]){ 0, 0 }, (uint64_t[]){ 0 } };
	const struct store_totals totals = { &cpu, 1, 0, 0, 0 };
	struct err err = { 0 };
	char labels[40];
	for (uint32_t i = 0; i < n; i++) {
		snprintf(labels, sizeof(labels), "tenant=t%04u\n", i);
		give_row(g, 0, CPU, labels, false);
		rows[i] = g->rows[0];
		rows[i].samples = 1;
		assert_int_equal(store_add_row(g->w, rows[i].set, rows[i].stack, CPU, 1, 10101010),
				 0);
		g->instants[i] = (struct store_instant){ T0 + MS * i, i, i, 0 };
	}
	/* The last one has most: among so many it is not looked for */
	for (uint32_t i = n; i < n + MORE; i++)
		g->instants[i] = (struct store_instant){ T0 + MS * i, n - 1, n - 1, 0 };
	store_set_instants(g->w, &(struct store_instants){ rows, n, g->instants, n + MORE, 0 });
	assert_int_equal(store_commit_window(g->w, T0, T0 + WINDOW, 1, &totals, &err), 0);
	free(rows);
	given_open(g);
	return g;
}

static void many_rows(void **state)
{
	struct given *g = many(1100);
	struct query_heat_spec spec = {
		.range = { .metric = QUERY_CPU, .from_ns = T0, .to_ns = T0 + WINDOW },
		.step_ns = 10 * MS,
		.top = 1000
	};
	(void)state;
	for (int cpu = 0; cpu < 2; cpu++) {
		spec.by = cpu ? "cpu" : "tenant";
		struct query_heat *h = heat_of(g->s, &spec);
		assert_int_equal(h->n_rows, HEAT_ROWS_MAX);
		assert_int_equal(h->total, 1100 + MORE);
		for (size_t i = 0; i < HEAT_ROWS_MAX - 1; i++) {
			assert_non_null(h->rows[i].text);
			assert_int_equal(h->rows[i].total, 1);
		}
		assert_null(h->rows[HEAT_ROWS_MAX - 1].text);
		assert_int_equal(h->rows[HEAT_ROWS_MAX - 1].total,
				 1100 + MORE - (HEAT_ROWS_MAX - 1));
		query_heat_free(h);
	}
	/* 64 rows of 4096 steps are as many cells as there may be */
	spec.step_ns = MS;
	spec.range.to_ns = T0 + 4096 * MS;
	struct query_heat *h = heat_of(g->s, &spec);
	assert_int_equal(h->n_rows * h->n_steps, HEAT_CELLS_MAX);
	query_heat_free(h);
	spec.range.to_ns++;
	refuse(g->s, &spec, "cells");
	given_free(g);
	g = many(HEAT_ROWS_MAX);
	spec.step_ns = 10 * MS;
	for (int cpu = 0; cpu < 2; cpu++) {
		spec.by = cpu ? "cpu" : "tenant";
		h = heat_of(g->s, &spec);
		assert_int_equal(h->n_rows, HEAT_ROWS_MAX);
		assert_int_equal(h->rows[HEAT_ROWS_MAX - 1].text != NULL, cpu);
		assert_int_equal(h->rows[HEAT_ROWS_MAX - 1].total, cpu ? 1 + MORE : 1);
		query_heat_free(h);
	}
	given_free(g);
}

/* 500 threads that wait through 10 s are more microseconds than a cell has. */
static void full_cell(void **state)
{
	struct given *g = given_new();
	const struct query_heat_spec spec = {
		.range = { .metric = QUERY_OFF, .from_ns = T0, .to_ns = T0 + WINDOW },
		.step_ns = WINDOW
	};
	(void)state;
	give_row(g, 0, OFF, "", false);
	for (uint32_t i = 0; i < 500; i++)
		give_instant(g, 0, &(struct drawn){ T0, T0 + WINDOW - 1000, 0, OFF, i, "", false },
			     0);
	commit(g, 0, 1);
	given_open(g);
	struct query_heat *h = heat_of(g->s, &spec);
	assert_int_equal(h->n_steps, 1);
	assert_int_equal(h->rows[0].cells[0], UINT32_MAX);
	assert_int_equal(h->most, UINT32_MAX);
	query_heat_free(h);
	given_free(g);
}

/* The event that a map is of where none is asked for: CPU time, else the first; none: nothing. */
static void events_of_stores(void **state)
{
	static const struct store_event e[] = { { "page-faults", "count", 0, 1 },
						{ "cpu-clock", "nanoseconds", 1000, 1000 },
						{ "cpu-clock", "nanoseconds", 3000, 3000 } };
	static const char *const want[] = { NULL, "page-faults", "cpu-clock", "cpu-clock" };
	struct query_heat_spec spec = { .range = { .from_ns = INT64_MIN, .to_ns = INT64_MAX },
					.step_ns = 1000 * MS };
	(void)state;
	for (size_t n = 0; n <= 3; n++) {
		struct given *g = given_new();
		struct query_heat *h = NULL;
		struct err err = { 0 };
		uint32_t id;
		for (size_t i = 0; i < n; i++)
			assert_int_equal(store_add_event(g->w, &e[i], &id), 0);
		if (n)
			commit(g, 0, 0);
		given_open(g);
		spec.range.metric = QUERY_SAMPLES;
		h = heat_of(g->s, &spec);
		assert_int_equal(!h->event, !want[n]);
		if (want[n])
			assert_string_equal(h->event, want[n]);
		assert_false(h->waits);
		assert_int_equal(h->untracked, n > 0);
		assert_int_equal(h->n_rows, 1);
		assert_string_equal(h->rows[0].text, "");
		query_heat_free(h);
		spec.range.metric = QUERY_CPU;
		h = NULL;
		assert_int_equal(query_heat(&h, g->s, &spec, &err), n == 1 ? -EINVAL : 0);
		query_heat_free(h);
		given_free(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells),      cmocka_unit_test(values),
		cmocka_unit_test(refused),    cmocka_unit_test(many_rows),
		cmocka_unit_test(full_cell),  cmocka_unit_test(events_of_stores),
		cmocka_unit_test(in_a_scope),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
