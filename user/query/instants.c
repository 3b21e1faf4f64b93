/* SPDX-License-Identifier: Apache-2.0 */
#include "query/instants.h"

#include "query/scope.h"
#include "query/waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RUNQ_EVENT "runq"
#define HELD_MAX 64 /* waits of one instant: one a CPU */

/* A wait that is held until all of its instant are known. */
struct held {
	struct store_instant v;
	struct store_instant_row row;
};

struct query_instants {
	struct query_instants_spec spec;
	struct store *s;
	struct selector *selector;
	struct scope scope;
	const char **keys;
	size_t n_keys;
	struct store_cover cover;
	bool *events; /* [store_n_events]: that are read; spec.events of them are given */
	struct held held[HELD_MAX];
	size_t n_held;
	struct err *err; /* of the call at hand */
};

/* Read the keys of the selector and of the scope, too. */
static int choose_keys(struct query_instants *q)
{
	const struct query_spec *range = &q->spec.range;
	const char *keys[SELECTOR_KEYS_MAX];
	size_t n = selector_keys(q->selector, keys, SELECTOR_KEYS_MAX);
	q->keys = calloc(n + q->scope.n_keys + range->n_keys + 1, sizeof(*q->keys));
	if (!q->keys)
		return err_sys(q->err, -ENOMEM, "cannot query");
	for (size_t i = 0; i < n; i++)
		q->keys[q->n_keys++] = keys[i];
	for (size_t i = 0; i < q->scope.n_keys; i++)
		q->keys[q->n_keys++] = q->scope.keys[i];
	for (size_t i = 0; i < range->n_keys; i++)
		q->keys[q->n_keys++] = range->keys[i];
	return 0;
}

static int wanted(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	struct query_instants *q = ctx;
	struct label room[STORE_SET_MAX];
	int rc = scope_admit(&q->scope, &labels, &n, room, ret, q->err);
	return rc || !*ret ? rc : selector_match(q->selector, labels, n, ret, q->err);
}

static int name_set(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	const struct query_instants *q = ctx;
	return q->spec.set(q->spec.ctx, labels, n, ret);
}

static bool is_event(const struct query_instants *q, const struct store_instant_row *row,
		     const char *name)
{
	return !strcmp(store_event(q->s, row->row.event)->name, name);
}

static int give(const struct query_instants *q, const struct store_instant *v,
		const struct store_instant_row *row)
{
	const struct query_spec *range = &q->spec.range;
	const int64_t begin = v->at_ns - (int64_t)v->length_us * 1000;
	bool in = v->length_us ? v->at_ns > range->from_ns && begin < range->to_ns
			       : v->at_ns >= range->from_ns && v->at_ns < range->to_ns;
	if (!in || (q->spec.events && !q->spec.events[row->row.event]))
		return 0;
	return q->spec.instant(q->spec.ctx, v, row);
}

/*
 * A blocked wait ended where the wait for a CPU began that ended with it, on the same CPU. Waits of
 * other threads may end with it, too: where a window or the recording ended, and cut them.
 */
static void end_before_runq(const struct query_instants *q, struct held *off)
{
	for (size_t i = 0; i < q->n_held; i++)
		if (q->held[i].v.cpu == off->v.cpu && q->held[i].row.row.set == off->row.row.set &&
		    is_event(q, &q->held[i].row, RUNQ_EVENT)) {
			off->v.at_ns -= (int64_t)q->held[i].v.length_us * 1000;
			return;
		}
}

/* Give the waits of one instant, the blocked ones first. */
static int give_held(struct query_instants *q)
{
	int rc = 0;
	for (size_t i = 0; i < q->n_held; i++)
		if (is_event(q, &q->held[i].row, WAIT_EVENT))
			end_before_runq(q, &q->held[i]);
	for (int blocked = 1; blocked >= 0; blocked--)
		for (size_t i = 0; !rc && i < q->n_held; i++)
			if (is_event(q, &q->held[i].row, WAIT_EVENT) == blocked)
				rc = give(q, &q->held[i].v, &q->held[i].row);
	q->n_held = 0;
	return rc;
}

static int on_instant(void *ctx, const struct store_instant *v, const struct store_instant_row *row)
{
	struct query_instants *q = ctx;
	bool late = q->n_held && (q->held[0].v.at_ns != v->at_ns || q->n_held == HELD_MAX);
	int rc = late ? give_held(q) : 0;
	if (rc)
		return rc;
	if (!v->length_us)
		return give(q, v, row);
	q->held[q->n_held++] = (struct held){ *v, *row };
	return 0;
}

/* Where blocked waits are wanted, read those for a CPU, too: they say when the others ended. */
static int choose_events(struct query_instants *q)
{
	const uint32_t n = store_n_events(q->s);
	bool off = false;
	q->events = calloc((size_t)n + 1, sizeof(*q->events));
	if (!q->events)
		return err_sys(q->err, -ENOMEM, "cannot query");
	for (uint32_t i = 0; i < n; i++) {
		q->events[i] = !q->spec.events || q->spec.events[i];
		off |= q->events[i] && !strcmp(store_event(q->s, i)->name, WAIT_EVENT);
	}
	for (uint32_t i = 0; off && i < n; i++)
		q->events[i] |= !strcmp(store_event(q->s, i)->name, RUNQ_EVENT);
	return 0;
}

int query_instants_read(struct query_instants *q, size_t *ret_untracked, struct err *err)
{
	const struct store_keys keys = { q->keys, q->n_keys };
	const struct store_reading how = { .keys = q->spec.range.keys ? &keys : NULL,
					   .filter = wanted,
					   .set = q->spec.set ? name_set : NULL,
					   .events = q->events,
					   .fold_stacks = !q->spec.stacks,
					   .ctx = q };
	size_t untracked = 0;
	int rc = 0;
	q->err = err;
	q->n_held = 0;
	for (size_t i = 0; !rc && i < q->cover.n; i++) {
		rc = store_block_instants(q->s, q->cover.blocks[i], &how, q->spec.range.idle,
					  on_instant, err);
		rc = rc ? rc : give_held(q);
		if (rc == -ENODATA) {
			untracked += q->cover.blocks[i]->n_windows;
			rc = 0;
		}
		rc = rc ? rc : store_goes_on(q->s, err);
	}
	if (!rc && ret_untracked)
		*ret_untracked = untracked;
	return rc;
}

const struct store_cover *query_instants_cover(const struct query_instants *q)
{
	return &q->cover;
}

int query_instants_open(struct query_instants **ret, struct store *s,
			const struct query_instants_spec *spec, struct err *err)
{
	struct query_instants *q = calloc(1, sizeof(*q));
	if (!q)
		return err_sys(err, -ENOMEM, "cannot query");
	q->spec = *spec;
	q->s = s;
	q->err = err;
	int rc = scope_parse(&q->scope, store_scope(s), err);
	rc = rc ? rc : selector_parse(&q->selector, spec->range.where, NULL, err);
	if (!rc && (selector_names_wait(q->selector) || selector_names_event(q->selector)))
		rc = err_set(err, -EINVAL, "instants have no labels wait and event");
	rc = rc ? rc : choose_keys(q);
	rc = rc ? rc : choose_events(q);
	rc = rc ? rc
		: store_cover(s, spec->range.from_ns, spec->range.to_ns, STORE_ALL_LABELS, NULL, 0,
			      &q->cover, err);
	if (rc)
		query_instants_close(q);
	else
		*ret = q;
	return rc;
}

void query_instants_close(struct query_instants *q)
{
	if (!q)
		return;
	store_cover_free(&q->cover);
	free(q->keys);
	free(q->events);
	selector_free(q->selector);
	scope_fini(&q->scope);
	free(q);
}
