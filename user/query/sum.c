/* SPDX-License-Identifier: Apache-2.0 */
#include "query/sum.h"

#include "query/counters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_ROWS 1024

bool sum_is_idle(const struct store *s, uint32_t stack)
{
	uint32_t parent, frame;
	store_stack(s, stack, &parent, &frame);
	const struct store_frame *f = parent ? NULL : store_frame(s, frame);
	return f && f->kind == FRAME_IDLE;
}

static int wanted(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	struct summing *m = ctx;
	int rc = selector_match(m->of->selector, labels, n, ret, m->err);
	*ret ^= m->of->spec.rest;
	return rc;
}

/* Stacks and sets are numbered densely: an array is the fastest sum. */
static int add_sum(struct summing *m, uint32_t id, uint64_t samples, uint64_t value)
{
	if (id >= m->sums.n) {
		size_t n = m->of->spec.labels == QUERY_KEYS ? 2 * (size_t)id + 64 : store_n_stacks(m->q->store);
		struct sum *v = realloc(m->sums.v, n * sizeof(*v));
		if (!v)
			return -ENOMEM;
		memset(v + m->sums.n, 0, (n - m->sums.n) * sizeof(*v));
		m->sums.v = v;
		m->sums.n = n;
	}
	m->sums.v[id].samples += samples;
	m->sums.v[id].value += value;
	return 0;
}

enum { IDLE_UNKNOWN, IDLE_NO, IDLE_YES };

/*
 * The same stacks come in every window, and their nodes are not near each other: what one is is
 * kept beside that of the others.
 */
static int stack_is_idle(struct summing *m, uint32_t stack, bool *ret)
{
	if (stack >= m->idle.n) {
		size_t n = store_n_stacks(m->q->store);
		uint8_t *v = realloc(m->idle.v, n);
		if (!v)
			return -ENOMEM;
		memset(v + m->idle.n, IDLE_UNKNOWN, n - m->idle.n);
		m->idle.v = v;
		m->idle.n = n;
	}
	if (m->idle.v[stack] == IDLE_UNKNOWN)
		m->idle.v[stack] = sum_is_idle(m->q->store, stack) ? IDLE_YES : IDLE_NO;
	*ret = m->idle.v[stack] == IDLE_YES;
	return 0;
}

static int within(struct summing *m)
{
	m->unchecked = 0;
	return store_within(m->q->store, runs_bytes(&m->runs) + m->sums.n * sizeof(*m->sums.v) + m->idle.n + m->folding.bytes +
			    wait_reasons_bytes(&m->q->reasons), m->err);
}

/* The sums by stack. They are admitted when all is summed, once for each stack. */
static int on_sum(void *ctx, const struct store_row *of)
{
	struct summing *m = ctx;
	const struct measure *v = measure_of(&m->of->measures, m->q, of);
	int rc = ++m->unchecked >= LOOK_ROWS ? within(m) : 0;
	bool out = false;
	if (rc || !v)
		return rc;
	const struct store_row in = measured(&m->of->measures, m->q, v, of);
	rc = waits_leave_out(&m->of->waits, m->q, v, of, &out);
	rc = rc || out ? rc : add_sum(m, in.stack, in.samples, in.value);
	return rc ? err_sys(m->err, rc, "cannot merge the rows") : 0;
}

/* Of rows whose stacks are left out this is the last place where an idle CPU can be told. */
static int on_group(void *ctx, const struct store_row *sum)
{
	struct summing *m = ctx;
	const struct measure *v = measure_of(&m->of->measures, m->q, sum);
	bool idle = false;
	if (!v)
		return 0;
	int rc = m->of->spec.labels == QUERY_NO_LABELS ? 0 : stack_is_idle(m, sum->stack, &idle);
	if (rc)
		return err_sys(m->err, rc, "cannot merge the rows");
	if (idle && m->once)
		m->q->info.idle += measured(&m->of->measures, m->q, v, sum).samples;
	return m->of->spec.labels == QUERY_NO_LABELS || (m->of->measures.admitted && (!idle || m->of->spec.idle));
}

static int add_row(struct summing *m, const struct store_row *row)
{
	if (m->of->spec.labels == QUERY_NO_LABELS)
		return add_sum(m, row->stack, row->samples, row->value);
	m->q->info.samples += row->samples;
	m->q->info.value += row->value;
	return m->of->spec.labels == QUERY_KEYS ? add_sum(m, row->set, row->samples, row->value) : runs_add(&m->runs, row);
}

/* Those of groups that were admitted. */
static int on_rows(void *ctx, const struct store_row *rows, size_t n)
{
	struct summing *m = ctx;
	const struct measure *v = measure_of(&m->of->measures, m->q, rows);
	m->unchecked += (unsigned)n;
	int rc = m->unchecked >= LOOK_ROWS ? within(m) : 0;
	for (size_t i = 0; !rc && v && i < n; i++) {
		const struct store_row in = measured(&m->of->measures, m->q, v, &rows[i]);
		bool out = false;
		rc = waits_leave_out(&m->of->waits, m->q, v, &rows[i], &out);
		rc = rc || out ? rc : add_row(m, &in);
		rc = rc ? err_sys(m->err, rc, "cannot merge the rows") : 0;
	}
	return rc;
}

/* A block without labels: of those that are asked for it has none. */
static int on_folded(void *ctx, const struct store_row *row)
{
	struct summing *m = ctx;
	int wanted = on_group(m, row);
	return wanted <= 0 ? wanted : on_rows(m, row, 1);
}

static int on_idle(void *ctx, const struct store_row *row)
{
	struct summing *m = ctx;
	const struct measure *v = measure_of(&m->of->measures, m->q, row);
	bool idle = false;
	int rc = v ? stack_is_idle(m, row->stack, &idle) : 0;
	if (idle)
		m->q->info.idle += measured(&m->of->measures, m->q, v, row).samples;
	return rc ? err_sys(m->err, rc, "cannot merge the rows") : 0;
}

static int add_account(struct summing *m, const struct store_block *b)
{
	int rc = counters_add(m->q, b, m->err);
	if (rc)
		return rc;
	return m->once ? 0 : store_block_folded(m->q->store, b, on_idle, m, m->err);
}

static int add_folded(struct summing *m, const struct store_block *b)
{
	struct store *s = m->q->store;
	return m->of->spec.labels == QUERY_NO_LABELS ? store_fold_block(s, &m->folding, b, m->err) : store_block_folded(s, b, on_folded, m, m->err);
}

static int add_block(struct summing *m, const struct store_block *b)
{
	struct store *s = m->q->store;
	const struct store_keys keys = { m->of->plan.keys, m->of->plan.n_keys };
	bool all = !m->of->spec.where || !*m->of->spec.where;
	const struct store_reading how = { .keys = m->of->plan.keys ? &keys : NULL, .filter = all ? NULL : wanted, .group = on_group, .rows = on_rows,
					   .fold_stacks = m->of->spec.labels == QUERY_KEYS && !m->of->waits.by_class, .fold_sets = m->of->spec.labels == QUERY_NO_LABELS,
					   .ctx = m };
	if (all && m->of->spec.rest)
		return 0;
	int rc = m->of->plan.want == STORE_FOLDED ? add_folded(m, b) : store_block_read(s, b, &how, m->err);
	if (rc == -ENODATA)
		rc = all ? add_folded(m, b) : 0;
	if (rc)
		return rc;
	rc = runs_close(&m->runs);
	return rc ? err_sys(m->err, rc, "cannot merge the rows") : 0;
}

int summing_read(struct summing *m, struct query *q, struct choice *of, struct err *err)
{
	const struct plan *p = &of->plan;
	const struct store_cover *range = plan_range(p);
	*m = (struct summing){ .q = q, .of = of, .err = err };
	m->once = !p->posted && (!of->spec.where || !*of->spec.where);
	int rc = 0;
	for (size_t i = 0; !rc && i < range->n; i++)
		rc = add_account(m, range->blocks[i]);
	for (size_t i = 0; !rc && i < p->blocks.n; i++) {
		rc = add_block(m, p->blocks.blocks[i]);
		rc = rc ? rc : within(m);
	}
	return rc ? rc : store_fold_rows(q->store, &m->folding, on_sum, m, err);
}

void summing_fini(struct summing *m)
{
	free(m->sums.v);
	free(m->idle.v);
	store_folding_fini(&m->folding);
	runs_fini(&m->runs);
}
