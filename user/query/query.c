/* SPDX-License-Identifier: Apache-2.0 */
#include "query/query_int.h"

#include "query/runs.h"
#include "query/selector.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_EVENT UINT32_MAX

/* Whether a label set is wanted: asked once per set. */
enum verdict {
	UNKNOWN = 0,
	WANTED,
	UNWANTED,
};

struct merge {
	struct query *q;
	struct selector *selector;
	const struct query_spec *spec;
	uint8_t *verdict; /* [store_n_sets] */
	bool event_ok;	  /* the selector admits the event */
	struct runs runs;
	struct err *err;
};

/* ---- which event ---- */

static int named_event(const struct store *s, const char *name, uint32_t *ret, struct err *err)
{
	char known[300] = "";
	for (uint32_t i = 0; i < store_n_events(s); i++) {
		const char *have = store_event(s, i)->name;
		if (!strcmp(have, name)) {
			*ret = i;
			return 0;
		}
		size_t n = strlen(known);
		snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", have);
	}
	return err_set(err, -EINVAL, "no event %s in the store, it has: %s", name, known[0] ? known : "none");
}

/* The first that the selector admits, else the first. */
static int default_event(const struct store *s, struct selector *sel, uint32_t *ret, struct err *err)
{
	*ret = store_n_events(s) ? 0 : NO_EVENT;
	for (uint32_t i = 0; selector_names_event(sel) && i < store_n_events(s); i++) {
		bool match = false;
		int rc = selector_match_event(sel, store_event(s, i)->name, &match, err);
		if (rc)
			return rc;
		if (match) {
			*ret = i;
			break;
		}
	}
	return 0;
}

static int choose_event(struct query *q, struct merge *m, struct err *err)
{
	const char *name = m->spec->event;
	int rc = name && *name ? named_event(q->store, name, &q->event, err)
			       : default_event(q->store, m->selector, &q->event, err);
	if (rc || q->event == NO_EVENT)
		return rc;
	q->info.event = store_event(q->store, q->event);
	return selector_match_event(m->selector, q->info.event->name, &m->event_ok, err);
}

/* ---- rows ---- */

static bool is_idle(const struct store *s, uint32_t stack)
{
	uint32_t parent, frame;
	store_stack(s, stack, &parent, &frame);
	const struct store_frame *f = parent ? NULL : store_frame(s, frame);
	return f && f->kind == FRAME_IDLE;
}

static int wanted(struct merge *m, uint32_t set, bool *ret)
{
	if (m->verdict[set] == UNKNOWN) {
		struct label labels[STORE_SET_MAX];
		size_t n = store_set_copy(m->q->store, set, labels, STORE_SET_MAX);
		bool yes = false;
		int rc = selector_match(m->selector, labels, n, &yes, m->err);
		if (rc)
			return rc;
		m->verdict[set] = yes ? WANTED : UNWANTED;
	}
	*ret = m->verdict[set] == WANTED;
	return 0;
}

static int on_row(void *ctx, const struct store_row *row)
{
	struct merge *m = ctx;
	struct query *q = m->q;
	bool yes = false;
	if (row->event != q->event)
		return 0;
	if (is_idle(q->store, row->stack)) {
		q->info.idle += row->samples;
		if (!m->spec->idle)
			return 0;
	}
	if (!m->event_ok)
		return 0;
	int rc = wanted(m, row->set, &yes);
	if (rc || !yes)
		return rc;
	q->info.samples += row->samples;
	q->info.value += row->value;
	rc = runs_add(&m->runs, row);
	return rc ? err_sys(m->err, rc, "cannot merge the rows") : 0;
}

/* ---- windows ---- */

static void add_totals(struct query *q, const struct store_totals *t)
{
	const struct store_meta *m = store_meta(q->store);
	uint64_t *lost = q->counters, *flagged = lost + m->n_lost;
	for (size_t i = 0; i < t->n_cpus; i++) {
		q->info.fired += t->cpu[i].fired;
		q->info.stored += t->cpu[i].stored;
		for (size_t k = 0; k < m->n_lost; k++)
			lost[k] += t->cpu[i].lost[k];
		for (size_t k = 0; k < m->n_flagged; k++)
			flagged[k] += t->cpu[i].flagged[k];
	}
	q->info.outside += t->outside;
	q->info.own_cpu_ns += t->own_cpu_ns;
	if (t->own_rss > q->info.own_rss_max)
		q->info.own_rss_max = t->own_rss;
}

static bool in_range(const struct query_spec *spec, const struct store_window *w)
{
	bool begun = spec->by_start ? w->t0_ns >= spec->from_ns : w->t1_ns > spec->from_ns;
	return begun && w->t0_ns < spec->to_ns && spec->from_ns < spec->to_ns;
}

static int add_window(struct merge *m, size_t i)
{
	const struct store_window *w = store_window(m->q->store, i);
	struct query_info *info = &m->q->info;
	if (!in_range(m->spec, w))
		return 0;
	if (!info->blocks || w->t0_ns < info->from_ns)
		info->from_ns = w->t0_ns;
	if (!info->blocks || w->t1_ns > info->to_ns)
		info->to_ns = w->t1_ns;
	info->blocks++;
	info->windows++;
	info->covered_ns += w->t1_ns - w->t0_ns;
	add_totals(m->q, &w->totals);
	int rc = store_rows(m->q->store, i, on_row, m, m->err);
	if (rc)
		return rc;
	rc = runs_close(&m->runs);
	return rc ? err_sys(m->err, rc, "cannot merge the rows") : 0;
}

static int merge_windows(struct merge *m)
{
	struct query *q = m->q;
	const struct store_meta *meta = store_meta(q->store);
	m->verdict = calloc(store_n_sets(q->store), 1);
	q->counters = calloc(meta->n_lost + meta->n_flagged + 1, sizeof(*q->counters));
	if (!m->verdict || !q->counters)
		return err_sys(m->err, -ENOMEM, "cannot query");
	q->info.lost = q->counters;
	q->info.flagged = q->counters + meta->n_lost;
	for (size_t i = 0; i < store_n_windows(q->store); i++) {
		int rc = add_window(m, i);
		if (rc)
			return rc;
	}
	if (runs_finish(&m->runs, &q->rows, &q->n_rows))
		return err_sys(m->err, -ENOMEM, "cannot merge the rows");
	if (q->info.event)
		q->info.seconds = (double)q->info.samples * (double)q->info.event->ns_per_sample / 1e9;
	return 0;
}

int query_open(struct query **ret, struct store *s, const struct query_spec *spec, struct err *err)
{
	struct query *q = calloc(1, sizeof(*q));
	if (!q)
		return err_sys(err, -ENOMEM, "cannot query");
	q->store = s;
	struct merge m = { .q = q, .spec = spec, .err = err };
	int rc = selector_parse(&m.selector, spec->where, NULL, err);
	if (!rc)
		rc = choose_event(q, &m, err);
	if (!rc)
		rc = merge_windows(&m);
	selector_free(m.selector);
	free(m.verdict);
	runs_fini(&m.runs);
	if (rc)
		query_close(q);
	else
		*ret = q;
	return rc;
}

void query_close(struct query *q)
{
	if (!q)
		return;
	free(q->nodes);
	free(q->rows);
	free(q->counters);
	free(q);
}

const struct query_info *query_info(const struct query *q)
{
	return &q->info;
}

const struct store_row *query_rows(const struct query *q, size_t *ret_n)
{
	*ret_n = q->n_rows;
	return q->rows;
}

/* ---- small things ---- */

void query_interval(uint64_t k, uint64_t n, double *ret_low, double *ret_high)
{
	const double z = 1.959963984540054; /* the 97.5% quantile of the normal distribution */
	*ret_low = 0;
	*ret_high = 1;
	if (!n)
		return;
	double p = (double)k / (double)n, zz = z * z / (double)n;
	double mid = (p + zz / 2) / (1 + zz);
	double half = z * sqrt(p * (1 - p) / (double)n + zz / (4 * (double)n)) / (1 + zz);
	/* At the ends the formula gives 0 and 1 but for rounding. */
	if (k)
		*ret_low = mid - half > 0 ? mid - half : 0;
	if (k < n)
		*ret_high = mid + half < 1 ? mid + half : 1;
}

void query_frame_name(const struct store *s, uint32_t frame, char *out, size_t cap)
{
	const struct store_frame *f = store_frame(s, frame);
	if (!f) {
		snprintf(out, cap, "[unknown]");
		return;
	}
	if (f->function) {
		snprintf(out, cap, "%s", store_string(s, f->function, NULL));
		return;
	}
	const char *module = store_string(s, f->module, NULL), *slash = strrchr(module, '/');
	if (slash && slash[1])
		module = slash + 1;
	snprintf(out, cap, "%s+0x%" PRIx64, *module ? module : "[unknown]", f->offset);
}
