/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One finding for one cause. A query that is slow makes its service, its database and its id use
 * more CPU, by the same samples: the value that has least besides is told, the others are where it
 * was.
 */
#include "query/findings_int.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NS 1e9
#define NEAR 2	       /* steps between two begins of one change */
#define SHARED 0.75    /* of a growth: what has so much of both is one */
#define AS_NARROW 1.05 /* rates of two values of which neither has anything besides */

static bool is_cpu(const struct finding *f)
{
	return f->kind == FINDING_MORE || f->kind == FINDING_BURST || f->kind == FINDING_LESS;
}

static double growth(const struct finding *f)
{
	return fabs(f->now - f->before);
}

/* May both be one change, by their times and sizes? */
static bool is_alike(const struct looking *l, const struct finding *a, const struct finding *b)
{
	int64_t near = NEAR * l->step_ns;
	return is_cpu(a) && is_cpu(b) && strcmp(a->key, b->key) != 0 &&
	       (a->kind == FINDING_LESS) == (b->kind == FINDING_LESS) &&
	       llabs(a->since_ns - b->since_ns) <= near &&
	       llabs(a->since_ns + a->span_ns - b->since_ns - b->span_ns) <= near &&
	       fmin(growth(a), growth(b)) >= SHARED * fmax(growth(a), growth(b));
}

/* Return whether b is told rather than a. */
static bool is_narrower(const struct finding *b, const struct finding *a)
{
	double x = a->now + a->before, y = b->now + b->before;
	return x > AS_NARROW * y || (y <= AS_NARROW * x && b->n_values > a->n_values);
}

/* Whose it is comes first. */
static void order_places(const struct looking *l, struct finding *f)
{
	for (size_t i = 1; i < f->n_places && i < FINDING_PLACES; i++) {
		struct finding_place place = f->places[i];
		if (strcmp(place.key, l->keys[0]) != 0)
			continue;
		memmove(&f->places[1], &f->places[0], i * sizeof(f->places[0]));
		f->places[0] = place;
		return;
	}
}

static void add_place(struct finding *f, const char *key, const char *value)
{
	if (f->n_places < FINDING_PLACES)
		f->places[f->n_places] = (struct finding_place){ key, value };
	f->n_places++;
}

/* Make one of both: in *a, with the places of b. */
static void absorb(struct finding *a, const struct finding *b)
{
	bool narrower = is_narrower(b, a);
	struct finding kept = narrower ? *b : *a;
	const struct finding *other = narrower ? a : b;
	kept.n_places = a->n_places;
	memcpy(kept.places, a->places, sizeof(kept.places));
	add_place(&kept, other->key, other->value);
	*a = kept;
}

/* ---- the same samples ---- */

/* Ask for the samples of finding a by other keys, in a time. */
static int open_shared(struct looking *l, const struct finding *a, const char *const *keys,
		       size_t n_keys, int64_t from_ns, int64_t to_ns, struct query **ret)
{
	char *where = findings_where(l->spec->where, a->key, a->value);
	struct query_spec spec = { .where = where,
				   .from_ns = from_ns,
				   .to_ns = to_ns,
				   .event = l->cpu_event,
				   .labels = QUERY_KEYS,
				   .keys = keys,
				   .n_keys = n_keys,
				   .by_start = true,
				   .parts = 2 };
	int rc = where ? query_open(ret, l->store, &spec, l->err)
		       : err_set(l->err, -ENOMEM, "out of memory");
	free(where);
	return rc;
}

/* The rate of the rows that have a value; place: of its key among those of the table. */
static double rate_of(const struct query *q, const struct query_table *t, size_t place,
		      const char *value)
{
	const struct query_info *info = query_info(q);
	uint64_t samples = 0;
	for (size_t i = 0; i < t->n_rows; i++)
		if (!t->rows[i].other && t->rows[i].present[place] &&
		    !strcmp(t->rows[i].values[place], value))
			samples += t->rows[i].samples;
	return info->covered_ns ? (double)samples * (double)info->event->ns_per_sample /
					  (double)info->covered_ns
				: 0;
}

/* Say of those in like[n] how many values of their keys the samples of a have in both ranges. */
static int note_values(struct looking *l, struct finding *a, const char *const *keys,
		       const size_t *like, size_t n)
{
	struct query *q = NULL;
	int rc = n ? open_shared(l, a, keys, n, l->before_ns, l->to_ns, &q) : 0;
	a->n_values = 1;
	for (size_t k = 0; !rc && k < n; k++) {
		struct query_table *t = NULL;
		rc = query_table(q, &keys[k], 1, &t, l->err);
		l->v[like[k]].n_values = 0;
		for (size_t i = 0; !rc && i < t->n_rows; i++)
			l->v[like[k]].n_values += !t->rows[i].other && t->rows[i].present[0];
		query_table_free(t);
	}
	query_close(q);
	return rc;
}

/* Merge into l->v[at] those later ones that its samples have, too; gone[i]: merged. */
static int merge_shared(struct looking *l, size_t at, bool *gone)
{
	struct finding a = l->v[at];
	const char *keys[FINDINGS_CHOSEN_MAX];
	size_t like[FINDINGS_CHOSEN_MAX], n = 0;
	struct query *q = NULL;
	struct query_table *t = NULL;
	for (size_t i = at + 1; i < l->n && n < FINDINGS_CHOSEN_MAX; i++) {
		bool again = false;
		for (size_t k = 0; k < n; k++)
			again |= !strcmp(keys[k], l->v[i].key);
		if (gone[i] || again || !is_alike(l, &a, &l->v[i]))
			continue;
		keys[n] = l->v[i].key;
		like[n++] = i;
	}
	bool less = a.kind == FINDING_LESS;
	int rc = n ? open_shared(l, &a, keys, n, less ? l->before_ns : a.since_ns,
				 a.since_ns + (less ? 0 : a.span_ns), &q)
		   : 0;
	rc = rc || !n ? rc : query_table(q, keys, n, &t, l->err);
	rc = rc ? rc : note_values(l, &l->v[at], keys, like, n);
	for (size_t k = 0; !rc && k < n; k++) {
		const struct finding *b = &l->v[like[k]];
		if (rate_of(q, t, k, b->value) < SHARED * fmax(growth(&a), growth(b)))
			continue;
		absorb(&l->v[at], b);
		gone[like[k]] = true;
	}
	order_places(l, &l->v[at]);
	query_table_free(t);
	query_close(q);
	return rc;
}

static bool overlap(const struct finding *a, const struct finding *b)
{
	return a->since_ns < b->since_ns + b->span_ns && b->since_ns < a->since_ns + a->span_ns;
}

/* The one who waits most for a CPU, of those that are not merged. l->n: nobody does. */
static size_t first_waiter(const struct looking *l, const bool *seen)
{
	size_t most = l->n;
	double weight = -INFINITY;
	for (size_t i = 0; i < l->n; i++) {
		const struct finding *f = &l->v[i];
		if (seen[i] || f->kind != FINDING_RUNQ || growth(f) * (double)f->span_ns <= weight)
			continue;
		weight = growth(f) * (double)f->span_ns;
		most = i;
	}
	return most;
}

/* Whoever waits for a CPU while another waits more is told with that one. */
static int merge_waiters(struct looking *l, bool *gone)
{
	bool *seen = calloc(l->n + 1, sizeof(*seen));
	if (!seen)
		return err_set(l->err, -ENOMEM, "out of memory");
	for (size_t at; (at = first_waiter(l, seen)) < l->n;) {
		seen[at] = true;
		for (size_t i = 0; i < l->n; i++) {
			const struct finding *f = &l->v[i];
			if (seen[i] || f->kind != FINDING_RUNQ || !overlap(f, &l->v[at]))
				continue;
			seen[i] = gone[i] = true;
			add_place(&l->v[at], f->key, f->value);
		}
	}
	free(seen);
	return 0;
}

int findings_merge(struct looking *l)
{
	bool *gone = calloc(l->n + 1, sizeof(*gone));
	size_t n = 0;
	int rc = gone ? 0 : err_set(l->err, -ENOMEM, "out of memory");
	for (size_t i = 0; !rc && i < l->n; i++)
		if (!gone[i] && is_cpu(&l->v[i]))
			rc = merge_shared(l, i, gone);
	rc = rc ? rc : merge_waiters(l, gone);
	for (size_t i = 0; !rc && i < l->n; i++)
		if (!gone[i])
			l->v[n++] = l->v[i];
	if (!rc)
		l->n = n;
	free(gone);
	return rc;
}
