/* SPDX-License-Identifier: Apache-2.0 */
#include "query/heat.h"

#include "query/instants.h"
#include "query/waits.h"
#include "util/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ll
#define VALUES_MAX 1024 /* of the key, that are told apart while the largest are looked for */
#define ROW_OTHER 0u	/* the id of all others */

struct value {
	char *text;
	uint64_t total;
	uint32_t row; /* of the answer, once the largest are known */
};

struct heating {
	const struct query_heat_spec *spec;
	struct query_heat *h;
	struct store *s;
	struct query_instants *instants;
	bool *events;
	struct value *v; /* by id; the first is (other) */
	size_t n, cap;
	bool by_cpu, by_key, counting; /* counting: the totals of the values alone */
	bool leaves_out_idle;	       /* waits, by their stacks */
	struct wait_reasons reasons;
	struct err *err;
};

/* ---- what is asked for ---- */

static bool is_wait_event(const char *name)
{
	return !strcmp(name, WAIT_EVENT) || !strcmp(name, "runq");
}

/* The event, by its name: of two rates of one both count. */
static const char *event_name(const struct heating *g)
{
	const struct query_spec *q = &g->spec->range;
	switch (q->metric) {
	case QUERY_CPU:
		return query_cpu_event(g->s);
	case QUERY_OFF:
		return WAIT_EVENT;
	case QUERY_RUNQ:
		return "runq";
	case QUERY_SAMPLES:
		return q->event && *q->event	? q->event
		       : *query_cpu_event(g->s) ? query_cpu_event(g->s)
		       : store_n_events(g->s)	? store_event(g->s, 0)->name
						: "";
	default:
		return NULL;
	}
}

static int choose_events(struct heating *g)
{
	const char *name = event_name(g);
	if (!name)
		return err_set(g->err, -EINVAL, "a heat map has the metrics cpu, off and runq");
	g->events = calloc(store_n_events(g->s) + 1, sizeof(*g->events));
	if (!g->events)
		return err_sys(g->err, -ENOMEM, "cannot query");
	bool any = !store_n_events(g->s);
	for (uint32_t i = 0; i < store_n_events(g->s); i++) {
		g->events[i] = !strcmp(store_event(g->s, i)->name, name);
		if (g->events[i])
			g->h->event = store_event(g->s, i)->name;
		any |= g->events[i];
	}
	g->h->waits = is_wait_event(name);
	g->leaves_out_idle = query_is_blocked(name) && !g->spec->range.idle;
	return any ? 0 : err_set(g->err, -EINVAL, "no event %s in the store", name);
}

static int check_steps(struct heating *g, const struct store_cover *c)
{
	const struct query_spec *q = &g->spec->range;
	struct query_heat *h = g->h;
	int64_t from = q->from_ns > c->from_ns ? q->from_ns : c->from_ns,
		to = q->to_ns < c->to_ns ? q->to_ns : c->to_ns;
	if (g->spec->step_ns < MS)
		return err_set(g->err, -EINVAL, "step: at least 1ms");
	h->step_ns = g->spec->step_ns;
	h->from_ns = from - from % h->step_ns;
	if (!c->n || to <= from)
		return 0;
	/* Whole steps to the one that `to` ends; h->step_ns may be near INT64_MAX. */
	h->n_steps = (size_t)((to - h->from_ns - 1) / h->step_ns + 1);
	if (h->n_steps > HEAT_STEPS_MAX)
		return err_set(g->err, -EINVAL,
			       "more than %d steps: ask for a shorter range or longer steps",
			       HEAT_STEPS_MAX);
	return 0;
}

/* ---- callbacks ---- */

static int add_value(struct heating *g, const char *text, uint32_t *ret)
{
	for (size_t i = 1; i < g->n; i++)
		if (!strcmp(g->v[i].text, text)) {
			*ret = (uint32_t)i;
			return 0;
		}
	*ret = ROW_OTHER;
	if (g->n > VALUES_MAX || !g->counting)
		return 0;
	char *own = strdup(text);
	if (!own || ARRAY_RESERVE(g->v, g->cap, g->n + 1)) {
		free(own);
		return err_sys(g->err, -ENOMEM, "cannot query");
	}
	*ret = (uint32_t)g->n;
	g->v[g->n++] = (struct value){ .text = own };
	return 0;
}

static int name_set(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	struct heating *g = ctx;
	char text[256] = "";
	*ret = ROW_OTHER;
	if (!g->by_key)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (labels[i].key_len == strlen(g->spec->by) &&
		    !memcmp(labels[i].key, g->spec->by, labels[i].key_len))
			label_text(&labels[i], text, sizeof(text));
	return add_value(g, text, ret);
}

static void add(struct heating *g, uint32_t row, int64_t at_ns, uint64_t n)
{
	struct query_heat *h = g->h;
	if (at_ns < h->from_ns || at_ns >= h->from_ns + (int64_t)h->n_steps * h->step_ns)
		return;
	struct query_heat_row *r = &h->rows[row];
	uint32_t *cell = &r->cells[(at_ns - h->from_ns) / h->step_ns];
	n = n > UINT32_MAX - *cell ? UINT32_MAX - *cell : n;
	*cell += (uint32_t)n;
	r->total += n;
	h->total += n;
	h->most = *cell > h->most ? *cell : h->most;
}

/* A wait is in all steps that it lasted. */
static void add_wait(struct heating *g, uint32_t row, const struct store_instant *v)
{
	const int64_t step = g->h->step_ns;
	int64_t at = v->at_ns - (int64_t)v->length_us * 1000;
	if (at < g->h->from_ns)
		at = g->h->from_ns;
	while (at < v->at_ns) {
		int64_t next = (at / step + 1) * step, end = next < v->at_ns ? next : v->at_ns;
		add(g, row, at, (uint64_t)(end - at) / 1000);
		at = next;
	}
}

static int leave_out(struct heating *g, uint32_t stack, bool *ret)
{
	const struct wait_reason *why;
	*ret = false;
	if (!g->leaves_out_idle)
		return 0;
	int rc = wait_reason_of(&g->reasons, g->s, stack, &why);
	*ret = !rc && why->class == WAIT_CLASS_IDLE;
	return rc ? err_sys(g->err, rc, "cannot query") : 0;
}

static int on_instant(void *ctx, const struct store_instant *v, const struct store_instant_row *of)
{
	struct heating *g = ctx;
	const uint32_t set = of->row.set;
	bool out;
	int rc = leave_out(g, of->row.stack, &out);
	if (rc || out)
		return rc;
	if (g->counting) {
		g->v[set].total += g->h->waits ? v->length_us : 1;
		return 0;
	}
	uint32_t row = g->by_cpu   ? (v->cpu < g->h->n_rows ? v->cpu : (uint32_t)g->h->n_rows - 1)
		       : g->by_key ? g->v[set].row
				   : 0;
	if (g->h->waits)
		add_wait(g, row, v);
	else
		add(g, row, v->at_ns, 1);
	return 0;
}

/* ---- rows of the answer ---- */

static int add_row(struct query_heat *h, const char *text, struct err *err)
{
	struct query_heat_row *v = realloc(h->rows, (h->n_rows + 1) * sizeof(*v));
	if (!v)
		return err_sys(err, -ENOMEM, "cannot query");
	h->rows = v;
	v[h->n_rows] = (struct query_heat_row){ text ? strdup(text) : NULL,
						calloc(h->n_steps + 1, sizeof(uint32_t)), 0 };
	bool good = v[h->n_rows].cells && (v[h->n_rows].text || !text);
	h->n_rows++;
	return good ? 0 : err_sys(err, -ENOMEM, "cannot query");
}

static int by_total(const void *pa, const void *pb, void *ctx)
{
	const struct value *v = ctx, *a = &v[*(const uint32_t *)pa], *b = &v[*(const uint32_t *)pb];
	return (a->total < b->total) - (a->total > b->total);
}

/* Those with most get a row each, all others one. */
static int make_value_rows(struct heating *g)
{
	uint32_t *order = malloc(g->n * sizeof(*order));
	size_t top = g->spec->top ? g->spec->top : 10, n = 0;
	int rc = order ? 0 : err_sys(g->err, -ENOMEM, "cannot query");
	top = top < HEAT_ROWS_MAX ? top : HEAT_ROWS_MAX - 1;
	for (uint32_t i = 1; !rc && i < g->n; i++)
		order[n++] = i;
	if (n)
		qsort_r(order, n, sizeof(*order), by_total, g->v);
	bool other = n > top || g->v[ROW_OTHER].total;
	for (size_t i = 0; !rc && i < n && i < top; i++) {
		g->v[order[i]].row = (uint32_t)i;
		rc = add_row(g->h, g->v[order[i]].text, g->err);
	}
	if (!rc && (other || !n))
		rc = add_row(g->h, NULL, g->err);
	for (size_t i = top; !rc && i < n; i++)
		g->v[order[i]].row = (uint32_t)g->h->n_rows - 1;
	g->v[ROW_OTHER].row = rc ? 0 : (uint32_t)g->h->n_rows - 1;
	free(order);
	return rc;
}

/* The host's CPUs have numbers from 0 on; above the last row they share it. */
static int make_cpu_rows(struct heating *g, const struct store_cover *c)
{
	uint32_t most = 0;
	char text[20];
	for (size_t i = 0; i < c->n; i++) {
		struct store_totals *t;
		int rc = store_block_totals(g->s, c->blocks[i], &t, g->err);
		if (rc)
			return rc;
		for (size_t k = 0; k < t->n_cpus; k++)
			most = t->cpu[k].cpu > most ? t->cpu[k].cpu : most;
		store_totals_free(t);
	}
	for (uint32_t i = 0; i <= most && i < HEAT_ROWS_MAX; i++) {
		bool other = i + 1 == HEAT_ROWS_MAX && i < most;
		snprintf(text, sizeof(text), "%u", i);
		int rc = add_row(g->h, other ? NULL : text, g->err);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- all of it ---- */

static int read_blocks(struct heating *g, const struct store_cover *c)
{
	g->h->windows = 0;
	for (size_t i = 0; i < c->n; i++)
		g->h->windows += c->blocks[i]->n_windows;
	return query_instants_read(g->instants, &g->h->untracked, g->err);
}

static int read_all(struct heating *g, const struct store_cover *c)
{
	int rc = check_steps(g, c);
	if (!rc && g->by_key) {
		g->counting = true;
		rc = read_blocks(g, c);
		g->counting = false;
	}
	rc = rc		 ? rc
	     : g->by_key ? make_value_rows(g)
	     : g->by_cpu ? make_cpu_rows(g, c)
			 : add_row(g->h, "", g->err);
	if (!rc && g->h->n_rows * g->h->n_steps > HEAT_CELLS_MAX)
		rc = err_set(g->err, -EINVAL,
			     "more than %u cells: ask for fewer rows, a shorter range or longer "
			     "steps",
			     HEAT_CELLS_MAX);
	return rc ? rc : read_blocks(g, c);
}

static void heating_fini(struct heating *g)
{
	for (size_t i = 1; i < g->n; i++)
		free(g->v[i].text);
	free(g->v);
	free(g->events);
	wait_reasons_fini(&g->reasons);
	query_instants_close(g->instants);
}

int query_heat(struct query_heat **ret, struct store *s, const struct query_heat_spec *spec,
	       struct err *err)
{
	struct query_heat *h = calloc(1, sizeof(*h));
	struct heating g = { .spec = spec, .h = h, .s = s, .err = err };
	g.by_cpu = spec->by && !strcmp(spec->by, "cpu");
	g.by_key = spec->by && *spec->by && !g.by_cpu;
	if (!h || ARRAY_RESERVE(g.v, g.cap, 1)) {
		free(h);
		return err_sys(err, -ENOMEM, "cannot query");
	}
	g.v[g.n++] = (struct value){ 0 };
	int rc = choose_events(&g);
	struct query_instants_spec instants = { .range = spec->range,
						.events = g.events,
						.stacks = g.leaves_out_idle,
						.set = name_set,
						.instant = on_instant,
						.ctx = &g };
	instants.range.keys = &spec->by;
	instants.range.n_keys = g.by_key;
	rc = rc ? rc : query_instants_open(&g.instants, s, &instants, err);
	rc = rc ? rc : read_all(&g, query_instants_cover(g.instants));
	heating_fini(&g);
	if (rc)
		query_heat_free(h);
	else
		*ret = h;
	return rc;
}

void query_heat_free(struct query_heat *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n_rows; i++) {
		free(h->rows[i].text);
		free(h->rows[i].cells);
	}
	free(h->rows);
	free(h);
}
