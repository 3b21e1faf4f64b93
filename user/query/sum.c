/* SPDX-License-Identifier: Apache-2.0 */
#include "query/sum.h"

#include "query/counters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_idle(const struct store *s, uint32_t stack)
{
	uint32_t parent, frame;
	store_stack(s, stack, &parent, &frame);
	const struct store_frame *f = parent ? NULL : store_frame(s, frame);
	return f && f->kind == FRAME_IDLE;
}

static int wanted(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	struct summing *m = ctx;
	const struct query_spec *spec = &m->of->spec;
	struct label room[STORE_SET_MAX];
	int rc = scope_admit(&m->of->scope, &labels, &n, room, ret, m->err);
	if (rc || !*ret)
		return rc;
	rc = selector_match(m->of->selector, labels, n, ret, m->err);
	*ret ^= spec->rest;
	if (spec->shares)
		*ret &= labels_key(labels, n, 0) % spec->shares == spec->share;
	return rc;
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
		m->idle.v[stack] = is_idle(m->q->store, stack) ? IDLE_YES : IDLE_NO;
	*ret = m->idle.v[stack] == IDLE_YES;
	return 0;
}

static bool is_asked_for(const struct query_spec *spec, const struct label *l)
{
	for (size_t i = 0; i < spec->n_keys; i++)
		if (strlen(spec->keys[i]) == l->key_len &&
		    !memcmp(spec->keys[i], l->key, l->key_len))
			return true;
	return false;
}

/*
 * Label sets get their ids from the sums. Labels that the selector alone looks at are left out:
 * rows that differ in nothing else are one, which is shown with all its samples or not at all.
 */
static int name_set(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	struct summing *m = ctx;
	const struct query_spec *spec = &m->of->spec;
	struct label room[STORE_SET_MAX], kept[STORE_SET_MAX];
	size_t n_kept = 0;
	bool seen;
	int rc = scope_admit(&m->of->scope, &labels, &n, room, &seen, m->err);
	if (rc)
		return rc;
	if (spec->labels == QUERY_KEYS || spec->labels == QUERY_KEYS_STACKS) {
		for (size_t i = 0; i < n; i++)
			if (is_asked_for(spec, &labels[i]))
				kept[n_kept++] = labels[i];
		labels = kept;
		n = n_kept;
	}
	rc = sums_name(&m->sums, labels, n, ret);
	return rc && rc != -ENOBUFS ? err_sys(m->err, rc, "cannot merge the rows") : rc;
}

static bool name_key(void *ctx, const struct store_set_key *key, uint32_t *ret)
{
	const struct summing *m = ctx;
	return sums_name_key(&m->sums, key, ret);
}

/*
 * Is a row part of the answer, by its event and stack? Of rows whose stacks are left out this is
 * the last place where an idle CPU can be seen.
 */
static int admit(struct summing *m, const struct measure *v, const struct store_row *row, bool *ret)
{
	bool idle = false;
	int rc = stack_is_idle(m, row->stack, &idle);
	if (idle && m->once)
		m->q->info.idle += measured(&m->of->measures, m->q, v, row).samples;
	*ret = m->of->measures.admitted && (!idle || m->of->spec.idle);
	return rc;
}

static int on_group(void *ctx, const struct store_row *sum)
{
	struct summing *m = ctx;
	const struct measure *v = measure_of(&m->of->measures, m->q, sum);
	bool wanted = false;
	int rc = v ? admit(m, v, sum, &wanted) : 0;
	return rc ? err_sys(m->err, rc, "cannot merge the rows") : wanted;
}

/* Add rows of groups that were admitted. */
static int on_rows(void *ctx, const struct store_row *rows, size_t n)
{
	struct summing *m = ctx;
	struct measure *v = measure_of(&m->of->measures, m->q, rows);
	int rc = store_goes_on(m->q->store, m->err);
	for (size_t i = 0; !rc && v && i < n; i++) {
		const struct store_row in = measured(&m->of->measures, m->q, v, &rows[i]);
		bool out = false;
		rc = waits_leave_out(&m->of->waits, m->q, v, &rows[i], &out);
		v->seen |= !out;
		rc = rc || out ? rc : sums_add(&m->sums, &in);
		if (rc && rc != -ENOBUFS)
			err_sys(m->err, rc, "cannot merge the rows");
	}
	return rc;
}

/* A sum of the folding: each stack comes about once, so what it is need not be kept. */
static int on_sum(void *ctx, const struct store_row *row)
{
	struct summing *m = ctx;
	const struct measure *v = measure_of(&m->of->measures, m->q, row);
	bool idle = v && is_idle(m->q->store, row->stack);
	if (idle && m->once)
		m->q->info.idle += measured(&m->of->measures, m->q, v, row).samples;
	struct store_row in = *row;
	if (m->of->spec.labels == QUERY_TOTALS)
		in.set = 0;
	return v && m->of->measures.admitted && (!idle || m->of->spec.idle) ? on_rows(m, &in, 1)
									    : 0;
}

/* A block without labels: of those that are asked for it has none. */
static int on_folded(void *ctx, const struct store_row *row)
{
	int wanted = on_group(ctx, row);
	return wanted <= 0 ? wanted : on_rows(ctx, row, 1);
}

static int on_idle(void *ctx, const struct store_row *row)
{
	struct summing *m = ctx;
	const struct measure *v = measure_of(&m->of->measures, m->q, row);
	if (v && is_idle(m->q->store, row->stack))
		m->q->info.idle += measured(&m->of->measures, m->q, v, row).samples;
	return 0;
}

static int add_account(struct summing *m, const struct store_block *b)
{
	int rc = counters_add(m->q, b, m->err);
	if (rc)
		return rc;
	bool none = m->once || b->idle == 1 || m->of->scope.selector;
	return none ? 0 : store_block_sums(m->q->store, b, on_idle, m, m->err);
}

/* Are there no label sets to leave out? */
static bool wants_all(const struct choice *of)
{
	return !of->scope.selector && (!of->spec.where || !*of->spec.where);
}

/* Are the labels of the rows of no consequence? */
static bool folds_sets(const struct summing *m)
{
	return m->of->spec.labels == QUERY_NO_LABELS || m->of->spec.labels == QUERY_TOTALS;
}

static int add_folded(struct summing *m, size_t i)
{
	struct store *s = m->q->store;
	const struct store_block *b = m->of->plan.blocks.blocks[i];
	if (!folds_sets(m))
		return store_block_folded(s, b, on_folded, m, m->err);
	/* What is left out by its stack must have all of it. */
	if (m->of->spec.labels == QUERY_TOTALS && !m->of->waits.by_class)
		return store_block_sums(s, b, on_sum, m, m->err);
	if (i < m->n_folded)
		return 0;
	if (!m->of->waits.by_class)
		m->folding.least = m->of->spec.least;
	m->folding.events = m->events;
	int rc = store_fold_block(s, &m->folding, b, m->err);
	m->n_folded = rc ? m->n_folded : i + 1;
	return rc;
}

static int end_rows(struct summing *m)
{
	int rc = sums_end_block(&m->sums);
	return rc ? err_sys(m->err, rc, "cannot merge the rows") : 0;
}

static int add_block(struct summing *m, size_t i)
{
	const struct plan *p = &m->of->plan;
	const struct query_spec *spec = &m->of->spec;
	const struct store_keys keys = { p->keys, p->n_keys };
	bool all = wants_all(m->of), whole = spec->labels == QUERY_ALL_LABELS;
	const struct store_reading how = { .keys = p->keys ? &keys : NULL,
					   .filter = all && !spec->shares ? NULL : wanted,
					   .set = name_set,
					   .key = whole && !m->of->scope.selector ? name_key : NULL,
					   .key_seed = m->sums.seed,
					   .group = on_group,
					   .rows = on_rows,
					   .fold_stacks = spec->labels == QUERY_KEYS &&
							  !m->of->waits.by_class,
					   .fold_sets = folds_sets(m),
					   .events = m->events,
					   .ctx = m };
	if (spec->rest && (!spec->where || !*spec->where))
		return 0;
	int rc = p->want == STORE_FOLDED
			 ? add_folded(m, i)
			 : store_block_read(m->q->store, p->blocks.blocks[i], &how, m->err);
	if (rc == -ENODATA) /* rows without labels are in the first share */
		rc = all && !spec->share ? add_folded(m, i) : 0;
	if (rc)
		return rc;
	rc = end_rows(m);
	return rc ? rc : store_goes_on(m->q->store, m->err);
}

/* Read all rows once. -ENOBUFS: they do not fit. */
static int read_rows(struct summing *m)
{
	const struct plan *p = &m->of->plan;
	int rc = 0;
	m->q->info.idle_waits = 0;
	m->q->info.idle = m->once ? 0 : m->q->info.idle;
	for (size_t i = 0; !rc && i < p->blocks.n; i++)
		rc = add_block(m, i);
	bool pruned = false;
	rc = rc ? rc : store_fold_rows(m->q->store, &m->folding, on_sum, m, &pruned, m->err);
	m->q->info.bounded |= pruned && m->of->spec.labels != QUERY_TOTALS;
	return rc ? rc : end_rows(m);
}

/* Those that the question measures: of others no stack is translated. */
static int choose_events(struct summing *m)
{
	const uint32_t n = store_n_events(m->q->store);
	m->events = calloc((size_t)n + 1, sizeof(*m->events));
	for (struct store_row row = { 0 }; m->events && row.event < n; row.event++)
		m->events[row.event] = measure_of(&m->of->measures, m->q, &row) != NULL;
	return m->events ? 0 : err_sys(m->err, -ENOMEM, "cannot query");
}

int summing_read(struct summing *m, struct query *q, struct choice *of, struct err *err)
{
	const struct plan *p = &of->plan;
	const struct store_cover *range = plan_range(p);
	bool again = true;
	*m = (struct summing){ .q = q, .of = of, .err = err };
	sums_init(&m->sums, q, &of->spec);
	m->once = !p->posted && wants_all(of);
	int rc = choose_events(m);
	store_begin_question(q->store);
	for (size_t i = 0; !rc && i < range->n; i++)
		rc = add_account(m, range->blocks[i]);
	while (!rc && again) {
		rc = read_rows(m);
		bool full = rc == -ENOBUFS;
		if (rc && !full)
			break;
		rc = full ? 0 : sums_end(&m->sums, &again);
		rc = rc || !again ? rc : sums_next(&m->sums);
		rc = rc ? err_sys(err, rc, "cannot merge the rows") : 0;
	}
	q->info.bounded |= store_end_question(q->store);
	return rc;
}

void summing_fini(struct summing *m)
{
	free(m->idle.v);
	store_folding_fini(&m->folding);
	free(m->events);
	sums_fini(&m->sums);
}
